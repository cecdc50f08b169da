package clustertrace

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Limits of a recording, far above those of one cluster.
const (
	MaxNodes     = 100_000
	MaxPods      = 10_000_000
	MaxTemplates = 1_000_000
	maxLine      = 1 << 20 // bytes; an object of the API has at most 1.5 MiB, and its template less
	maxMillis    = int64(cluster.MaxTime / time.Millisecond)
)

// checker holds the state of a recording that the check of its next event depends on.
type checker struct {
	at        time.Duration
	templates []*Template
	nodes     []nodeState
	pods      []podState
	byName    map[string]int32  // present nodes
	present   map[podName]int32 // present pods
}

type nodeState struct {
	name string
	here bool
}

type podName struct{ namespace, name string }

type podState struct {
	name                              podName
	bound, running, finished, deleted bool
}

func newChecker() *checker {
	return &checker{byName: map[string]int32{}, present: map[podName]int32{}}
}

// admit checks an event against the earlier ones and records it. It numbers the node, pod or template that the event
// adds.
func (c *checker) admit(e *Event) error {
	if e.At < c.at || e.At > cluster.MaxTime {
		return fmt.Errorf("time %v, want %v to %v", e.At, c.at, cluster.MaxTime)
	}
	if e.Ago < 0 || e.Ago > cluster.MaxTime {
		return fmt.Errorf("ago %v, want 0 to %v", e.Ago, cluster.MaxTime)
	}
	if err := c.admitKind(e); err != nil {
		return fmt.Errorf("%s: %w", e.Kind, err)
	}
	c.at = e.At
	return nil
}

func (c *checker) admitKind(e *Event) error {
	switch e.Kind {
	case AddTemplate:
		return c.addTemplate(e)
	case AddClass:
		if e.Class == nil || e.Class.Name == "" {
			return fmt.Errorf("no priority_class with a name")
		}
		return nil
	case AddClaim:
		if e.Claim == nil || e.Claim.Name == "" {
			return fmt.Errorf("no claim with a name")
		}
		return checkTerms(e.Claim.Nodes)
	case AddBudget:
		if e.Budget == nil {
			return fmt.Errorf("no budget")
		}
		return e.Budget.Check()
	case AddNode, UpdateNode, RemoveNode:
		return c.admitNode(e)
	case AddPod:
		return c.addPod(e)
	case UpdatePod, BindPod, RunPod, FinishPod, DeletePod:
		return c.admitPod(e)
	case Gap, EndOfSegment:
		return nil
	}
	return fmt.Errorf("unknown kind of event, want one of version %d", Version)
}

func (c *checker) addTemplate(e *Event) error {
	switch {
	case e.Spec == nil:
		return fmt.Errorf("no template")
	case len(c.templates) == MaxTemplates:
		return fmt.Errorf("more than %d templates", MaxTemplates)
	}
	if err := e.Spec.Check(); err != nil {
		return err
	}
	e.Template = int32(len(c.templates))
	c.templates = append(c.templates, e.Spec)
	return nil
}

func (c *checker) admitNode(e *Event) error {
	if e.Kind == AddNode {
		if len(c.nodes) == MaxNodes {
			return fmt.Errorf("more than %d nodes", MaxNodes)
		}
		e.Node = int32(len(c.nodes))
	} else if err := index("node", e.Node, len(c.nodes)); err != nil {
		return err
	} else if !c.nodes[e.Node].here {
		return fmt.Errorf("node %d (%s) was removed", e.Node, c.nodes[e.Node].name)
	}
	if e.Kind == RemoveNode {
		c.nodes[e.Node].here = false
		delete(c.byName, c.nodes[e.Node].name)
		return nil
	}
	if e.Info == nil {
		return fmt.Errorf("no node")
	}
	if err := e.Info.Check(); err != nil {
		return err
	}
	name := e.Info.Name
	if other, ok := c.byName[name]; ok && (e.Kind == AddNode || other != e.Node) {
		return fmt.Errorf("node %s is there as number %d", name, other)
	}
	if e.Kind == AddNode {
		c.nodes = append(c.nodes, nodeState{name, true})
		c.byName[name] = e.Node
	} else if c.nodes[e.Node].name != name {
		return fmt.Errorf("node %d is %s, and cannot become %s", e.Node, c.nodes[e.Node].name, name)
	}
	return nil
}

func (c *checker) addPod(e *Event) error {
	if len(c.pods) == MaxPods {
		return fmt.Errorf("more than %d pods", MaxPods)
	}
	if err := index("template", e.Template, len(c.templates)); err != nil {
		return err
	}
	if e.Name == "" {
		return fmt.Errorf("no name")
	}
	name := podName{c.templates[e.Template].Namespace, e.Name}
	if other, ok := c.present[name]; ok {
		return fmt.Errorf("pod %s/%s is there as number %d", name.namespace, name.name, other)
	}
	e.Pod = int32(len(c.pods))
	c.pods = append(c.pods, podState{name: name})
	c.present[name] = e.Pod
	return nil
}

