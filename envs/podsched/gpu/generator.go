package gpu

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// maxNodeGPUs is the number of devices that an observation shows of a node.
const maxNodeGPUs = 8

// source draws the instances of episodes. It is shared read-only by all environments made
// together.
type source struct {
	opts  Options
	nodes []gpushare.Node
	cat   *gpushare.Catalogue
	lists []podList  // of files; empty generates
	gen   *generator // nil with files
	fixed *instance  // with a reference seed
}

// podList is a file of pods.
type podList struct {
	classes   []int32
	durations []time.Duration
	outlook   outlook
}

// outlook is what policies know of the pods to come.
type outlook struct {
	frag    *gpushare.Fragmenter
	reserve *gpushare.Reserve
	kinds   [3]float64 // parts of the pods: without GPUs, sharing one, bound to models
}

// instance is what an episode is played on.
type instance struct {
	nodes    []int32 // of source.nodes, in the order of the cluster
	arrivals []arrival
	outlook  *outlook
}

// arrival is a pod of an instance.
type arrival struct {
	class    int32
	at       time.Duration
	duration time.Duration // 0 is for ever
}

var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// newSource checks the options and loads the files that they name.
func newSource(o Options) (*source, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &source{opts: o, nodes: GenerateNodes()}
	if o.Nodes != "" {
		var err error
		if s.nodes, err = gpushare.ReadNodes(o.Nodes); err != nil {
			return nil, err
		}
	}
	if err := s.checkNodes(); err != nil {
		return nil, err
	}
	if o.ReferenceSeed >= 0 {
		return s, s.loadReference()
	}
	if len(o.Pods) > 0 {
		return s, s.loadLists()
	}
	var pods []gpushare.Pod
	for _, shape := range generatedShapes() {
		pods = append(pods, gpushare.Pod{Shape: shape})
	}
	var err error
	if s.cat, err = gpushare.NewCatalogue(s.nodes, pods); err != nil {
		return nil, err
	}
	s.gen = newGenerator(&s.opts, s.cat)
	return s, nil
}

func (s *source) checkNodes() error {
	if n := s.opts.NumNodes; n > len(s.nodes) && s.opts.ReferenceSeed < 0 {
		return fmt.Errorf("%w: num_nodes is %d, and there are %d", envs.ErrInvalidOption, n, len(s.nodes))
	}
	gpus := 0
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.GPUs > maxNodeGPUs {
			return fmt.Errorf("gpu: node %s has %d GPUs, want at most %d", n.Name, n.GPUs, maxNodeGPUs)
		}
		if !nodeName.MatchString(n.Name) {
			return fmt.Errorf("gpu: node %q: want a name of lower-case letters, digits, dashes and dots", n.Name)
		}
		gpus += n.GPUs
	}
	if gpus == 0 {
		return fmt.Errorf("gpu: none of the %d nodes has a GPU", len(s.nodes))
	}
	return nil
}

// size returns the number of nodes of an episode.
func (s *source) size() int {
	if s.opts.NumNodes == 0 || s.opts.ReferenceSeed >= 0 {
		return len(s.nodes)
	}
	return s.opts.NumNodes
}

func (s *source) loadReference() error {
	pods, err := gpushare.ReadPods(s.opts.Pods[0])
	if err != nil {
		return err
	}
	w := gpushare.ReferenceWorkload(s.nodes, pods, int64(s.opts.ReferenceSeed), s.opts.LoadEnd)
	s.nodes = w.Nodes
	if s.cat, err = gpushare.NewCatalogue(s.nodes, w.Arrivals); err != nil {
		return err
	}
	o := newOutlook(w.Types, s.cat)
	s.fixed = &instance{outlook: &o}
	for i := range s.nodes {
		s.fixed.nodes = append(s.fixed.nodes, int32(i))
	}
	for i := range w.Arrivals {
		s.fixed.arrivals = append(s.fixed.arrivals, arrival{class: s.cat.Of[w.Arrivals[i].Shape]})
	}
	return nil
}

