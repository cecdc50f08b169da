package world

import (
	"context"
	"fmt"
	"image"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
)

// hierarchy is what all hierarchical tasks of one Open share.
type hierarchy struct {
	*source
	sub         lra.SubScheduler
	subclusters int
	fan, levels int
}

// subFeatures is the number of features of a sub-cluster, or of a part of the tree: counts,
// free slots, value.
const subFeatures = lra.NumApps + 2

// fillBy makes a SubScheduler of a planner.
type fillBy func(p *lra.Problem) (lra.Placement, error)

// Fill implements [SubScheduler].
func (f fillBy) Fill(p *lra.Problem, x lra.Placement) error {
	y, err := f(p)
	copy(x, y)
	return err
}

// byChooser makes a planner of a chooser, in the order of applications.
func byChooser(chooser func(p *lra.Problem) lra.Chooser) fillBy {
	return func(p *lra.Problem) (lra.Placement, error) { return p.Place(lra.AppOrder(p.Batch), chooser(p)) }
}

// subSchedulers are the baselines that can fill a sub-cluster.
var subSchedulers = map[string]lra.SubScheduler{
	"greedy":              byChooser(func(p *lra.Problem) lra.Chooser { return p.Greedy }),
	"round_robin":         byChooser((*lra.Problem).RoundRobin),
	"least_loaded":        byChooser(func(p *lra.Problem) lra.Chooser { return p.LeastLoaded }),
	"greedy_local_search": fillBy(func(p *lra.Problem) (lra.Placement, error) { return p.GreedyLocalSearch(context.Background()) }),
	"milp": fillBy(func(p *lra.Problem) (lra.Placement, error) {
		s, err := p.Solve(context.Background(), lra.SolveOptions{Nodes: baselineNodes})
		if err != nil {
			return nil, err
		}
		return s.Placement, nil
	}),
}

func newHierarchy(o HierarchicalOptions) (*hierarchy, error) {
	if o.Nodes < 2*lra.SubclusterNodes || o.Nodes%lra.SubclusterNodes != 0 {
		return nil, invalid("nodes is %d, want a multiple of %d, the nodes of a sub-cluster, and at least two of them", o.Nodes, lra.SubclusterNodes)
	}
	h := &hierarchy{subclusters: o.Nodes / lra.SubclusterNodes, levels: 1}
	h.fan = h.subclusters
	var err error
	if o.Tree {
		h.fan = lra.FanOut
		if h.levels, err = treeLevels(h.subclusters); err != nil {
			return nil, err
		}
	}
	ok := false
	if h.sub, ok = subSchedulers[o.SubScheduler]; !ok {
		if h.sub, err = readSubScheduler(o.SubScheduler); err != nil {
			return nil, err
		}
	}
	h.source, err = newSource(o.common())
	return h, err
}

// readSubScheduler reads a file of the published networks or of another known kind.
func readSubScheduler(path string) (lra.SubScheduler, error) {
	switch ext := filepath.Ext(path); {
	case ext == ".npz":
		return lra.ReadSubSchedulerFile(path)
	case ext != "" && lra.SubSchedulerFiles[ext] != nil:
		return lra.SubSchedulerFiles[ext](path)
	}
	return nil, invalid("subscheduler is %q, want one of %v or an .npz file", path, slices.Sorted(maps.Keys(subSchedulers)))
}

// HierarchicalTask is the environment of k8s/LRAHierarchical-v0. It implements [envs.Task].
type HierarchicalTask struct {
	src *hierarchy
	own *pcg.Source
	rng *rand.Rand

	queue       []uint8
	next        int
	left        lra.Counts // of the batch, after the container to place
	parts       []lra.Counts
	totals      []int
	level, from int // the vertex where a choice is due, by its first sub-cluster

	x      lra.Placement // as filled last
	bound  lra.Placement // what pods are bound, at the end
	values []float64     // objective of each sub-cluster by the score table, as filled last
	earned float64       // rewards so far
	tally                // of bound

	meta []int32
	ops  []cluster.Op
}

var (
	_ envs.Task       = (*HierarchicalTask)(nil)
	_ envs.InfoWriter = (*HierarchicalTask)(nil)
	_ envs.Renderer   = (*HierarchicalTask)(nil)
	_ envs.Cloner     = (*HierarchicalTask)(nil)
)

func newHierarchicalTask(src *hierarchy) *HierarchicalTask {
	t := &HierarchicalTask{
		src: src, own: pcg.New(0), parts: make([]lra.Counts, src.subclusters), totals: make([]int, src.subclusters),
		values: make([]float64, src.subclusters), x: make(lra.Placement, src.opts.Nodes), bound: make(lra.Placement, src.opts.Nodes),
	}
	t.rng = rand.New(t.own)
	return t
}

