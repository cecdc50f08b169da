package gpu

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
)

var _ envs.Continuer = (*Task)(nil)

// newLive returns a function that makes a task for a running cluster with the given number of nodes.
func newLive(defaults func() Options) func(opts map[string]any, nodes int) (envs.Live, error) {
	return func(opts map[string]any, nodes int) (envs.Live, error) {
		o := defaults()
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
}

// Attend implements [envs.Live]. It expects future pods to resemble those of s.
func (t *Task) Attend(s *cluster.State, d envs.Decision) error {
	switch n := t.opts.NumNodes; {
	case len(s.Nodes) != n:
		return fmt.Errorf("gpu: %d nodes, want the %d that the task was made for", len(s.Nodes), n)
	case uint(d.Pod) >= uint(len(s.Pods)) || s.Pods[d.Pod].Phase != cluster.Pending:
		return fmt.Errorf("gpu: pod %d of %d, want one that is pending", d.Pod, len(s.Pods))
	}
	var err error
	if t.nodes, err = gpuworkload.AppendNodes(t.nodes[:0], s); err != nil {
		return err
	}
	if err := t.attendPods(s, d); err != nil {
		return err
	}
	gpuworkload.Restrict(t.src.Catalogue, s) // for the pods to come in a search
	c := t.class(d.Pod)
	c.ExtraCPU, c.ExtraMemory = gpuworkload.ExtraOf(d.PodExtra)
	c.Allowed = make([]bool, len(t.nodes))
	s.FitMask(d.Pod, c.Allowed)
	t.current = d.Pod
	t.arrived = t.inventory.Used.MilliGPU + c.TotalMilliGPU()
	t.seed++ // a random policy draws independently in each decision
	return nil
}

// CanContinue implements [envs.Continuer].
func (t *Task) CanContinue() error {
	if t.Timed() {
		return fmt.Errorf("%w: option dynamics is %s", envs.ErrCannotResample, DynamicsTimed)
	}
	return nil
}

// attendPods reads the present pods of s and places the running ones.
func (t *Task) attendPods(s *cluster.State, d envs.Decision) error {
	pods := gpuworkload.Present(s)
	own := gpushare.Pod{Shape: gpuworkload.ShapeOf(s, d.Pod)}
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
		a := gpuworkload.Arrival{At: s.Now, Class: -1}
		if s.Pods[i].Phase != cluster.Deleted {
			a.Class = cat.Of[gpuworkload.ShapeOf(s, int32(i))]
		}
		if t.Timed() && int32(i) == d.Pod {
			a.At -= d.Waited
		}
		t.in.Arrivals = append(t.in.Arrivals, a)
		t.next++
		switch p := &s.Pods[i]; {
		case p.Phase == cluster.Running:
			t.inventory.Place(&cat.Classes[a.Class], p.Node, p.Devices)
		case p.Phase == cluster.Pending && t.Timed():
			t.queue = append(t.queue, int32(i))
		}
	}
	gpuworkload.AddExtra(&t.inventory, d.Extra)
	return nil
}

// Devices implements [envs.Live]: those of a baseline's plan, or of option devices.
func (t *Task) Devices(node int32) uint64 {
	if t.planned == node {
		return t.devices
	}
	return t.table.Row(t.class(t.current))[node].Devices
}