func (c *checker) admitPod(e *Event) error {
	if err := index("pod", e.Pod, len(c.pods)); err != nil {
		return err
	}
	p := &c.pods[e.Pod]
	wrong := func(why string) error {
		return fmt.Errorf("pod %d (%s/%s) %s", e.Pod, p.name.namespace, p.name.name, why)
	}
	switch {
	case p.deleted:
		return wrong("was deleted")
	case p.finished && e.Kind != DeletePod && e.Kind != UpdatePod:
		return wrong("has finished")
	}
	switch e.Kind {
	case UpdatePod:
		if err := index("template", e.Template, len(c.templates)); err != nil {
			return err
		}
		if ns := c.templates[e.Template].Namespace; ns != p.name.namespace {
			return wrong("cannot move to namespace " + ns)
		}
	case BindPod:
		// The node may have been removed: watches of pods and of nodes are two streams.
		if err := index("node", e.Node, len(c.nodes)); err != nil {
			return err
		}
		if p.bound {
			return wrong("is bound already")
		}
		if err := checkDevices(e.Devices); err != nil {
			return err
		}
		p.bound = true
	case RunPod:
		if !p.bound || p.running {
			return wrong("is not bound, or runs already")
		}
		p.running = true
	case FinishPod:
		if e.Phase != Succeeded && e.Phase != Failed {
			return fmt.Errorf("phase %q, want %s or %s", e.Phase, Succeeded, Failed)
		}
		p.finished = true
	case DeletePod:
		p.deleted = true
		delete(c.present, p.name)
	}
	return nil
}

func index(what string, i int32, n int) error {
	if i < 0 || int(i) >= n {
		return fmt.Errorf("%s number %d, and there are %d so far", what, i, n)
	}
	return nil
}

// Check returns an error if the node is invalid.
func (n *Node) Check() error {
	switch {
	case n.Name == "":
		return fmt.Errorf("node without a name")
	case n.Pods < 0:
		return fmt.Errorf("node %s: %d pods at most, want 0 or more", n.Name, n.Pods)
	case n.GPUs < 0 || n.GPUs > cluster.MaxDevices:
		return fmt.Errorf("node %s: %d GPUs, want 0 to %d", n.Name, n.GPUs, cluster.MaxDevices)
	case n.GPUs > 0 && (n.MilliGPU < 1 || n.MilliGPU > cluster.MaxMilliGPU):
		return fmt.Errorf("node %s: %d thousandths of each GPU, want 1 to %d", n.Name, n.MilliGPU, cluster.MaxMilliGPU)
	}
	for _, t := range n.Taints {
		if !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, t.Effect) || t.Key == "" {
			return fmt.Errorf("node %s: taint %s=%s:%s wants a key and NoSchedule, PreferNoSchedule or NoExecute", n.Name, t.Key, t.Value, t.Effect)
		}
	}
	if err := amounts(n.MilliCPU, n.MemoryBytes, n.Other); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return nil
}

// Check returns an error if the template is invalid.
func (t *Template) Check() error {
	if err := amounts(t.MilliCPU, t.MemoryBytes, t.Other); err != nil {
		return err
	}
	if err := amounts(t.ExtraMilliCPU, t.ExtraMemoryBytes, nil); err != nil {
		return fmt.Errorf("extra: %w", err)
	}
	switch {
	case t.GPUs < 0 || t.GPUs > cluster.MaxDevices:
		return fmt.Errorf("%d GPUs, want 0 to %d", t.GPUs, cluster.MaxDevices)
	case t.GPUs == 0 && t.MilliGPU != 0:
		return fmt.Errorf("%d thousandths of no GPU, want 0", t.MilliGPU)
	case t.GPUs > 0 && (t.MilliGPU < 1 || t.MilliGPU > cluster.MaxMilliGPU):
		return fmt.Errorf("%d thousandths of each GPU, want 1 to %d", t.MilliGPU, cluster.MaxMilliGPU)
	case t.GPUs > 1 && t.MilliGPU < cluster.MaxMilliGPU:
		return fmt.Errorf("%d thousandths of each of %d GPUs, want whole ones", t.MilliGPU, t.GPUs)
	}
	for i := range t.Tolerations {
		if op := t.Tolerations[i].Operator; op != "" && op != "Equal" && op != "Exists" {
			return fmt.Errorf("toleration of %q has operator %q, want Equal or Exists", t.Tolerations[i].Key, op)
		}
	}
	for i := range t.Preferred {
		if err := checkTerms([]Term{t.Preferred[i].Term}); err != nil {
			return err
		}
	}
	return checkTerms(t.Required)
}

func amounts(milliCPU, memory int64, other map[string]int64) error {
	if milliCPU < 0 || milliCPU > cluster.MaxAmount || memory < 0 || memory > cluster.MaxAmount {
		return fmt.Errorf("%d milli-CPU and %d bytes, want 0 to %d of each", milliCPU, memory, cluster.MaxAmount)
	}
	for name, n := range other {
		if n < 0 || n == math.MaxInt64 {
			return fmt.Errorf("%d of %s, want 0 or more", n, name)
		}
	}
	return nil
}

func checkDevices(devices []int) error {
	for i, d := range devices {
		if d < 0 || d >= cluster.MaxDevices || slices.Contains(devices[:i], d) {
			return fmt.Errorf("gpus are %v, want indices from 0 to %d, each once", devices, cluster.MaxDevices-1)
		}
	}
	return nil
}
