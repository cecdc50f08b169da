package metis_test

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/metis"
	"github.com/kubernasium/kubernasium/agents/reinforce"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/placement"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

// setup makes environments of one small batch and a learner.
func setup(t *testing.T, cfg metis.Config, demo metis.Demonstrator, seed uint64) (*metis.Learner, *envs.Vec, *planner.Problem) {
	t.Helper()
	batches := envstest.TempFile(t, "batches.csv", "redis,mms,ckm,ycsba,ycsbb,scd,isr\n2,3,1,1,1,1,3\n")
	kwargs := map[string]any{"nodes": 3, "batches": batches, "batch": 0, "reward": "terminal"}
	v, err := envs.Make("k8s/LRAPlacement-v0", 10, envs.VecOptions{Options: kwargs, Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	obs, act := v.Spaces()
	spec, err := cfg.Network.ActorCritic(obs, act)
	if err != nil {
		t.Fatal(err)
	}
	net, err := fused.New(spec, rand.New(pcg.New(seed)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = net.Close() })
	l, err := metis.New(cfg, agents.EnvInfo{ID: "k8s/LRAPlacement-v0", Obs: obs, Act: act, NumEnvs: 10}, spec, agents.Given(net), demo, seed)
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.NewProblem(throughput.GenerateTable(0), 3, lra.Counts{2, 3, 1, 1, 1, 1, 3})
	if err != nil {
		t.Fatal(err)
	}
	return l, v, p
}

// Twelve containers on three nodes: the optimum is that of the integer program.
func TestFindsTheOptimum(t *testing.T) {
	cfg := metis.DivideAndConquer()
	cfg.Explore = 0.2
	l, v, p := setup(t, cfg, nil, 1)
	var best planner.Placement
	var returned float64
	better := func(env int, ret float64) {
		best = append(best[:0], v.Env(env).Task().(*placement.Task).Placement()...)
		returned = ret
	}
	if err := l.Run(context.Background(), v, 3000, time.Hour, better, nil); err != nil {
		t.Fatal(err)
	}
	s, err := p.Solve(context.Background(), planner.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if best.Batch() != p.Batch || math.Abs(p.Average(best)-returned) > 1e-9 {
		t.Errorf("best placement has %v worth %v, want %v worth its return %v", best.Batch(), p.Average(best), p.Batch, returned)
	}
	if got := p.Value(best); got < s.Value*(1-1e-3) {
		t.Errorf("best value %v after 3000 episodes, want the optimum %v", got, s.Value)
	}
}

// Without exploration beside the policy, the gradient alone must raise the mean return.
func TestGradientRaisesTheMean(t *testing.T) {
	cfg := metis.Vanilla()
	cfg.LearningRate = 0.01
	l, v, _ := setup(t, cfg, nil, 2)
	var means []float64
	if err := l.Run(context.Background(), v, 3000, time.Hour, func(int, float64) {}, func(_ int, mean, _ float64) { means = append(means, mean) }); err != nil {
		t.Fatal(err)
	}
	mean := func(x []float64) (m float64) {
		for _, v := range x {
			m += v / float64(len(x))
		}
		return m
	}
	// Seeds 1 to 5 gain 0.08 to 0.22, this one 0.19.
	if first, last := mean(means[:30]), mean(means[len(means)-30:]); last < first+0.05 {
		t.Errorf("mean return %v of the first 300 episodes, %v of the last 300, want at least 0.05 more", first, last)
	}
}

// Demonstrations come first, are played as given, and count for the best.
func TestDemonstrations(t *testing.T) {
	cfg := metis.High()
	seen := map[int]bool{}
	demo := func(episode int, _ []float32, mask []bool) int {
		seen[episode] = true
		for i, ok := range mask {
			if ok {
				return i
			}
		}
		return 0
	}
	l, v, p := setup(t, cfg, demo, 3)
	var first float64
	if err := l.Run(context.Background(), v, 10, time.Hour, func(_ int, ret float64) { first = ret }, nil); err != nil {
		t.Fatal(err)
	}
	// The first node with room: eight containers on node 0, four on node 1.
	want, err := p.Place(planner.AppOrder(p.Batch), func(x planner.Placement, _ int) int {
		if x[0].Total() < lra.MaxSlots {
			return 0
		}
		return 1
	})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(first-p.Average(want)) > 1e-9 || len(seen) != 10 {
		t.Errorf("demonstrations of %d episodes reach %v, want 10 and %v", len(seen), first, p.Average(want))
	}
	if err := l.Run(context.Background(), v, 60, time.Hour, func(int, float64) {}, nil); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 31 {
		t.Errorf("%d demonstrated episodes, want 31", len(seen))
	}
}

func TestRefuses(t *testing.T) {
	for _, change := range []struct {
		want   string
		change func(c *metis.Config)
	}{
		{"learning_rate 0", func(c *metis.Config) { c.LearningRate = 0 }},
		{"explore 2", func(c *metis.Config) { c.Explore = 2 }},
		{"without a demonstrator", func(c *metis.Config) { c.Demonstrations = 1 }},
	} {
		cfg := metis.Vanilla()
		change.change(&cfg)
		if _, err := metis.New(cfg, agents.EnvInfo{}, models.Spec{}, nil, nil, 1); err == nil || !strings.Contains(err.Error(), change.want) {
			t.Errorf("New: %v, want an error with %q", err, change.want)
		}
	}
}

// The policies of package reinforce play the checkpoints.
func TestCheckpointsAreOfReinforce(t *testing.T) {
	l, _, _ := setup(t, metis.DivideAndConquer(), nil, 1)
	var buf bytes.Buffer
	if err := l.Save(&buf); err != nil {
		t.Fatal(err)
	}
	f, err := models.Read(&buf)
	if err != nil || f.Meta.Algo != reinforce.Algo {
		t.Errorf("a checkpoint of %q, %v; want %q", f.Meta.Algo, err, reinforce.Algo)
	}
}
