package clustertest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// metaPool is the metadata that random ops name: first the valid, then the invalid. Lists are in sorted order, which
// Intern keeps.
var metaPool = []cluster.Meta{
	{Name: "plain"},
	{Name: "zone-a", Labels: []cluster.Label{{Key: "disk", Value: "ssd"}, {Key: "zone", Value: "a"}}},
	{Name: "zone-b", Labels: []cluster.Label{{Key: "zone", Value: "b"}}, GPUModel: "A100"},
	{Name: "tainted", Taints: []cluster.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}, GPUModel: "T4"},
	{Name: "leaving", Taints: []cluster.Taint{{Key: "gpu", Value: "yes", Effect: "NoExecute"}, {Key: "slow", Effect: "PreferNoSchedule"}}},
	{Name: "plain", Labels: []cluster.Label{{Key: "zone", Value: "a"}}},
	{Name: "wants-a", NodeSelector: []cluster.Label{{Key: "zone", Value: "a"}}},
	{Name: "wants-ssd", NodeSelector: []cluster.Label{{Key: "disk", Value: "ssd"}, {Key: "zone", Value: "a"}}},
	{Name: "tolerates-all", Tolerations: []cluster.Toleration{{Operator: "Exists"}}},
	{Name: "tolerates-value", Tolerations: []cluster.Toleration{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}},
	{Name: "tolerates-other", Tolerations: []cluster.Toleration{{Key: "gpu", Operator: "Equal", Value: "no"}}},
	{Name: "tolerates-key", Tolerations: []cluster.Toleration{{Key: "gpu", Operator: "Exists", Effect: "NoExecute"}}},
	{Name: "wants-model", GPUModels: []string{"A100", "V100"}, Tolerations: []cluster.Toleration{{Key: "gpu", Operator: "Exists"}}},
	{Name: "wants-t4", GPUModels: []string{"T4"}, Tolerations: []cluster.Toleration{{Key: "gpu", Operator: "Exists"}}},

	{},
	{Name: "Upper"},
	{Name: "bad-taint", Taints: []cluster.Taint{{Key: "a", Effect: "Never"}}},
	{Name: "bad-operator", Tolerations: []cluster.Toleration{{Key: "a", Operator: "Lt", Value: "1"}}},
	{Name: "bad-exists", Tolerations: []cluster.Toleration{{Key: "a", Operator: "Exists", Value: "1"}}},
	{Name: "bad-equal", Tolerations: []cluster.Toleration{{Value: "1"}}},
}

// generator draws ops. Most are legal, the others invalid in every possible way.
type generator struct {
	rng *rand.Rand
	m   *model
}

// one reports true with probability 1/n.
func (g *generator) one(n int) bool { return g.rng.IntN(n) == 0 }

// pick draws an index, sometimes one that does not exist.
func (g *generator) pick(n int) int32 {
	if n == 0 || g.one(30) {
		return []int32{-1, int32(n), math.MaxInt32, math.MinInt32}[g.rng.IntN(4)]
	}
	return int32(g.rng.IntN(n))
}

// pod draws a pod, most often one in that phase.
func (g *generator) pod(phase string) int32 {
	var in []int32
	for i := range len(g.m.pods) {
		if g.m.pods[i].phase == phase {
			in = append(in, int32(i))
		}
	}
	if len(in) == 0 || g.one(8) {
		return g.pick(len(g.m.pods))
	}
	return in[g.rng.IntN(len(in))]
}

func (g *generator) resources(scale int64) cluster.Resources {
	if g.one(40) {
		wild := []int64{-1, math.MinInt64, math.MaxInt64, 1 << 53, 1<<53 + 1}
		return cluster.Resources{MilliCPU: wild[g.rng.IntN(5)], MemoryBytes: wild[g.rng.IntN(5)]}
	}
	return cluster.Resources{MilliCPU: g.rng.Int64N(scale), MemoryBytes: g.rng.Int64N(scale)}
}

// sizes fills the requests and limits of an op.
func (g *generator) sizes(op *cluster.Op) {
	op.Resources = g.resources(400)
	if g.one(3) {
		op.Limits = cluster.Resources{MilliCPU: g.rng.Int64N(1200) - 1, MemoryBytes: g.rng.Int64N(1200) - 1}
	}
}

