package dqn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
)

// TestWhenToUpdate counts gradient steps after each step of the environments, with two of them.
func TestWhenToUpdate(t *testing.T) {
	for _, tc := range []struct {
		name                        string
		freq, gradientSteps, starts int
		want                        []float64 // train/n_updates after each step; 0 is no update
	}{
		{"each step", 1, 1, 0, []float64{1, 2, 3, 4}},
		{"each third step", 3, 1, 0, []float64{0, 0, 1, 0, 0, 2}},
		{"several gradient steps", 2, 5, 0, []float64{0, 5, 0, 10}},
		{"as many as transitions", 3, -1, 0, []float64{0, 0, 6, 0, 0, 12}},
		// Stable-Baselines3 learns once more than 6 timesteps are over, at steps divisible by 2.
		{"learning_starts", 2, 1, 6, []float64{0, 0, 0, 1, 0, 2}},
		{"learning_starts at an update", 2, 1, 4, []float64{0, 0, 0, 1}},
	} {
		cfg := small()
		cfg.TrainFreq, cfg.GradientSteps, cfg.LearningStarts = tc.freq, tc.gradientSteps, tc.starts
		l := stubLearner(t, cfg, 2, 2, agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond))
		var got []float64
		for range tc.want {
			cycle(t, l, agentstest.BatchOf(2, 0, 0))
			m, err := l.Update()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m["train/n_updates"])
			if m, err := l.Update(); m != nil || err != nil {
				t.Errorf("%s: a second Update() = %v, %v, want nil", tc.name, m, err)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: gradient steps %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestTargetNetwork moves the parameter from 0 to 1 by hand; the target takes over tau of the
// difference each target_update_interval timesteps, of which a step makes as many as there are
// environments.
func TestTargetNetwork(t *testing.T) {
	for _, tc := range []struct {
		name        string
		n, interval int
		tau         float64
		want        []float32 // after each step
	}{
		{"copies", 1, 3, 1, []float32{0, 0, 1, 1}},
		{"mixes", 1, 2, 0.5, []float32{0, 0.5, 0.5, 0.75}},
		{"two environments", 2, 4, 1, []float32{0, 1, 1}},
		{"rounds down", 2, 5, 0.5, []float32{0, 0.5, 0.5, 0.75}},
		{"more environments than the interval", 3, 2, 0.5, []float32{0.5, 0.75, 0.875}},
	} {
		cfg := small()
		cfg.TargetUpdateInterval, cfg.Tau, cfg.LearningStarts = tc.interval, tc.tau, 100
		net, target := agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond)
		net.Params()[0].Shape = []int{1, 1} // a weight, to have a first value
		l := stubLearner(t, cfg, 2, tc.n, net, target)
		if target.Theta() != net.Theta() || net.Theta() == 0 {
			t.Errorf("%s: the target starts at %v, want the other network's %v", tc.name, target.Theta(), net.Theta())
		}
		net.Params()[0].Value[0], target.Params()[0].Value[0] = 1, 0
		var got []float32
		for range tc.want {
			cycle(t, l, agentstest.BatchOf(2, make([]float32, tc.n)...))
			got = append(got, target.Theta())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: target %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestSchedules: under a constant gradient Adam's step is the learning rate, up to its ε.
func TestSchedules(t *testing.T) {
	cfg := small()
	cfg.LearningRate, cfg.TotalTimesteps = agents.Schedule{Initial: 0.4, Linear: true}, 4
	net := agentstest.NewStub(2, prefersSecond)
	net.Grad = 1
	l := stubLearner(t, cfg, 2, 1, net, agentstest.NewStub(2, prefersSecond))
	for k, want := range []float64{0.3, 0.2, 0.1, 0, 0} {
		cycle(t, l, agentstest.BatchOf(2, 0))
		before := net.Theta()
		m, err := l.Update()
		if err != nil {
			t.Fatal(err)
		}
		if got := m["train/learning_rate"]; math.Abs(got-want) > 1e-12 {
			t.Errorf("update %d: train/learning_rate = %v, want %v", k+1, got, want)
		}
		if moved := float64(before - net.Theta()); math.Abs(moved-want) > 1e-4 {
			t.Errorf("update %d: the parameter fell by %v, want %v", k+1, moved, want)
		}
	}
}

func TestUpdateRefusesALossThatIsNotFinite(t *testing.T) {
	for name, broken := range map[string]float32{"NaN": float32(math.NaN()), "Inf": float32(math.Inf(1))} {
		cfg := small()
		cfg.PrioritizedReplay = true
		target := agentstest.NewStub(2, prefersSecond)
		l := stubLearner(t, cfg, 2, 1, agentstest.NewStub(2, prefersSecond), target)
		cycle(t, l, agentstest.BatchOf(2, 0))
		target.Outputs = func([]float32, float32) []float32 { return []float32{broken, broken} }
		_, err := l.Update()
		if err == nil {
			t.Fatalf("Update gives no error for a target of %s", name)
		}
		for _, part := range []string{"loss " + strings.Replace(name, "Inf", "+Inf", 1), "timestep 1", "gradient step 1"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not name %q", err, part)
			}
		}
	}
}

// TestPrioritiesFollowErrors: with α = 1 and errors of about 1 and 9, the second of two
// transitions is drawn 9 times as often and weighs 1/9 with β = 1.
func TestPrioritiesFollowErrors(t *testing.T) {
	cfg := small()
	cfg.PrioritizedReplay, cfg.PrioritizedReplayAlpha, cfg.PrioritizedReplayBeta0 = true, 1, 1
	cfg.Gamma, cfg.BatchSize, cfg.TrainFreq = 0, 100, 2
	zero := func([]float32, float32) []float32 { return []float32{0, 0} }
	l := stubLearner(t, cfg, 2, 1, agentstest.NewStub(2, zero), agentstest.NewStub(2, zero))
	for k, reward := range []float64{1, 9} {
		if err := l.Act(agentstest.BatchOf(2, float32(k)), make([]float32, 1)); err != nil {
			t.Fatal(err)
		}
		next := agentstest.BatchOf(2, float32(k+1))
		next.Reward[0] = reward
		if err := l.Observe(next); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the first update finds out the errors
		l.counts.SinceUpdate = 2
		if _, err := l.Update(); err != nil {
			t.Fatal(err)
		}
	}
	drawn := [2]int{}
	for i, obs := range l.batch.Obs {
		drawn[int(obs)]++
		if want := []float64{1, 1. / 9}[int(obs)]; math.Abs(l.batch.Weight[i]-want) > 1e-5 {
			t.Fatalf("weight of transition %v is %v, want %v", obs, l.batch.Weight[i], want)
		}
	}
	if drawn[0] < 9 || drawn[0] > 11 {
		t.Errorf("drawn %v times, want 10 and 90", drawn)
	}
}
