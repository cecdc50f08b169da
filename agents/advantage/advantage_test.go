package advantage

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/models/fused"

	_ "github.com/kubernasium/kubernasium/envs/all"
)

func small() Config {
	c, _ := GPUDefaults()
	c.EnvKwargs = map[string]any{"num_nodes": 8}
	c.Episodes, c.Futures, c.Density, c.Steps, c.Width = 4, 2, 0.5, 20, 8
	return c
}

func TestCollectIsDeterministic(t *testing.T) {
	t.Run("time-free", func(t *testing.T) { checkCollect(t, small(), nil) })
	t.Run("timed", func(t *testing.T) {
		c := small()
		c.EnvKwargs = map[string]any{"num_nodes": 8, "dynamics": gpu.DynamicsTimed, "num_pods": 60, "load": 1.5}
		checkCollect(t, c, nil)
	})
}

// checkCollect collects with the network's policy, or with the heuristic, on one core and on three.
func checkCollect(t *testing.T, c Config, net *fused.Network) {
	t.Helper()
	collect := func(procs int) []Decision {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		d, err := c.Collect(t.Context(), 0, net)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one, three := collect(1), collect(3)
	same := func(a, b Decision) bool {
		return a.Episode == b.Episode && slices.Equal(a.Nodes, b.Nodes) && slices.Equal(a.Globals, b.Globals) && slices.Equal(a.Scores, b.Scores) && slices.Equal(a.Gains, b.Gains)
	}
	if len(one) < 10 || !slices.EqualFunc(one, three, same) {
		t.Fatalf("%d decisions on one core and %d on three, want equal ones", len(one), len(three))
	}
	for _, d := range one {
		sum, spread := 0.0, 0.0
		for _, g := range d.Gains {
			sum, spread = sum+float64(g), max(spread, math.Abs(float64(g)))
		}
		if math.Abs(sum) > 1e-4*max(1, spread) {
			t.Errorf("gains %v sum to %v, want 0", d.Gains, sum)
		}
	}
	c.Seed++
	if other := collect(1); slices.EqualFunc(one, other, same) {
		t.Error("another seed gives the same decisions")
	}
}

// TestFit: gains that are linear in the rows are learned, and noise on each of them averages out.
func TestFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var decisions []Decision
	for k := range 1000 {
		d := Decision{Episode: k, Globals: []float32{0.5}}
		mean := float32(0)
		for range 4 {
			x, y := rng.Float32(), rng.Float32()
			d.Nodes = append(d.Nodes, x, y)
			d.Gains, d.Scores = append(d.Gains, 2*x-y), append(d.Scores, 0)
			mean += (2*x - y) / 4
		}
		for i := range d.Gains {
			d.Gains[i] -= mean
		}
		decisions = append(decisions, d)
	}
	c := small()
	c.Width, c.Steps, c.Batch, c.Weight = 16, 400, 64, 0
	net, r, err := c.Fit(t.Context(), decisions)
	if err != nil {
		t.Fatal(err)
	}
	if r.Decisions != 1000 || r.Explained < 0.98 {
		t.Errorf("%d decisions, explained %.3f of the variance in those that were held out, want 1000 and nearly all", r.Decisions, r.Explained)
	}
	// The best of four gains 2x−y exceeds the first by 0.671 in the mean of uniform x and y (numerical integration).
	if math.Abs(r.Gain-0.671) > 4*r.Error || r.Error > 0.1 {
		t.Errorf("choices gain %.3f ± %.3f, want 0.671", r.Gain, r.Error)
	}
	q, err := net.Forward([]float32{1, 0, 0.5, 0, 1, 0.5}, 2) // worth 2 and −1
	if err != nil {
		t.Fatal(err)
	}
	if d := float64(q[0] - q[1]); math.Abs(d-3) > 0.3 {
		t.Errorf("the first row is worth %.3f more than the second, want 3", d)
	}
}

// TestSavedPolicy: the scores of the model are the network's gains plus the weighted score of WeightedFGD, and with a great
// weight the model takes WeightedFGD's nodes.
func TestSavedPolicy(t *testing.T) {
	c := small()
	decisions, err := c.Collect(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	net, _, err := c.Fit(t.Context(), decisions)
	if err != nil {
		t.Fatal(err)
	}
	c.Weight = 1000
	p := open(t, &c, net)
	v, err := envs.Make(c.Env, 1, envs.VecOptions{Options: c.EnvKwargs, Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := v.Reset(t.Context(), envs.VecResetOptions{Seeds: []uint64{7}})
	if err != nil {
		t.Fatal(err)
	}
	teacher, err := envs.NewPolicies(v, "WeightedFGD", 0)
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.Domain.Gains(v.Env(0).Task(), 1)
	if err != nil {
		t.Fatal(err)
	}
	columns, err := g.Score()
	if err != nil {
		t.Fatal(err)
	}
	const nodes, pod = 8, 27
	features := (len(b.Obs) - pod) / nodes
	scores, action, want := make([]float32, nodes), make([]float32, 1), make([]float32, 1)
	row := make([]float32, features+pod)
	for step := range 30 {
		if err := p.Scores(b.Obs, scores); err != nil {
			t.Fatal(err)
		}
		for i := range nodes {
			copy(row, b.Obs[i*features:][:features])
			copy(row[features:], b.Obs[nodes*features:])
			q, err := net.Forward(row, 1)
			if err != nil {
				t.Fatal(err)
			}
			sum := float64(q[0])
			for _, x := range columns {
				sum += c.Weight * float64(x.Weight) * float64(row[x.Column])
			}
			if math.Abs(sum-float64(scores[i])) > 1e-5*max(1, math.Abs(sum)) {
				t.Fatalf("step %d: node %d has the score %v, want %v", step, i, scores[i], sum)
			}
		}
		if err := p.Act(b.Obs, b.Mask, action); err != nil {
			t.Fatal(err)
		}
		if err := teacher.Act(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if action[0] != want[0] {
			t.Errorf("step %d: node %v, WeightedFGD's is %v", step, action[0], want[0])
		}
		if b, err = v.Step(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
}