func (g *generator) gpus(op *cluster.Op, devices []uint8, milli []int32) {
	op.GPUs = devices[g.rng.IntN(len(devices))]
	if op.GPUs > 0 || g.one(40) {
		op.MilliGPU = milli[g.rng.IntN(len(milli))]
	}
	if g.one(60) {
		op.GPUs, op.MilliGPU = uint8(g.rng.IntN(256)), g.rng.Int32N(2000)-500
	}
}

func (g *generator) op() cluster.Op {
	var op cluster.Op
	switch r := g.rng.IntN(100); {
	case r < 8 || len(g.m.nodes) == 0:
		op = cluster.Op{Kind: cluster.AddNode, Meta: g.pick(len(metaPool)), Resources: g.resources(2000), MaxPods: g.rng.Int32N(7)}
		g.gpus(&op, []uint8{0, 0, 1, 2, 4, 8, 64}, []int32{1000, 1000, 500})
		if g.one(50) {
			op.MaxPods = -1
		}
	case r < 35 || len(g.m.pods) == 0:
		op = cluster.Op{Kind: cluster.AddPod, Meta: g.pick(len(metaPool)), Duration: time.Duration(g.rng.IntN(6))}
		g.sizes(&op)
		g.gpus(&op, []uint8{0, 0, 0, 1, 1, 2}, []int32{100, 250, 500, 1000})
		if g.one(50) {
			op.Duration = []time.Duration{-1, math.MaxInt64, 1 << 61}[g.rng.IntN(3)]
		}
	case r < 65:
		op = cluster.Op{Kind: cluster.Bind, Pod: g.pod("Pending"), Node: g.pick(len(g.m.nodes))}
		op.Devices = g.devices(op)
	case r < 69:
		op = cluster.Op{Kind: cluster.Evict, Pod: g.pod("Running")}
	case r < 74:
		op = cluster.Op{Kind: cluster.Delete, Pod: g.pick(len(g.m.pods))}
	case r < 82:
		op = cluster.Op{Kind: cluster.Resize, Pod: g.pod([]string{"Pending", "Running", "Running"}[g.rng.IntN(3)])}
		g.sizes(&op)
	case r < 90:
		op = cluster.Op{Kind: cluster.SetUsage, Pod: g.pod("Running"), Resources: g.resources(500)}
	case r < 99:
		kinds := []cluster.OpKind{cluster.Cordon, cluster.Uncordon, cluster.Uncordon, cluster.RemoveNode}
		op = cluster.Op{Kind: kinds[g.rng.IntN(len(kinds))], Node: g.pick(len(g.m.nodes))}
	default:
		op.Kind = []cluster.OpKind{0, cluster.SetUsage + 1, 255}[g.rng.IntN(3)]
	}
	return op
}

// devices draws the devices of a Bind: most often devices with the share free, as many as the pod requests.
func (g *generator) devices(op cluster.Op) uint64 {
	p, n := g.m.pods[int(op.Pod)], g.m.nodes[int(op.Node)]
	if p == nil || n == nil || g.one(12) {
		return g.rng.Uint64() >> g.rng.IntN(65)
	}
	var mask uint64
	left := int(p.op.GPUs)
	for _, d := range g.rng.Perm(int(n.op.GPUs)) {
		if left > 0 && (g.m.deviceFree(int(op.Node), d) >= p.op.MilliGPU || g.one(10)) {
			mask |= 1 << d
			left--
		}
	}
	return mask
}

func testRandom(t *testing.T, c cluster.Cluster, cfg config) {
	m := newModel()
	failed := map[error]int{}
	for episode := range cfg.episodes {
		g := &generator{rand.New(rand.NewPCG(uint64(episode), 0)), m}
		reset(t, c)
		m.reset()
		for _, meta := range metaPool {
			if i := c.State().Intern(meta); int(i) == len(m.metas) {
				m.metas = append(m.metas, meta)
			} else if !cmp.Equal(m.metas[i], meta) {
				t.Fatalf("Intern(%+v) = %d, which holds %+v", meta, i, m.metas[i])
			}
		}
		for step := 0; step < cfg.ops; step++ {
			if g.one(6) {
				playAdvance(t, c, g)
			} else {
				playOps(t, c, g, failed)
			}
			compare(t, c.State(), m)
			compareFits(t, c.State(), m, g.pick(len(m.pods)), g.pick(len(m.nodes)))
			if t.Failed() {
				t.Fatalf("at episode %d, step %d", episode, step)
			}
		}
		for p := range len(m.pods) {
			for n := range len(m.nodes) {
				compareFits(t, c.State(), m, int32(p), int32(n))
			}
		}
	}
	for name, err := range sentinels {
		if failed[err] == 0 && cfg.episodes*cfg.ops >= 2000 {
			t.Errorf("no random op failed with %s, want some to", name)
		}
	}
}