// Placement returns the state of each node as filled last, which the caller must not change.
func (t *HierarchicalTask) Placement() lra.Placement { return t.x }

// Spaces implements [envs.Task].
func (t *HierarchicalTask) Spaces() (obs, act space.Space) {
	extra := 0
	if t.src.levels > 1 {
		extra = t.src.levels
	}
	return space.Dict{Fields: []space.Field{
		{Key: "nodes", Space: space.NewBox(-t.src.bound, t.src.bound, t.src.fan, subFeatures)},
		{Key: "batch", Space: space.NewBox(0, 1, batchFeatures+extra)},
	}}, space.Discrete{N: t.src.fan}
}

// Begin implements [envs.Task].
func (t *HierarchicalTask) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.src.reseed(t.own, rng)
	t.queue = t.src.drawBatch(t.rng, t.queue[:0])
	t.next, t.left, t.level, t.from, t.earned = 0, lra.Counts{}, 0, 0, 0
	for _, a := range t.queue {
		t.left[a]++
	}
	t.left[t.queue[0]]--
	clear(t.parts)
	clear(t.totals)
	clear(t.x)
	clear(t.values)
	clear(t.bound)
	t.tally = tally{vacant: len(t.x)}
	if t.meta == nil {
		t.meta = internNodes(c, len(t.x))
	}
	t.ops = t.ops[:0]
	for i := range t.x {
		t.ops = append(t.ops, addNode(t.meta[i], lra.MaxSlots))
	}
	for i, a := range t.queue {
		t.ops = append(t.ops, podOp(i, t.meta[len(t.x)+int(a)], 0))
	}
	return c.Apply(ctx, t.ops)
}

// width returns the number of sub-clusters below each child of the present vertex.
func (t *HierarchicalTask) width() int {
	w := 1
	for range t.src.levels - 1 - t.level {
		w *= t.src.fan
	}
	return w
}

const subSlots = lra.SubclusterNodes * lra.MaxSlots

// Apply implements [envs.Task]: it goes down the tree by one level, and on the last gives the
// container to the sub-cluster. If that is full the container is lost. After the last container
// the sub-clusters are filled, and the pods bound.
func (t *HierarchicalTask) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	t.from += int(action[0]) * t.width()
	if t.level++; t.level < t.src.levels {
		return envs.Outcome{}, nil
	}
	sub, app := t.from, int(t.queue[t.next])
	t.level, t.from = 0, 0
	if t.totals[sub] < subSlots {
		t.parts[sub][app]++
		t.totals[sub]++
	} else {
		t.rejected++
		t.queue[t.next] = noApp // so that no pod is bound
	}
	if t.next++; t.next < len(t.queue) {
		t.left[t.queue[t.next]]--
	}
	end := t.next == len(t.queue)
	o := envs.Outcome{Terminated: end}
	if t.src.opts.Reward == RewardDense && !end {
		before := t.values[sub]
		if err := t.fill(sub); err != nil {
			return o, err
		}
		o.Reward = (t.values[sub] - before) / float64(len(t.queue))
	}
	if end {
		if err := t.finish(ctx, c); err != nil {
			return o, err
		}
		o.Reward = t.value/float64(len(t.queue)) - t.earned
	}
	t.earned += o.Reward
	return o, nil
}

// fill lets the sub-scheduler fill a sub-cluster with its part.
func (t *HierarchicalTask) fill(sub int) error {
	from, to := sub*lra.SubclusterNodes, (sub+1)*lra.SubclusterNodes
	x := t.x[from:to]
	clear(x)
	kind := t.src.kinds[0]
	if t.totals[sub] > 0 {
		p := &lra.Problem{Models: kind.forbidding, Class: t.src.class[from:to], Batch: t.parts[sub]}
		if err := t.src.sub.Fill(p, x); err != nil {
			return fmt.Errorf("fill sub-cluster %d with %v: %w", sub, t.parts[sub], err)
		}
	}
	t.values[sub] = 0
	for _, s := range x {
		t.values[sub] += kind.score.Value[s]
	}
	return nil
}

// finish fills all sub-clusters and binds the pods.
func (t *HierarchicalTask) finish(ctx context.Context, c cluster.Cluster) error {
	for sub := range t.parts {
		if err := t.fill(sub); err != nil {
			return err
		}
	}
	t.ops = t.ops[:0]
	var node [lra.NumApps]int // where the next container of each application may go
	for pod, app := range t.queue {
		if app == noApp {
			continue
		}
		n := &node[app]
		for t.bound[*n].Count(int(app)) == t.x[*n].Count(int(app)) {
			*n++
		}
		t.ops = append(t.ops, cluster.Op{Kind: cluster.Bind, Pod: int32(pod), Node: int32(*n)})
		next := t.bound[*n].Add(int(app))
		t.move(t.src.kinds[0], t.bound[*n], next)
		t.bound[*n] = next
		t.placed++
	}
	return c.Apply(ctx, t.ops)
}

