package world

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Size of a container and, times the slots, of a node.
const (
	containerMilliCPU = 2000
	containerMemory   = 8 << 30
)

// Task is the environment of k8s/LRAPlacement-v0 and k8s/LRASubcluster-v0: the next container
// is placed on a node that is chosen at once, or down a tree of threes. It implements
// [envs.Task].
type Task struct {
	src    *source
	levels int // of the tree; 1 chooses among all nodes
	fan    int // children of each vertex

	own *pcg.Source // of the episode
	rng *rand.Rand  // draws from own

	x      lra.Placement
	forbid []uint8    // of each node: bit i forbids the application of limit i
	queue  []uint8    // applications in the order of arrival
	next   int        // index in queue of the container to place, and of its pod
	left   lra.Counts // of the batch, after that container

	level, from int // of the tree: the vertex where a choice is due, by its first node

	tally
	decided int     // choices of a node
	earned  float64 // reward that is held back until the end

	rows []float32 // features of the nodes as they are
	mask []bool    // which nodes permit the container to place
	open int       // how many do

	heap  *departures // nil with a batch
	times online

	meta  []int32 // of the nodes, then of the applications
	perm  []int   // scratch: nodes
	ops   []cluster.Op
	seen  lra.Placement // scratch of remap
	to    []int
	shown []float32
}

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
	_ envs.Limiter    = (*Task)(nil)
	_ envs.Renderer   = (*Task)(nil)
	_ envs.Cloner     = (*Task)(nil)
)

// newTask returns a task that chooses among fan children on each of levels.
func newTask(src *source, fan, levels int) *Task {
	n := src.opts.Nodes
	t := &Task{
		src: src, fan: fan, levels: levels, own: pcg.New(0),
		x: make(lra.Placement, n), forbid: make([]uint8, n), perm: make([]int, n), seen: make(lra.Placement, n), to: make([]int, n),
		rows: make([]float32, n*nodeFeatures), mask: make([]bool, n),
	}
	t.rng = rand.New(t.own)
	if src.opts.Full == FullRemap {
		t.shown = make([]float32, n*nodeFeatures)
	}
	if src.opts.Arrivals == ArrivalsOnline {
		t.heap = &departures{}
	}
	return t
}

// Placement returns the state of each node, which the caller must not change.
func (t *Task) Placement() lra.Placement { return t.x }

// MaxEpisodeSteps implements [envs.Limiter]: a batch ends by itself.
func (t *Task) MaxEpisodeSteps() int {
	if t.heap == nil {
		return 0
	}
	return t.src.opts.Containers * t.levels
}

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	extra := 0
	if t.levels > 1 {
		extra = t.levels
	}
	return space.Dict{Fields: []space.Field{
		{Key: "nodes", Space: space.NewBox(-t.src.bound, t.src.bound, t.fan, nodeFeatures)},
		{Key: "batch", Space: space.NewBox(0, 1, batchFeatures+extra)},
	}}, space.Discrete{N: t.fan}
}

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.src.reseed(t.own, rng)
	t.restart()
	t.drawLimits()
	if t.heap != nil {
		return t.beginOnline(ctx, c)
	}
	t.queue = t.src.drawBatch(t.rng, t.queue)
	for _, a := range t.queue {
		t.left[a]++
	}
	t.ops = t.addNodes(c, t.ops[:0])
	for i, a := range t.queue {
		t.ops = append(t.ops, t.addPod(i, int(a), 0))
	}
	if err := c.Apply(ctx, t.ops); err != nil {
		return err
	}
	t.next = -1
	t.advance()
	return nil
}

// restart empties the nodes and the queue.
func (t *Task) restart() {
	clear(t.x)
	t.queue, t.next, t.left = t.queue[:0], 0, lra.Counts{}
	t.level, t.from, t.decided, t.earned = 0, 0, 0, 0
	t.tally = tally{vacant: len(t.x)}
	for i, k := range t.src.class {
		copy(t.rows[i*nodeFeatures:], t.src.kinds[k].row(noApp, 0))
		t.dues += t.src.kinds[k].dues[0]
	}
}

// drawLimits draws for each restricted application the nodes that are not meant for it.
func (t *Task) drawLimits() {
	clear(t.forbid)
	for i, l := range t.src.limits {
		for k := range t.perm {
			t.perm[k] = k
		}
		for k := range len(t.perm) - l.nodes {
			j := k + t.rng.IntN(len(t.perm)-k)
			t.perm[k], t.perm[j] = t.perm[j], t.perm[k]
			t.forbid[t.perm[k]] |= 1 << i
		}
	}
}

// addNodes appends the ops that make the nodes.
func (t *Task) addNodes(c cluster.Cluster, ops []cluster.Op) []cluster.Op {
	if t.meta == nil {
		t.meta = internNodes(c, len(t.x))
	}
	for i, k := range t.src.class {
		ops = append(ops, addNode(t.meta[i], t.src.kinds[k].plan.Class.Slots))
	}
	return ops
}

// internNodes returns the metadata of n nodes and of the applications.
func internNodes(c cluster.Cluster, n int) []int32 {
	meta := make([]int32, 0, n+lra.NumApps)
	for i := range n {
		meta = append(meta, c.State().Intern(cluster.Meta{Name: "node-" + strconv.Itoa(i)}))
	}
	for _, app := range lra.Apps {
		meta = append(meta, c.State().Intern(cluster.Meta{Name: app}))
	}
	return meta
}

func addNode(meta int32, slots int) cluster.Op {
	return cluster.Op{
		Kind: cluster.AddNode, Meta: meta, MaxPods: int32(slots),
		Resources: cluster.Resources{MilliCPU: int64(slots) * containerMilliCPU, MemoryBytes: int64(slots) * containerMemory},
	}
}

