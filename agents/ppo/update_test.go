package ppo

import (
	"math"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
)

// rollOut fills the learner's rollout with steps of n environments without any end. Rewards
// differ from row to row.
func rollOut(t *testing.T, l *Learner, n int) {
	t.Helper()
	actions := make([]float32, n)
	for k := 0; !l.collector.Buf.Full(); k++ {
		b := agentstest.BatchOf(2, make([]float32, n)...)
		for i := range n {
			b.Reward[i] = float64(k*n + i)
		}
		if err := l.Act(b, actions); err != nil {
			t.Fatal(err)
		}
		if m, err := l.Update(); m != nil || err != nil {
			t.Fatalf("Update() = %v, %v before the rollout is full, want nil, nil", m, err)
		}
		if err := l.Observe(b); err != nil {
			t.Fatal(err)
		}
	}
}

func update(t *testing.T, l *Learner) agents.Metrics {
	t.Helper()
	m, err := l.Update()
	if err != nil || m == nil {
		t.Fatalf("Update() = %v, %v", m, err)
	}
	return m
}

func even([]float32, float32) []float32 { return []float32{0, 0, 0} }

// TestSchedules has rollouts of 10 timesteps of 40: as in Stable-Baselines3, progress counts the
// rollout that was just collected, so that 3/4, 1/2, 1/4 and 0 remain.
func TestSchedules(t *testing.T) {
	cfg := small(5, 10)
	cfg.TotalTimesteps = 40
	cfg.LearningRate = agents.Schedule{Initial: 0.4, Linear: true}
	cfg.ClipRange = agents.Schedule{Initial: 0.2, Linear: true}
	cfg.ClipRangeVf = agents.Constant(0.3)
	net := agentstest.NewStub(2, even)
	net.Grad = 1
	l := stubLearner(t, cfg, net, 2)
	for k, want := range []struct{ rate, clip float64 }{
		{0.3, 0.15}, {0.2, 0.1}, {0.1, 0.05}, {0, 0},
		{0, 0}, // beyond the end: Stable-Baselines3 would climb the gradient here
	} {
		rollOut(t, l, 2)
		before := net.Theta()
		m := update(t, l)
		for name, w := range map[string]float64{
			"train/learning_rate": want.rate, "train/clip_range": want.clip, "train/clip_range_vf": 0.3, "train/n_updates": float64(k + 1),
		} {
			if math.Abs(m[name]-w) > 1e-12 {
				t.Errorf("update %d: %s = %v, want %v", k+1, name, m[name], w)
			}
		}
		// Under a constant gradient Adam's step is the learning rate, up to its ε.
		if moved := float64(before - net.Theta()); math.Abs(moved-want.rate) > 1e-4 {
			t.Errorf("update %d: the parameter fell by %v, want %v", k+1, moved, want.rate)
		}
	}
}

// TestLinearClipRangeVfEndsAtZero: a clip range that has fallen to 0 permits no change of the
// value, whereas a range of 0 from the first means no clipping.
func TestLinearClipRangeVfEndsAtZero(t *testing.T) {
	for _, tc := range []struct {
		name string
		clip agents.Schedule
		want bool // the value has a gradient
	}{
		{"linear", agents.Schedule{Initial: 0.2, Linear: true}, false},
		{"constant", agents.Constant(0.2), false},
		{"none", agents.Schedule{}, true},
	} {
		cfg := small(2, 2)
		cfg.ClipRangeVf, cfg.TotalTimesteps, cfg.VfCoef = tc.clip, 2, 1
		value := float32(0)
		net := agentstest.NewStub(2, func([]float32, float32) []float32 { return []float32{0, 0, value} })
		l := stubLearner(t, cfg, net, 1)
		rollOut(t, l, 1)
		value = 5 // far from the recorded value, 0
		update(t, l)
		if got := net.DOut[2] != 0; got != tc.want {
			t.Errorf("%s: gradient of the value is %v, want one: %v", tc.name, net.DOut[2], tc.want)
		}
	}
}

