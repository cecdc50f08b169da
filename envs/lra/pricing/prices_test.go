package pricing_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/lratest"
)

func open(t *testing.T, opts map[string]any) *envs.Vec {
	t.Helper()
	return envstest.Open(t, id, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
}

// throughput returns that of an episode of the baseline.
func throughput(t *testing.T, opts map[string]any, baseline string) float64 {
	t.Helper()
	v := open(t, opts)
	return envstest.Column(t, v, envstest.Play(t, v, envstest.Policy(t, v, baseline), 3), "throughput")
}

// TestFinish fills all nodes by the integer program, whatever the prices. HiGHS has these optima of the
// complete profile; greedy reaches 25.697290 and 61.614840.
func TestFinish(t *testing.T) {
	for _, tc := range []struct {
		nodes int
		batch string
		want  float64
	}{
		{4, "4,4,4,4,4,4,4", 29.076007 / 28},
		{20, "7,8,3,9,7,9,7", 62.110745 / 50},
	} {
		opts := map[string]any{
			"table": filepath.Join(lratest.Dir(t), "node_table_true_6435.csv"), "nodes": tc.nodes, "batch": 0,
			"batches": envstest.TempFile(t, "batches.csv", "redis,mms,ckm,ycsba,ycsbb,scd,isr\n"+tc.batch+"\n"),
		}
		const prices = "constant:redis=1,mms=-1"
		if got := throughput(t, opts, prices); got > tc.want-1e-3 {
			t.Errorf("%s on %d nodes: the prices alone reach %v, want less than %v, or the test shows nothing", tc.batch, tc.nodes, got, tc.want)
		}
		opts["finish"] = tc.nodes
		if got := throughput(t, opts, prices); math.Abs(got-tc.want) > 5e-5*tc.want {
			t.Errorf("%s on %d nodes: %v, want %v", tc.batch, tc.nodes, got, tc.want)
		}
	}
}

// TestFinishLast leaves all nodes but the last to the prices: the first nodes are filled as without finish.
func TestFinishLast(t *testing.T) {
	opts := map[string]any{"nodes": 8, "containers": 60}
	first := func() []float64 {
		v := open(t, opts)
		envstest.Reset(t, v, 5)
		var rewards []float64
		for range 5 {
			rewards = append(rewards, envstest.Step(t, v, make([]float32, lra.NumApps)...).Reward[0])
		}
		return rewards
	}
	want := first()
	opts["finish"] = 3
	got := first()
	for k := range want {
		if got[k] != want[k] {
			t.Errorf("node %d earns %v, want %v as without finish", k, got[k], want[k])
		}
	}
	v := open(t, opts)
	envstest.Reset(t, v, 5)
	steps := 0
	for done := false; !done; steps++ {
		done = envstest.Step(t, v, make([]float32, lra.NumApps)...).Terminated[0]
	}
	if steps != 6 {
		t.Errorf("an episode of 8 nodes with finish 3 has %d steps, want 5 for the first nodes and one for the last three", steps)
	}
}

// TestRounded: rounded fills dense batches better than duals, whose ties fall on states of which the linear
// program has a part of a node; and both do better where the actions reach their prices (scale).
func TestRounded(t *testing.T) {
	if testing.Short() {
		t.Skip("programs of 560 containers; run without -short")
	}
	opts := map[string]any{"table": filepath.Join(lratest.Dir(t), "node_table_true_6435.csv"), "containers": 560}
	mean := func(baseline string, scale float64) float64 {
		opts["scale"] = scale
		sum := 0.0
		for seed := range uint64(3) {
			v := open(t, opts)
			sum += envstest.Column(t, v, envstest.Play(t, v, envstest.Policy(t, v, baseline), seed), "throughput") / 3
		}
		return sum
	}
	narrow, duals, rounded := mean("duals", 0.5), mean("duals", 1), mean("rounded", 1)
	if duals < narrow+0.002 || rounded < duals+0.002 {
		t.Errorf("duals reaches %v at scale 0.5 and %v at 1, rounded %v; want 0.002 more from one to the next", narrow, duals, rounded)
	}
}

// TestBaseDuals: with base duals an action of 0 takes the duals, so that constant prices reach what duals does, and
// rounded has the same prices as without.
func TestBaseDuals(t *testing.T) {
	opts := map[string]any{"nodes": 12, "containers": 90, "scale": 1.0}
	mean, rounded := throughput(t, opts, "constant"), throughput(t, opts, "rounded")
	opts["base"], opts["scale"] = "duals", 0.05
	duals := throughput(t, opts, "duals")
	if got := throughput(t, opts, "constant"); got != duals || got == mean {
		t.Errorf("an action of 0 reaches %v, want %v as duals and not %v as the mean values", got, duals, mean)
	}
	if got := throughput(t, opts, "rounded"); got != rounded {
		t.Errorf("rounded reaches %v with base duals, want %v", got, rounded)
	}
	v := open(t, opts)
	obs := slices.Clone(envstest.Reset(t, v, 3).Obs)
	for a, dual := range obs[len(obs)-lra.NumApps:] {
		if dual <= 0 || dual >= 1 {
			t.Errorf("feature %d, a dual, is %v, want one within (0, 1)", len(obs)-lra.NumApps+a, dual)
		}
	}
	if first := envstest.Step(t, v, make([]float32, lra.NumApps)...); slices.Equal(first.Obs[len(obs)-lra.NumApps:], obs[len(obs)-lra.NumApps:]) {
		t.Error("the duals of what is left did not change with a step")
	}
}

// TestScale: half the action at twice the scale stands for the same prices.
func TestScale(t *testing.T) {
	opts := map[string]any{"nodes": 12, "containers": 90}
	want, other := throughput(t, opts, "constant:redis=0.5,isr=-0.25"), throughput(t, opts, "constant:redis=0.25,isr=-0.125")
	opts["scale"] = 1.0
	if got := throughput(t, opts, "constant:redis=0.25,isr=-0.125"); got != want || got == other {
		t.Errorf("half the action at twice the scale reaches %v, want %v and not %v", got, want, other)
	}
}

// TestConstant: the parameters are the action of each application.
func TestConstant(t *testing.T) {
	v := open(t, map[string]any{"nodes": 12, "containers": 90})
	action := make([]float32, lra.NumApps)
	for a, name := range lra.Apps {
		if err := envstest.Policy(t, v, "constant:"+name+"=0.5")(t.Context(), v.Env(0).State(), true, action); err != nil {
			t.Fatal(err)
		}
		for b, got := range action {
			if want := float32(0.5); (b == a) != (got == want) || b != a && got != 0 {
				t.Errorf("constant:%s=0.5 takes the action %v", name, action)
			}
		}
	}
}

// TestConstantTuned: with online arrivals the tuned constants place better than the mean values, by more than
// chance between episodes (the standard deviation of a paired difference is 0.005).
func TestConstantTuned(t *testing.T) {
	opts := map[string]any{
		"table": filepath.Join(lratest.Dir(t), "node_table_true_6435.csv"), "arrivals": "online", "load": 0.9, "containers": 6000, "period": 1000,
	}
	if tuned, mean := throughput(t, opts, "constant_tuned"), throughput(t, opts, "mean_values"); tuned < mean+0.01 {
		t.Errorf("constant_tuned reaches %v, mean_values %v, want 0.01 more", tuned, mean)
	}
}