// addPod returns the op that makes the pod of a container.
func (t *Task) addPod(pod, app int, lifetime time.Duration) cluster.Op {
	return podOp(pod, t.meta[len(t.x)+app], lifetime)
}

func podOp(pod int, meta int32, lifetime time.Duration) cluster.Op {
	return cluster.Op{
		Kind: cluster.AddPod, Pod: int32(pod), Meta: meta, Duration: lifetime,
		Resources: cluster.Resources{MilliCPU: containerMilliCPU, MemoryBytes: containerMemory},
	}
}

// app returns the application of the container to place, or noApp.
func (t *Task) app() int {
	if t.next < 0 || t.next >= len(t.queue) {
		return noApp
	}
	return int(t.queue[t.next])
}

// permits reports whether node i permits a container of app now.
func (t *Task) permits(i, app int) bool {
	return t.src.kinds[t.src.class[i]].plan.Next[t.x[i]][app] != lra.NoState && (t.forbid[i] == 0 || t.meant(i, app) || t.violations < t.src.budget)
}

// meant reports whether node i is meant for app.
func (t *Task) meant(i, app int) bool {
	for k, l := range t.src.limits {
		if l.app == app {
			return t.forbid[i]>>k&1 == 0
		}
	}
	return true
}

// refresh brings gains and mask up to date after the container to place has changed.
func (t *Task) refresh() {
	app := t.app()
	t.open = 0
	limited := len(t.src.limits) > 0
	for i, s := range t.x {
		k := t.src.kinds[t.src.class[i]]
		t.rows[i*nodeFeatures+gainFeature] = k.gains[app][s]
		ok := k.open[app][s]
		if limited && ok {
			ok = t.permits(i, app)
		}
		t.mask[i] = ok
		if ok {
			t.open++
		}
	}
}

// advance goes on to the next container of the batch that some node permits.
func (t *Task) advance() {
	for first := true; ; first = false {
		if !first {
			t.rejected++
		}
		before := t.app()
		if t.next++; t.next < len(t.queue) {
			t.left[t.queue[t.next]]--
		}
		if !first || t.app() != before || t.src.budget > 0 {
			t.refresh()
		}
		if t.open > 0 || t.next == len(t.queue) {
			return
		}
	}
}

// Apply implements [envs.Task]: it goes down the tree by one level, and on the last of them
// places the container on the node. A node that does not permit it leaves it pending for ever,
// except with full:remap.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	width := t.width()
	t.from += int(action[0]) * width
	if t.level++; t.level < t.levels {
		return envs.Outcome{}, nil
	}
	node, before := t.from, t.value
	t.level, t.from = 0, 0
	if t.src.opts.Full == FullRemap && lra.Remap(t, t.x, t.seen, t.to) {
		node = t.to[node]
	}
	if t.heap != nil {
		return t.applyOnline(ctx, c, node)
	}
	if err := t.place(ctx, c, node); err != nil {
		return envs.Outcome{}, err
	}
	t.advance()
	end := t.next == len(t.queue)
	return envs.Outcome{Reward: t.pay((t.value-before)/float64(len(t.queue)), end), Terminated: end}, nil
}

// pay returns the reward of a step that earned r.
func (t *Task) pay(r float64, end bool) float64 {
	if t.src.opts.Reward != RewardTerminal {
		return r
	}
	t.earned += r
	if !end {
		return 0
	}
	return t.earned
}

// width returns the number of nodes below each child of the present vertex.
func (t *Task) width() int {
	w := 1
	for range t.levels - 1 - t.level {
		w *= t.fan
	}
	return w
}

// place binds the container to node if that permits it.
func (t *Task) place(ctx context.Context, c cluster.Cluster, node int) error {
	app := t.app()
	t.decided++
	if !t.permits(node, app) {
		t.rejected++
		return nil
	}
	if !t.meant(node, app) {
		t.violations++
	}
	t.ops = append(t.ops[:0], cluster.Op{Kind: cluster.Bind, Pod: int32(t.next), Node: int32(node)})
	if err := c.Apply(ctx, t.ops); err != nil {
		return err
	}
	t.placed++
	t.set(node, t.src.kinds[t.src.class[node]].plan.Next[t.x[node]][app])
	return nil
}

// set changes the state of a node.
func (t *Task) set(node int, to lra.State) {
	k, app := t.src.kinds[t.src.class[node]], t.app()
	t.move(k, t.x[node], to)
	t.x[node] = to
	copy(t.rows[node*nodeFeatures:], k.row(app, to))
	was := t.mask[node]
	t.mask[node] = app != noApp && t.permits(node, app)
	switch {
	case was && !t.mask[node]:
		t.open--
	case !was && t.mask[node]:
		t.open++
	}
}

// slots implements what remap asks.
func (t *Task) Slots(i int) int { return t.src.kinds[t.src.class[i]].plan.Class.Slots }

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) {
	t.info(t.src, dst)
	if t.heap != nil {
		dst[0], dst[1] = t.times.averages(t)
	}
}

var infoColumns = []envs.Column{
	{Name: "throughput", DType: "float64", Doc: "average throughput of a container so far, as a multiple of that alone on a node; over time with online arrivals"},
	{Name: "objective", DType: "float64", Doc: "the objective for each container so far"},
	{Name: "slo_share", DType: "float64", Doc: "share of the running containers with at least slo_threshold"},
	{Name: "vacant_share", DType: "float64", Doc: "share of the nodes without a container"},
	{Name: "placed", DType: "int64", Doc: "containers that were placed"},
	{Name: "rejected", DType: "int64", Doc: "containers that no node permitted, or whose choice did not"},
	{Name: "violations", DType: "int64", Doc: "containers on nodes that are not meant for them"},
}