// TestTargetKL has the logits (θ, 0), with θ = 0 recorded and raised by the learning rate in
// each step, so that the ratio of action 0 after k steps is 2σ(kα). With all actions 0, the
// update ends at the first k at which ratio − 1 − ln ratio exceeds 1.5 times the target.
func TestTargetKL(t *testing.T) {
	const rate, target = 0.1, 0.01
	stop, kl := 0, 0.0
	for ; kl <= 1.5*target; stop++ {
		ratio := 2 / (1 + math.Exp(-rate*float64(stop+1)))
		kl = ratio - 1 - math.Log(ratio)
	}
	for _, tc := range []struct {
		name          string
		target        float64
		steps, epochs int
	}{
		{"never", 0, 20, 20},
		{"not reached", 10, 20, 20},
		{"reached", target, stop, stop + 1}, // the epoch that finds it out makes no step but counts
	} {
		cfg := small(4, 4)
		cfg.NEpochs, cfg.TargetKL, cfg.LearningRate = 20, tc.target, agents.Constant(rate)
		net := agentstest.NewStub(2, func(_ []float32, theta float32) []float32 { return []float32{theta, 0, 0} })
		net.Grad = -1
		l := stubLearner(t, cfg, net, 1)
		rollOut(t, l, 1)
		clear(l.collector.Buf.Action)
		m := update(t, l)
		if got, want := float64(net.Theta()), rate*float64(tc.steps); math.Abs(got-want) > 1e-3 {
			t.Errorf("%s: θ = %v, want %v after %d steps", tc.name, got, want, tc.steps)
		}
		if got := m["train/n_updates"]; got != float64(tc.epochs) {
			t.Errorf("%s: train/n_updates = %v, want %d", tc.name, got, tc.epochs)
		}
		if got := m["train/approx_kl"]; tc.name == "reached" && math.Abs(got-kl) > 1e-4 {
			t.Errorf("%s: train/approx_kl = %v, want that of the last epoch, %v", tc.name, got, kl)
		}
	}
}

// TestEachEpochVisitsEachRowOnce distinguishes rows by their observations.
func TestEachEpochVisitsEachRowOnce(t *testing.T) {
	const rows, epochs = 12, 3
	cfg := small(6, 4)
	cfg.NEpochs = epochs
	visited := map[float32]int{}
	var order []float32
	recording := false
	net := agentstest.NewStub(2, func(obs []float32, _ float32) []float32 {
		if recording {
			visited[obs[0]]++
			order = append(order, obs[0])
		}
		return []float32{0, 0, 0}
	})
	l := stubLearner(t, cfg, net, 2)
	for k := range 6 {
		b := agentstest.BatchOf(2, float32(2*k), float32(2*k+1))
		if err := l.Act(b, make([]float32, 2)); err != nil {
			t.Fatal(err)
		}
		if err := l.Observe(b); err != nil {
			t.Fatal(err)
		}
	}
	recording = true
	update(t, l)
	for row := range rows {
		if got := visited[float32(row)]; got != epochs {
			t.Errorf("row %d was visited %d times, want %d", row, got, epochs)
		}
	}
	if len(order) != rows*epochs {
		t.Fatalf("%d rows evaluated, want %d", len(order), rows*epochs)
	}
	if same := func() bool {
		for i := range rows {
			if order[i] != order[rows+i] {
				return false
			}
		}
		return true
	}(); same {
		t.Error("two epochs have the same order")
	}
}

func TestUpdateRefusesALossThatIsNotFinite(t *testing.T) {
	value := float32(0)
	net := agentstest.NewStub(2, func([]float32, float32) []float32 { return []float32{0, 0, value} })
	l := stubLearner(t, small(2, 2), net, 1)
	rollOut(t, l, 1)
	value = float32(math.NaN())
	_, err := l.Update()
	if err == nil {
		t.Fatal("Update gives no error for a value of NaN")
	}
	for _, part := range []string{"NaN", "timestep 2", "epoch 1"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
}
