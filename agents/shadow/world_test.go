package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// checked chooses nodes at random, and before every few decisions compares the world with one rebuilt from its pods.
type checked struct {
	t     *testing.T
	w     *world
	rng   *rand.Rand
	asked int
}

func (c *checked) Choose(_ context.Context, s *cluster.State, d envs.Decision) (Choice, error) {
	if c.asked++; c.asked%7 == 0 {
		if err := c.w.check(); err != nil {
			c.t.Fatalf("at %v: %v", c.w.now, err)
		}
	}
	var fitting []int32
	for i := range s.Nodes {
		if s.Fits(d.Pod, int32(i)) {
			fitting = append(fitting, int32(i))
		}
	}
	choice := Choice{Node: fitting[c.rng.IntN(len(fitting))]}
	choice.Devices, _ = s.PickDevices(d.Pod, choice.Node)
	return choice, nil
}

// check compares everything that the world keeps up to date with a rebuilt world.
func (w *world) check() error {
	used := make([]node, len(w.nodes))
	shown, present := 0, map[string]int{}
	var queue []int32
	for p := range w.pods {
		q, t := &w.pods[p], w.template(int32(p))
		if q.slot >= 0 && (int(q.slot) >= len(w.slots) || w.slots[q.slot] != int32(p)) {
			return fmt.Errorf("pod %d has index %d, which is another's", p, q.slot)
		}
		switch q.phase {
		case waiting:
			queue = append(queue, int32(p))
			shown++
			if q.slot < 0 || w.state.Pods[q.slot].Phase != cluster.Pending {
				return fmt.Errorf("pod %d waits and is not shown as pending", p)
			}
		case running:
			n := &used[q.node]
			n.used.MilliCPU += t.MilliCPU
			n.used.MemoryBytes += t.MemoryBytes
			n.gpu += int64(t.GPUs) * int64(t.MilliGPU)
			n.pods++
			if q.hidden {
				n.hidden++
			}
			if w.nodes[q.node].info != nil && !q.hidden {
				shown++
				if s := &w.state.Pods[q.slot]; s.Phase != cluster.Running || s.Node != w.nodes[q.node].index {
					return fmt.Errorf("pod %d runs on node %d and is shown as %v on %d", p, q.node, s.Phase, s.Node)
				}
			}
		default:
			if q.slot >= 0 {
				return fmt.Errorf("pod %d of phase %d is shown", p, q.phase)
			}
		}
		if key := owner(t); key != "" && (q.phase == waiting || q.phase == running || q.phase == gated) {
			present[key]++
		}
	}
	if shown != len(w.state.Pods) || shown != len(w.slots) {
		return fmt.Errorf("state has %d pods, want %d", len(w.state.Pods), shown)
	}
	if slices.SortFunc(queue, w.before); !slices.Equal(queue, w.queue) {
		return fmt.Errorf("queue %v, want %v", w.queue, queue)
	}
	for key, o := range w.owners {
		if o.present != present[key] {
			return fmt.Errorf("%s has %d pods, want %d", key, o.present, present[key])
		}
	}
	return w.checkNodes(used)
}

func (w *world) checkNodes(used []node) error {
	var nodes []gpushare.Node
	for i, n := range w.order {
		got, want := &w.nodes[n], &used[n]
		if got.used != want.used || got.gpu != want.gpu || got.pods != want.pods || got.hidden != want.hidden || got.index != int32(i) {
			return fmt.Errorf("node %d: %+v, want %+v", n, *got, *want)
		}
		shown := cluster.Resources{MilliCPU: min(got.used.MilliCPU, got.info.MilliCPU), MemoryBytes: min(got.used.MemoryBytes, got.info.MemoryBytes)}
		if s := &w.state.Nodes[i]; s.Requested != shown || s.Usage != shown {
			return fmt.Errorf("node %d shows %v requested and %v used, want %v", n, s.Requested, s.Usage, shown)
		}
		nodes = append(nodes, gpuNode(got.info))
	}
	var anew gpushare.Inventory
	anew.Reset(nodes, w.catalogue, w.history.fragments)
	for p := range w.pods {
		if q := &w.pods[p]; q.class >= 0 {
			anew.Place(&w.catalogue.Classes[w.classes[q.template]], w.nodes[q.node].index, q.devices)
		}
	}
	if anew.Wasted != w.fragments.Wasted {
		return fmt.Errorf("fragmentation %d, want %d", w.fragments.Wasted, anew.Wasted)
	}
	return nil
}

