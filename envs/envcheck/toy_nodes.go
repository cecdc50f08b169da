package envcheck

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// LargestNode asks for the node with the largest first feature among those that the mask permits; it earns 1. The mask
// permits half of the n nodes, rounded up. The second feature is noise. With wait there is one more action, which never
// earns anything. An episode has 50 steps, so the optimal return is 50. The baseline Largest attains it.
func LargestNode(n int, wait bool) *envs.Spec {
	s := toySpec("toy/LargestNode-v0", 50, func() envs.Task { return &largestNode{n: n, wait: wait} })
	s.Baselines = answer("Largest", "Chooses the right node.", func(t *largestNode, action []float32) { action[0] = float32(t.best()) })
	return s
}

type largestNode struct {
	n         int
	wait      bool
	features  []float32
	permitted []bool
	rng       *rand.Rand
}

func (t *largestNode) Spaces() (obs, act space.Space) {
	actions := t.n
	if t.wait {
		actions++
	}
	return space.Dict{Fields: []space.Field{{Key: "nodes", Space: space.NewBox(0, 1, t.n, 2)}}}, space.Discrete{N: actions}
}

func (t *largestNode) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	t.rng, t.features, t.permitted = rng, make([]float32, 2*t.n), make([]bool, t.n)
	t.draw()
	return nil
}

func (t *largestNode) draw() {
	for i := range t.features {
		t.features[i] = t.rng.Float32()
	}
	for i := range t.permitted {
		t.permitted[i] = 2*i < t.n
	}
	t.rng.Shuffle(t.n, func(i, j int) { t.permitted[i], t.permitted[j] = t.permitted[j], t.permitted[i] })
}

func (t *largestNode) best() int {
	best := -1
	for i, ok := range t.permitted {
		if ok && (best < 0 || t.features[2*i] > t.features[2*best]) {
			best = i
		}
	}
	return best
}

func (t *largestNode) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	var o envs.Outcome
	if int(action[0]) == t.best() {
		o.Reward = 1
	}
	t.draw()
	return o, nil
}

func (t *largestNode) Observe(_ *cluster.State, obs []float32, mask []bool) {
	copy(obs, t.features)
	space.PermitAll(mask)
	copy(mask, t.permitted)
}

// Partner pairs an even number n of nodes by edges and marks one. Its partner is the right node and earns 1. The mask
// forbids the marked node. No feature distinguishes the other nodes, so a policy that passes no messages is right with
// probability 1/(n-1). As many distractor edges are masked out. An episode has 50 steps, so the optimal return is 50.
func Partner(n int) *envs.Spec {
	return toySpec("toy/Partner-v0", 50, func() envs.Task { return &partner{n: n} })
}

type partner struct {
	n, marked int
	order     []int // nodes 2i and 2i+1 of it are partners
	astray    []float32
	rng       *rand.Rand
}

func (t *partner) Spaces() (obs, act space.Space) {
	return space.Dict{Fields: []space.Field{
		{Key: "nodes", Space: space.NewBox(0, 1, t.n, 1)},
		{Key: "edges", Space: space.NewBox(0, float32(t.n-1), t.n, 2)},
		{Key: "edge_mask", Space: space.NewBox(0, 1, t.n)},
	}}, space.Discrete{N: t.n}
}

func (t *partner) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	t.rng, t.order, t.astray = rng, make([]int, t.n), make([]float32, t.n)
	t.draw()
	return nil
}

func (t *partner) draw() {
	copy(t.order, t.rng.Perm(t.n))
	for i := range t.astray {
		t.astray[i] = float32(t.rng.IntN(t.n))
	}
	t.marked = t.rng.IntN(t.n)
}

func (t *partner) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	var o envs.Outcome
	if int(action[0]) == t.order[t.marked^1] {
		o.Reward = 1
	}
	t.draw()
	return o, nil
}

func (t *partner) Observe(_ *cluster.State, obs []float32, mask []bool) {
	clear(obs)
	space.PermitAll(mask)
	obs[t.order[t.marked]], mask[t.order[t.marked]] = 1, false
	edges, edgeMask := obs[t.n:3*t.n], obs[3*t.n:]
	for i, node := range t.order {
		edges[i] = float32(node)
	}
	copy(edges[t.n:], t.astray)
	for i := range t.n / 2 {
		edgeMask[i] = 1
	}
}

// RecalledNode asks in each step for the node with the largest or for the node with the smallest first feature. A
// number that belongs to no node tells which, in the first step only; later it is 0. The right node earns 1; nodes,
// mask and features are those of LargestNode. An episode has the given length, which is the optimal return and that of
// the baseline Recall. After the first step, a policy without memory can only guess which of the two is right.
func RecalledNode(n, length int) *envs.Spec {
	s := toySpec("toy/RecalledNode-v0", 0, func() envs.Task { return &recalledNode{largestNode: largestNode{n: n}, length: length} })
	s.Baselines = answer("Recall", "Chooses the right node.", func(t *recalledNode, action []float32) { action[0] = float32(t.wanted()) })
	return s
}

type recalledNode struct {
	largestNode
	length, k int
	smallest  bool
}

func (t *recalledNode) Spaces() (obs, act space.Space) {
	nodes, act := t.largestNode.Spaces()
	fields := append([]space.Field{{Key: "cue", Space: space.NewBox(-1, 1, 1)}}, nodes.(space.Dict).Fields...)
	return space.Dict{Fields: fields}, act
}

func (t *recalledNode) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	t.k, t.smallest = 0, rng.IntN(2) == 0
	return t.largestNode.Begin(ctx, c, rng)
}

// wanted returns the right node.
func (t *recalledNode) wanted() int {
	if !t.smallest {
		return t.best()
	}
	worst := -1
	for i, ok := range t.permitted {
		if ok && (worst < 0 || t.features[2*i] < t.features[2*worst]) {
			worst = i
		}
	}
	return worst
}

func (t *recalledNode) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	t.k++
	o := envs.Outcome{Terminated: t.k == t.length}
	if int(action[0]) == t.wanted() {
		o.Reward = 1
	}
	t.draw()
	return o, nil
}

func (t *recalledNode) Observe(s *cluster.State, obs []float32, mask []bool) {
	obs[0] = 0
	if t.k == 0 {
		obs[0] = 1
		if t.smallest {
			obs[0] = -1
		}
	}
	t.largestNode.Observe(s, obs[1:], mask)
}
