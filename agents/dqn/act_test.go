package dqn

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// prefersSecond values action 1 more.
func prefersSecond([]float32, float32) []float32 { return []float32{0, 20} }

// TestMaskedActionsAreNeverChosen plays Timing, which masks out action 1 at even steps, at random
// and then by a network that wants nothing else, and looks at the targets learned from it.
func TestMaskedActionsAreNeverChosen(t *testing.T) {
	const n = 4
	for name, eps := range map[string]float64{"exploring": 1, "greedy": 0} {
		cfg := small()
		cfg.ExplorationInitialEps, cfg.ExplorationFinalEps, cfg.BatchSize = eps, eps, 64
		l := stubLearner(t, cfg, 2, n, agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond))
		v, b := agentstest.NewVec(t, envcheck.Timing(7, 0), n)
		actions, greedy := make([]float32, n), make([]float32, n)
		chosen := [2]int{} // at odd steps
		for k := range 64 {
			odd := k%7%2 == 1 // episodes of 7 steps begin together
			if err := errors.Join(l.Greedy().Act(b, greedy), l.Act(b, actions)); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if odd != (greedy[i] == 1) || !odd && actions[i] != 0 {
					t.Fatalf("%s: step %d, environment %d: Greedy chose %v and Act %v", name, k, i, greedy[i], actions[i])
				}
				if odd {
					chosen[int(actions[i])]++
				}
			}
			var err error
			if b, err = v.Step(context.Background(), actions); err != nil {
				t.Fatal(err)
			}
			if err := l.Observe(b); err != nil {
				t.Fatal(err)
			}
			if m, err := l.Update(); m == nil || err != nil {
				t.Fatalf("Update() = %v, %v", m, err)
			}
			for i, obs := range l.batch.NextObs {
				// The observation is the step over 10; the value of action 1 is 20.
				want := float32(0)
				if int(math.Round(float64(obs)*10))%2 == 1 {
					want = 20
				}
				if l.batch.Discount[i] != 0 && l.next[i] != want {
					t.Fatalf("%s: value of observation %v is %v, want %v", name, obs, l.next[i], want)
				}
			}
		}
		if random := chosen[0] > 30 && chosen[1] > 30; random != (eps == 1) || chosen[0]+chosen[1] < 100 {
			t.Errorf("%s: at odd steps the actions were chosen %v times", name, chosen)
		}
	}
}

// TestExplorationRate: ε falls from 1 to 0.1 over the first half of 1000 steps; before
// learning_starts, at 100, actions are random all the same.
func TestExplorationRate(t *testing.T) {
	cfg := small()
	cfg.ExplorationFraction, cfg.ExplorationFinalEps, cfg.LearningStarts = 0.5, 0.1, 100
	for remaining, want := range map[float64]float64{1: 1, 0.9: 0.82, 0.75: 0.55, 0.5: 0.1, 0.3: 0.1, 0: 0.1, -1: 0.1} {
		if got := cfg.explorationRate(remaining); math.Abs(got-want) > 1e-12 {
			t.Errorf("explorationRate(%v) = %v, want %v", remaining, got, want)
		}
	}
	cfg.ExplorationFraction = 0
	if got := cfg.explorationRate(1); got != 0.1 {
		t.Errorf("explorationRate(1) = %v with a fraction of 0, want the final 0.1", got)
	}
	// From 1 by half with each step, not below 0.01: 2^-6 is 0.0156, 2^-7 is 0.0078.
	decaying := Config{ExplorationInitialEps: 1, ExplorationFinalEps: 0.01, ExplorationDecay: 0.5, ExplorationFraction: 1, Horizon: agents.Horizon{TotalTimesteps: 10}}
	for step, want := range []float64{1, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.01, 0.01} {
		if got := decaying.explorationRate(1 - float64(step)/10); math.Abs(got-want) > 1e-12 {
			t.Errorf("with decay, after %d of 10 steps: %v, want %v", step, got, want)
		}
	}
	// Act, with ε = 0: 50 environments choose at random twice, and from 100 timesteps on not.
	cfg.ExplorationInitialEps, cfg.ExplorationFinalEps, cfg.BufferSize = 0, 0, 1000
	const n = 50
	net := agentstest.NewStub(2, prefersSecond)
	l := stubLearner(t, cfg, 2, n, net, agentstest.NewStub(2, prefersSecond))
	b, actions := agentstest.BatchOf(2, make([]float32, n)...), make([]float32, n)
	for k := range 4 {
		if err := l.Act(b, actions); err != nil {
			t.Fatal(err)
		}
		first := 0
		for _, a := range actions {
			first += 1 - int(a)
		}
		if warm := k < 2; warm != (first > 10) || warm != (net.Calls == 0) {
			t.Errorf("step %d: action 0 was chosen %d times, with %d uses of the network", k, first, net.Calls)
		}
		if err := l.Observe(b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBetaRisesToOne(t *testing.T) {
	cfg := Defaults()
	for remaining, want := range map[float64]float64{1: 0.4, 0.5: 0.7, 0: 1, -0.5: 1} {
		if got := cfg.beta(remaining); math.Abs(got-want) > 1e-12 {
			t.Errorf("beta(%v) = %v, want %v", remaining, got, want)
		}
	}
}

func TestObserveRefusesRewards(t *testing.T) {
	agentstest.CheckRejectsRewards(t, func() *Learner {
		return stubLearner(t, small(), 2, 3, agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond))
	}, func(l *Learner) {
		if l.buf.Len() != 6 {
			t.Errorf("after the error %d transitions are stored, want 6", l.buf.Len())
		}
	})
}

func TestObserveNeedsAct(t *testing.T) {
	l := stubLearner(t, small(), 2, 1, agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond))
	if err := l.Observe(agentstest.BatchOf(2, 0)); err == nil {
		t.Error("Observe without an Act before it gives no error")
	}
}

// TestNetworkErrorsPassThrough breaks the networks at each of their uses.
func TestNetworkErrorsPassThrough(t *testing.T) {
	broken := errors.New("broken")
	b, actions := agentstest.BatchOf(2, 0), make([]float32, 1)
	for name, use := range map[string]func(l *Learner, net, target *agentstest.Stub) error{
		"Act": func(l *Learner, net, _ *agentstest.Stub) error {
			net.Err = broken
			return l.Act(b, actions)
		},
		"Greedy": func(l *Learner, net, _ *agentstest.Stub) error {
			net.Err = broken
			return l.Greedy().Act(b, actions)
		},
		"Update, online": func(l *Learner, net, _ *agentstest.Stub) error {
			net.Err = broken
			_, err := l.Update()
			return err
		},
		"Update, target": func(l *Learner, _, target *agentstest.Stub) error {
			target.Err = broken
			_, err := l.Update()
			return err
		},
	} {
		cfg := small()
		cfg.ExplorationFinalEps, cfg.ExplorationFraction = 0, 0
		net, target := agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond)
		l := stubLearner(t, cfg, 2, 1, net, target)
		cycle(t, l, b)
		if err := use(l, net, target); !errors.Is(err, broken) {
			t.Errorf("%s: error %v, want one that wraps that of the network", name, err)
		}
	}
}