func (s *source) loadLists() error {
	var all []gpushare.Pod
	var lists [][]gpushare.Pod
	for _, path := range s.opts.Pods {
		pods, err := gpushare.ReadPods(path)
		if err != nil {
			return err
		}
		if gpushare.RequestedMilliGPU(pods) == 0 {
			return fmt.Errorf("gpu: %s: no pod requests a GPU", path)
		}
		lists, all = append(lists, pods), append(all, pods...)
	}
	var err error
	if s.cat, err = gpushare.NewCatalogue(s.nodes, all); err != nil {
		return err
	}
	for k, pods := range lists {
		l := podList{outlook: newOutlook(pods, s.cat)}
		for i := range pods {
			if s.opts.Dynamics == DynamicsTimed && pods[i].Duration == 0 {
				continue
			}
			l.classes = append(l.classes, s.cat.Of[pods[i].Shape])
			l.durations = append(l.durations, pods[i].Duration)
		}
		if len(l.classes) == 0 {
			return fmt.Errorf("gpu: %s: no pod has a creation_time and a later deletion_time, which timed dynamics need", s.opts.Pods[k])
		}
		s.lists = append(s.lists, l)
	}
	return nil
}

func newOutlook(pods []gpushare.Pod, cat *gpushare.Catalogue) outlook {
	o := outlook{frag: gpushare.NewFragmenter(gpushare.TypicalPods(pods), len(pods), &cat.Models), reserve: gpushare.NewReserve(pods, &cat.Models)}
	for i := range pods {
		s := &pods[i].Shape
		for k, is := range []bool{s.GPUs == 0, s.Sharing(), s.Models != ""} {
			if is {
				o.kinds[k] += 1 / float64(len(pods))
			}
		}
	}
	return o
}

// heldOutStream keeps the episodes of the held-out split apart from those of the training split
// even for equal seeds. Its value is arbitrary.
const heldOutStream = 0x6a09e667f3bcc908

// draw makes the instance of an episode in in and reuses its memory.
func (s *source) draw(seed uint64, in *instance) {
	if s.fixed != nil {
		*in = *s.fixed
		return
	}
	if s.opts.Split == SplitHeldOut {
		seed ^= heldOutStream
	}
	rng := rand.New(pcg.New(seed))
	models := s.drawNodes(rng, in)
	in.arrivals = in.arrivals[:0]
	if len(s.lists) > 0 {
		l := &s.lists[rng.IntN(len(s.lists))]
		in.outlook = &l.outlook
		s.fill(in, func() arrival {
			k := rng.IntN(len(l.classes))
			return arrival{class: l.classes[k], duration: l.durations[k]}
		})
	} else {
		law := s.gen.list(rng, func(spec string) bool { return hasModel(spec, models) })
		s.fill(in, func() arrival { return arrival{class: law.draw(rng), duration: gpushare.Seconds(duration(rng))} })
		pods := make([]gpushare.Pod, len(in.arrivals))
		for i, a := range in.arrivals {
			pods[i].Shape = s.cat.Classes[a.class].Shape
		}
		o := newOutlook(pods, s.cat)
		in.outlook = &o
	}
	if s.opts.Dynamics == DynamicsTimed {
		s.schedule(rng, in)
		return
	}
	for i := range in.arrivals {
		in.arrivals[i].duration = 0
	}
}

// drawNodes draws the nodes, at least one of them with a GPU, and returns their models.
func (s *source) drawNodes(rng *rand.Rand, in *instance) map[string]bool {
	for {
		in.nodes = in.nodes[:0]
		models, gpus := map[string]bool{}, 0
		for _, i := range rng.Perm(len(s.nodes))[:s.size()] {
			in.nodes = append(in.nodes, int32(i))
			gpus += s.nodes[i].GPUs
			if m := s.nodes[i].Model; m != "" && s.nodes[i].GPUs > 0 {
				models[m] = true
			}
		}
		if gpus > 0 {
			return models
		}
	}
}

// fill draws pods until they are as many, or request as much, as the options say.
func (s *source) fill(in *instance, draw func() arrival) {
	if s.opts.Dynamics == DynamicsTimed {
		for range s.opts.NumPods {
			in.arrivals = append(in.arrivals, draw())
		}
		return
	}
	var size int64
	for _, i := range in.nodes {
		size += int64(s.nodes[i].GPUs) * gpushare.WholeGPU
	}
	for target, total := s.opts.LoadEnd*float64(size), int64(0); ; {
		a := draw()
		if total += s.cat.Classes[a.class].TotalMilliGPU(); float64(total) > target && len(in.arrivals) > 0 {
			return
		}
		in.arrivals = append(in.arrivals, a)
	}
}