// shaken returns a recording by the laws of package clustertrace, in which nodes come and go, change their size, and pods
// change their requests, at random.
func shaken(t *testing.T, seed uint64) *Recording {
	t.Helper()
	var b bytes.Buffer
	w, err := clustertrace.NewWriter(&b, clustertrace.Header{Start: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	law := clustertrace.Synthetic{Nodes: 8, Pods: 800, Span: 24 * time.Hour, Load: 0.85, GPUNodes: 0.4}
	rng := rand.New(rand.NewPCG(seed, 1))
	if err := errors.Join(clustertrace.Synthesize(w, law, rng), w.Close(law.Span)); err != nil {
		t.Fatal(err)
	}
	r, err := clustertrace.NewReader("synthetic", &b)
	if err != nil {
		t.Fatal(err)
	}
	calm, err := Read(r)
	if err != nil {
		t.Fatal(err)
	}
	shaken := &Recording{Header: calm.Header}
	infos := map[int32]*clustertrace.Node{}
	var templates []*clustertrace.Template
	of := map[int32]int32{} // templates by pod
	nodes := int32(law.Nodes)
	var number []int32 // of the calm recording's templates
	var running []int32
	for _, e := range calm.Events {
		switch e.Kind {
		case clustertrace.AddNode, clustertrace.UpdateNode:
			if infos[e.Node] == nil && e.Kind == clustertrace.UpdateNode {
				continue // it was removed below
			}
			infos[e.Node] = e.Info
		case clustertrace.AddTemplate:
			templates = append(templates, e.Spec)
		case clustertrace.BindPod:
			running = append(running, e.Pod)
		case clustertrace.FinishPod, clustertrace.DeletePod:
			running = slices.DeleteFunc(running, func(p int32) bool { return p == e.Pod })
		}
		if e.Kind == clustertrace.AddTemplate {
			number = append(number, int32(len(templates)-1))
		}
		if e.Kind == clustertrace.AddPod || e.Kind == clustertrace.UpdatePod {
			e.Template = number[e.Template]
			of[e.Pod] = e.Template
		}
		shaken.Events = append(shaken.Events, e)
		if e.At < time.Hour || rng.IntN(25) > 0 {
			continue
		}
		n := rng.Int32N(int32(law.Nodes))
		switch info := infos[n]; {
		case rng.IntN(4) == 0 && len(running) > 0:
			p := running[rng.IntN(len(running))]
			resized := *templates[of[p]]
			resized.MilliCPU = resized.MilliCPU*int64(1+rng.IntN(4))/2 + 1
			templates, of[p] = append(templates, &resized), int32(len(templates))
			shaken.Events = append(shaken.Events, clustertrace.Event{Kind: clustertrace.AddTemplate, At: e.At, Spec: &resized}, clustertrace.Event{Kind: clustertrace.UpdatePod, At: e.At, Pod: p, Template: of[p]})
		case info == nil:
			anew := *calm.Events[n].Info
			anew.Name = fmt.Sprint("node-", nodes)
			shaken.Events = append(shaken.Events, clustertrace.Event{Kind: clustertrace.AddNode, At: e.At, Node: nodes, Info: &anew})
			nodes++
		case rng.IntN(4) == 0:
			infos[n] = nil
			shaken.Events = append(shaken.Events, clustertrace.Event{Kind: clustertrace.RemoveNode, At: e.At, Node: n})
		default:
			other := *info
			other.MilliCPU = 1 + info.MilliCPU*int64(1+rng.IntN(3))/2
			other.Unschedulable = rng.IntN(3) == 0
			infos[n] = &other
			shaken.Events = append(shaken.Events, clustertrace.Event{Kind: clustertrace.UpdateNode, At: e.At, Node: n, Info: &other})
		}
	}
	return shaken
}

// TestWorldEqualsOneMadeAnew: after any events, what a world keeps up to date is what its pods and nodes say.
func TestWorldEqualsOneMadeAnew(t *testing.T) {
	asked, displaced, deferred := 0, 0, 0
	for seed := range uint64(5) {
		r := shaken(t, seed)
		h, err := read(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		was := newWorld(h, newMeter(0, h.end, time.Hour))
		c := &checked{t: t, w: was, rng: rand.New(rand.NewPCG(seed, 2))}
		if err := was.replayRecorded(t.Context(), &poll{voters: []*voter{{chooser: c, agreed: ratio{make([]float64, 24), make([]float64, 24)}}}}); err != nil {
			t.Fatal(err)
		}
		w := newWorld(h, newMeter(0, h.end, time.Hour))
		c.w = w
		if err := w.replayPolicy(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		for _, one := range []*world{was, w} {
			if err := one.check(); err != nil {
				t.Errorf("seed %d: at the end: %v", seed, err)
			}
		}
		asked, displaced, deferred = asked+c.asked, displaced+w.meter.displaced, deferred+w.meter.deferred
	}
	if asked < 5000 || displaced < 10 || deferred < 10 {
		t.Errorf("%d decisions, %d pods displaced, %d resizes deferred: too few to tell anything", asked, displaced, deferred)
	}
}