// Observe implements [envs.Task].
func (t *HierarchicalTask) Observe(_ *cluster.State, obs []float32, mask []bool) {
	clear(obs)
	width, end := t.width(), t.next == len(t.queue)
	permitted := false
	for c := range t.src.fan {
		row := obs[c*subFeatures : (c+1)*subFeatures]
		free := 0
		for i := t.from + c*width; i < t.from+(c+1)*width; i++ {
			for a, k := range t.parts[i] {
				row[a] += float32(k) / float32(subSlots*width)
			}
			free += subSlots - t.totals[i]
			row[lra.NumApps+1] += float32(t.values[i] / float64(subSlots*width))
		}
		row[lra.NumApps] = float32(free) / float32(subSlots*width)
		mask[c] = free > 0 && !end
		permitted = permitted || mask[c]
	}
	if !permitted {
		for i := range mask {
			mask[i] = true
		}
	}
	batch := obs[t.src.fan*subFeatures:]
	used := 0
	for _, n := range t.totals {
		used += n
	}
	if free := t.src.slots - used; !end {
		batch[t.queue[t.next]] = 1
		for a, k := range t.left {
			batch[lra.NumApps+a] = float32(k) / float32(free)
		}
		batch[2*lra.NumApps] = float32(t.left.Total()) / float32(free)
	}
	batch[2*lra.NumApps+1] = float32(used) / float32(t.src.slots)
	if t.src.levels > 1 {
		batch[batchFeatures+t.level] = 1
	}
}

// Info implements [envs.InfoWriter]. Nothing is placed before the end.
func (t *HierarchicalTask) Info(_ *cluster.State, dst []float64) { t.info(t.src.source, dst) }

func (t *HierarchicalTask) view() *view {
	return &view{
		title: fmt.Sprintf("divided %d of %d  throughput of a container %.4f", t.next, len(t.queue), t.throughput/float64(max(1, t.placed))),
		x:     t.x,
		value: func(i int, s lra.State) float64 { return t.src.kinds[t.src.class[i]].throughput[s] },
	}
}

// RenderANSI implements [envs.Renderer]: a table of the nodes, which are empty until the end or,
// with dense rewards, as filled last.
func (t *HierarchicalTask) RenderANSI(*cluster.State) string { return t.view().text() }

// RenderRGB implements [envs.Renderer]: the placement matrix as a heat map.
func (t *HierarchicalTask) RenderRGB(*cluster.State) *image.RGBA { return t.view().heat() }

// divide wraps a choice of a sub-cluster as a rule.
func divide(start func(t *HierarchicalTask) func(app int) int) func(envs.Task) (envs.Rule, error) {
	return func(task envs.Task) (envs.Rule, error) {
		t, ok := task.(*HierarchicalTask)
		if !ok {
			return nil, fmt.Errorf("lra: a baseline of division for a task of type %T", task)
		}
		var next func(app int) int
		sub, container := 0, 0
		return func(_ context.Context, _ *cluster.State, first bool, action []float32) error {
			if first {
				next = start(t)
			}
			if first || t.level == 0 || t.next != container { // or it was not asked at the root
				sub, container = next(int(t.queue[t.next])), t.next
			}
			width := t.width()
			if end := t.from + t.src.fan*width; sub < t.from || sub >= end { // other choices were made on the way down
				sub = t.from + max(0, slices.IndexFunc(t.totals[t.from:end], func(k int) bool { return k < subSlots }))
			}
			action[0] = float32((sub - t.from) / width)
			return nil
		}, nil
	}
}

var hierarchicalBaselines = []envs.Baseline{
	{Name: "random", Doc: "Draws among the sub-clusters that are not full.",
		New: divide(func(t *HierarchicalTask) func(int) int {
			rng := newBaselineRand()
			return func(int) int {
				choice, n := 0, 0
				for i, k := range t.totals {
					if k < subSlots {
						if n++; rng.IntN(n) == 0 {
							choice = i
						}
					}
				}
				return choice
			}
		})},
	{Name: "round_robin", Doc: "Takes the sub-clusters in turn.",
		New: divide(func(t *HierarchicalTask) func(int) int {
			i := -1
			return func(int) int {
				for i = (i + 1) % len(t.totals); t.totals[i] == subSlots; {
					i = (i + 1) % len(t.totals)
				}
				return i
			}
		})},
	{Name: "equal_split", Doc: "Takes the sub-cluster with the fewest containers, then the fewest of the application: Metis's demonstration.",
		New: divide(func(t *HierarchicalTask) func(int) int {
			return func(app int) int { return lra.LeastPart(t.totals, t.parts, app) }
		})},
}