// schedule gives the pods their times of arrival: uniform over as long as the cluster needs to
// serve them at the given load.
func (s *source) schedule(rng *rand.Rand, in *instance) {
	work, size := 0.0, 0.0
	for i := range in.arrivals {
		a := &in.arrivals[i]
		a.duration = min(max(a.duration, time.Second), gpushare.Seconds(s.opts.MaxDuration))
		work += a.duration.Seconds() * float64(s.cat.Classes[a.class].TotalMilliGPU())
	}
	for _, i := range in.nodes {
		size += float64(s.nodes[i].GPUs) * gpushare.WholeGPU
	}
	span := work / (size * s.opts.Load)
	times := make([]time.Duration, len(in.arrivals))
	for i := range times {
		times[i] = gpushare.Seconds(span * rng.Float64())
	}
	slices.Sort(times)
	for i := range times {
		in.arrivals[i].at = times[i]
	}
}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.seed = rng.Uint64()
	t.src.draw(t.seed, &t.in)
	t.nodes = t.nodes[:0]
	for _, i := range t.in.nodes {
		t.nodes = append(t.nodes, t.src.nodes[i])
	}
	t.inventory.Reset(t.nodes, t.src.cat, t.in.outlook.frag)
	t.reset()
	t.create(c.State())
	if err := t.prefill(c.State()); err != nil {
		return err
	}
	return t.advance(ctx, c)
}

// reset forgets the last episode.
func (t *Task) reset() {
	top := int(math.Ceil(100 * max(t.opts.LoadEnd, gpushare.DefaultRatio)))
	if t.curve == nil {
		t.curve = gpushare.NewCurve(top, 0)
	}
	t.curve.Reset(t.inventory.Size.MilliGPU)
	t.watch.reset(t.nodeFeatures(), len(t.nodes))
	if t.opts.Edges == EdgesModel {
		t.watch.edges = rings(t.watch.edges[:0], t.inventory.Nodes)
	}
	t.next, t.current, t.pos, t.freed = 0, -1, 0, 0
	t.queue, t.due, t.running = t.queue[:0], t.due[:0], t.running[:0]
	t.defers = slices.Grow(t.defers[:0], len(t.in.arrivals))[:len(t.in.arrivals)]
	clear(t.defers)
	clear(t.blocked)
	t.arrived, t.placedPods, t.failed = 0, 0, 0
	t.waited, t.completed, t.busy, t.waiting = 0, 0, 0, 0
	t.planned = -1
	t.ops = t.ops[:0]
}

// create adds the ops that make the nodes.
func (t *Task) create(s *cluster.State) {
	for k, i := range t.in.nodes {
		n := &t.nodes[k]
		if t.metas[i] < 0 {
			t.metas[i] = s.Intern(cluster.Meta{Name: n.Name, GPUModel: n.Model})
		}
		op := cluster.Op{
			Kind: cluster.AddNode, Node: int32(k), Meta: t.metas[i], MaxPods: int32(t.inventory.Nodes[k].MaxPods), GPUs: uint8(n.GPUs),
			Resources: cluster.Resources{MilliCPU: n.MilliCPU, MemoryBytes: n.MemoryMiB * gpushare.BytesMiB},
		}
		if n.GPUs > 0 {
			op.MilliGPU = gpushare.WholeGPU
		}
		t.ops = append(t.ops, op)
	}
}

// prefill places pods until option load_start is reached.
func (t *Task) prefill(s *cluster.State) error {
	if t.opts.LoadStart == 0 {
		return nil
	}
	p, err := t.placer(t.opts.Prefill)
	if err != nil {
		return err
	}
	for target := t.opts.LoadStart * float64(t.inventory.Size.MilliGPU); float64(t.arrived) < target && t.next < len(t.in.arrivals); {
		pod := t.arrive(s)
		if node, devices := p.Choose(t.class(pod)); node >= 0 {
			t.bind(s, pod, node, devices)
			t.note()
		} else {
			t.fail(pod)
		}
	}
	return nil
}
