package gpu

import (
	"fmt"
	"math"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
)

var _ envs.Live = (*Task)(nil)

// newLive returns a task for a running cluster with the given number of nodes.
func newLive(opts map[string]any, nodes int) (envs.Live, error) {
	o := DefaultOptions()
	if err := envs.DecodeOptions(opts, &o); err != nil {
		return nil, err
	}
	o.Nodes, o.Pods, o.ReferenceSeed, o.NumNodes, o.LoadStart = "", nil, -1, nodes, 0
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Defer {
		return nil, fmt.Errorf("%w: option \"defer\" is true: in a running cluster pods that fit no node wait, and others are not put off", envs.ErrInvalidOption)
	}
	return newTask(&source{o, gpuworkload.NewLive(nodes)}), nil
}

// Attend implements [envs.Live]. It expects pods to come that are like those of s.
func (t *Task) Attend(s *cluster.State, d envs.Decision) error {
	switch n := t.opts.NumNodes; {
	case len(s.Nodes) != n:
		return fmt.Errorf("gpu: %d nodes, want the %d that the task was made for", len(s.Nodes), n)
	case uint(d.Pod) >= uint(len(s.Pods)) || s.Pods[d.Pod].Phase != cluster.Pending:
		return fmt.Errorf("gpu: pod %d of %d, want one that is pending", d.Pod, len(s.Pods))
	}
	if err := t.attendNodes(s); err != nil {
		return err
	}
	if err := t.attendPods(s, d); err != nil {
		return err
	}
	c := t.class(d.Pod)
	c.ExtraCPU, c.ExtraMemory = extraOf(d.PodExtra)
	c.Allowed = make([]bool, len(t.nodes))
	s.FitMask(d.Pod, c.Allowed)
	t.current = d.Pod
	t.arrived = t.inventory.Used.MilliGPU + c.TotalMilliGPU()
	t.seed++ // the draws of a policy that draws are its own in each decision
	return nil
}

// attendNodes reads the nodes of s.
func (t *Task) attendNodes(s *cluster.State) error {
	t.nodes = t.nodes[:0]
	gpus := 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.NumDevices > maxNodeGPUs {
			return fmt.Errorf("gpu: node %s has %d GPUs, want at most %d", s.NodeName(int32(i)), n.NumDevices, maxNodeGPUs)
		}
		gpus += int(n.NumDevices)
		node := gpushare.Node{
			Name: s.NodeName(int32(i)), MilliCPU: n.Allocatable.MilliCPU, MemoryMiB: n.Allocatable.MemoryBytes / gpushare.BytesMiB,
			GPUs: int(n.NumDevices), MaxPods: int(n.MaxPods),
		}
		if n.NumDevices > 0 {
			node.Model = s.Meta(n.Meta).GPUModel
		}
		if n.MaxPods == 0 {
			node.MaxPods = math.MaxInt32
		}
		t.nodes = append(t.nodes, node)
	}
	if gpus == 0 {
		return fmt.Errorf("gpu: none of the %d nodes has a GPU", len(s.Nodes))
	}
	return nil
}

// attendPods reads the pods of s that are present, and places those that run.
func (t *Task) attendPods(s *cluster.State, d envs.Decision) error {
	pods := make([]gpushare.Pod, 0, len(s.Pods)) // those that are present
	for i := range s.Pods {
		if s.Pods[i].Phase != cluster.Deleted {
			pods = append(pods, gpushare.Pod{Shape: shapeOf(s, int32(i))})
		}
	}
	own := gpushare.Pod{Shape: shapeOf(s, d.Pod)}
	if err := own.Check(); err != nil {
		return fmt.Errorf("gpu: pod %s: %w", s.PodName(d.Pod), err)
	}
	cat, err := gpushare.NewCatalogue(t.nodes, pods)
	if err != nil {
		return err
	}
	o := gpuworkload.NewOutlook(pods, cat)
	t.src.Catalogue, t.in = cat, gpuworkload.Instance{Outlook: &o}
	t.inventory.Reset(t.nodes, cat, o.Frag)
	t.reset()
	t.blocked = make([]int, len(cat.Classes))
	t.defers = make([]uint8, len(s.Pods))
	for i := range s.Pods {
		a := gpuworkload.Arrival{At: s.Now}
		if s.Pods[i].Phase != cluster.Deleted {
			a.Class = cat.Of[shapeOf(s, int32(i))]
		}
		if t.timed() && int32(i) == d.Pod {
			a.At -= d.Waited
		}
		t.in.Arrivals = append(t.in.Arrivals, a)
		switch p := &s.Pods[i]; {
		case p.Phase == cluster.Running:
			t.inventory.Place(&cat.Classes[a.Class], p.Node, p.Devices)
		case p.Phase == cluster.Pending && t.timed():
			t.queue = append(t.queue, int32(i))
		}
	}
	for i := range d.Extra {
		n := &t.inventory.Nodes[i]
		n.ExtraCPU, n.ExtraMemory = extraOf(d.Extra[i])
	}
	return nil
}

// shapeOf returns the shape of a pod of s.
func shapeOf(s *cluster.State, pod int32) gpushare.Shape {
	p := &s.Pods[pod]
	return gpushare.Shape{
		MilliCPU: p.Requests.MilliCPU, MemoryMiB: (p.Requests.MemoryBytes + gpushare.BytesMiB - 1) / gpushare.BytesMiB,
		GPUs: p.GPUs, MilliGPU: p.MilliGPU, Models: strings.Join(s.Meta(p.Meta).GPUModels, "|"),
	}
}

// extraOf returns what scores count beyond requests, in the units of the inventory.
func extraOf(r cluster.Resources) (milliCPU, memoryMiB int64) {
	return r.MilliCPU, (r.MemoryBytes + gpushare.BytesMiB - 1) / gpushare.BytesMiB
}

// Devices implements [envs.Live]: those of the plan of a baseline, or of option devices.
func (t *Task) Devices(node int32) uint64 {
	if t.planned == node {
		return t.devices
	}
	return t.table.Row(t.class(t.current))[node].Devices
}