func playAdvance(t *testing.T, c cluster.Cluster, g *generator) {
	t.Helper()
	d := time.Duration(g.rng.IntN(5))
	if g.one(30) {
		d = []time.Duration{-1, math.MinInt64, math.MaxInt64, 1<<61 + 1}[g.rng.IntN(4)]
	}
	want := g.m.advance(d)
	if err := c.Advance(context.Background(), d); !errors.Is(err, want) {
		t.Errorf("Advance(%v) = %v, want %v", d, err, want)
	}
}

// playOps applies one to three ops at once.
func playOps(t *testing.T, c cluster.Cluster, g *generator, failed map[error]int) {
	t.Helper()
	var ops []cluster.Op
	var want error
	for range 1 + g.rng.IntN(3) {
		op := g.op()
		ops = append(ops, op)
		if want = g.m.apply(op); want != nil {
			break
		}
	}
	failedAt := len(ops) - 1
	if want != nil {
		failed[want]++
		ops = append(ops, cluster.Op{Kind: cluster.AddPod}) // must not be reached
	}
	err := c.Apply(context.Background(), ops)
	var opErr *cluster.OpError
	switch {
	case !errors.Is(err, want):
		t.Errorf("Apply(%v) = %v, want %v", ops, err, want)
	case want == nil:
	case !errors.As(err, &opErr) || opErr.Index != failedAt || opErr.Op != ops[failedAt]:
		t.Errorf("Apply(%v) = %#v, want an OpError with index %d", ops, err, failedAt)
	}
}

func compare(t *testing.T, s *cluster.State, m *model) {
	t.Helper()
	if s.Now != m.now {
		t.Errorf("Now = %v, want %v", s.Now, m.now)
	}
	nodes, pods, devices := m.snapshot()
	if !slices.Equal(nodes, s.Nodes) {
		t.Errorf("Nodes (-want +got):\n%s", cmp.Diff(nodes, s.Nodes))
	}
	if !slices.Equal(pods, s.Pods) {
		t.Errorf("Pods (-want +got):\n%s", cmp.Diff(pods, s.Pods))
	}
	if !slices.Equal(devices, s.Devices) {
		t.Errorf("Devices (-want +got):\n%s", cmp.Diff(devices, s.Devices))
	}
}

func compareFits(t *testing.T, s *cluster.State, m *model, pod, node int32) {
	t.Helper()
	p := m.pods[int(pod)]
	want := cluster.ErrNotFound
	if p != nil {
		want = m.fits(p, int(node))
	}
	if err := s.Reason(pod, node); !errors.Is(err, want) {
		t.Errorf("Reason(%d, %d) = %v, want %v", pod, node, err, want)
	}
	if got := s.Fits(pod, node); got != (want == nil) {
		t.Errorf("Fits(%d, %d) = %v, want %v", pod, node, got, want == nil)
	}
	if p == nil || m.nodes[int(node)] == nil {
		return
	}
	mask := make([]bool, node+2)
	if s.FitMask(pod, mask); mask[node] != (want == nil) {
		t.Errorf("FitMask(%d)[%d] = %v, want %v", pod, node, mask[node], want == nil)
	}
	var devices uint64
	left := p.op.GPUs
	for d := range int(m.nodes[int(node)].op.GPUs) {
		if left > 0 && m.deviceFree(int(node), d) >= p.op.MilliGPU {
			devices |= 1 << d
			left--
		}
	}
	if left > 0 {
		devices = 0
	}
	if got, ok := s.PickDevices(pod, node); got != devices || ok != (left == 0) {
		t.Errorf("PickDevices(%d, %d) = %#b, %v, want %#b, %v", pod, node, got, ok, devices, left == 0)
	}
}
