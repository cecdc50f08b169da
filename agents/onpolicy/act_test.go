package onpolicy

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// stubCollector returns a Collector of n environments with observations of one number.
func stubCollector(t *testing.T, nSteps int, net *agentstest.Stub, n int) *Collector {
	t.Helper()
	env := agentstest.Env(net.Actions, n)
	spec, err := policies.Defaults().ActorCritic(env.Obs, env.Act)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewActor(Settings{Algo: "stub", Env: env, Spec: spec, NewNetwork: agents.Given(net), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCollector(a, nSteps, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// prefersSecond gives action 1 the probability 1 − e^-20 and observations the value 100·obs + 7.
func prefersSecond(obs []float32, _ float32) []float32 { return []float32{0, 20, 100*obs[0] + 7} }

// TestMaskedActionsAreNeverChosen plays Timing, which masks out action 1 at even steps, with a
// network that wants nothing else.
func TestMaskedActionsAreNeverChosen(t *testing.T) {
	const n = 4
	l := stubCollector(t, 64, agentstest.NewStub(2, prefersSecond), n)
	v, b := agentstest.NewVec(t, envcheck.Timing(7, 0), n)
	actions, greedy := make([]float32, n), make([]float32, n)
	for k := range 64 {
		// Episodes of 7 steps begin together: the observation is their step over 10.
		want := float32(k % 7 % 2)
		if err := l.actor.Greedy().Act(b, greedy); err != nil {
			t.Fatal(err)
		}
		b = agentstest.Step(t, l, v, b, actions)
		for i := range n {
			if greedy[i] != want || actions[i] != want {
				t.Fatalf("step %d, environment %d: Greedy chose %v and Act %v, want %v", k, i, greedy[i], actions[i], want)
			}
			if b.Invalid[i] {
				t.Fatalf("step %d, environment %d: action %v was masked out", k, i, actions[i])
			}
		}
	}
	// The probability of an action that alone is permitted is 1.
	for row, logp := range l.Buf.LogProb {
		if k := row / n; k%7%2 == 0 && logp != 0 {
			t.Fatalf("log-probability %v at step %d, want 0", logp, k)
		}
	}
}

// TestActSamples counts the actions of Act, whose probabilities are 1/4 and 3/4.
func TestActSamples(t *testing.T) {
	const n, steps = 10, 1000
	net := agentstest.NewStub(2, func([]float32, float32) []float32 { return []float32{0, float32(math.Log(3)), 0} })
	l := stubCollector(t, steps, net, n)
	b, actions, seconds := agentstest.BatchOf(2, make([]float32, n)...), make([]float32, n), 0
	for range steps {
		if err := l.Act(b, actions); err != nil {
			t.Fatal(err)
		}
		for _, a := range actions {
			seconds += int(a)
		}
		if err := l.Observe(b); err != nil {
			t.Fatal(err)
		}
	}
	// 10,000 draws: 7500 with a standard deviation of √(10000·3/16) = 43; four of them.
	if seconds < 7500-173 || seconds > 7500+173 {
		t.Errorf("action 1 was drawn %d times of %d, want 7500 ± 173", seconds, n*steps)
	}
	for i, a := range l.Buf.Action {
		if want := math.Log([]float64{1. / 4, 3. / 4}[int(a)]); math.Abs(float64(l.Buf.LogProb[i])-want) > 1e-6 {
			t.Fatalf("log-probability of action %v is %v, want %v", a, l.Buf.LogProb[i], want)
		}
	}
}

// TestBootstrap plays Timing, whose observation after step k is k/10, with the value
// V(obs) = 100·obs + 7, and γ = 1/2, λ = 0, so that the advantage of step k is
// k + V'/2 − V(k−1), with V' the value of what followed it and V(k−1) = 10(k−1) + 7.
func TestBootstrap(t *testing.T) {
	for _, tc := range []struct {
		name          string
		length, limit int
		next, adv     []float32 // of five steps of one environment; NaN where next is of no account
	}{
		{
			// The reset observation after step 3 has the value 7; the final one, 3/10, has 37.
			"truncated after 3 steps", 100, 3,
			[]float32{17, 27, 37, 17, 27},
			[]float32{1 + 8.5 - 7, 2 + 13.5 - 17, 3 + 18.5 - 27, 1 + 8.5 - 7, 2 + 13.5 - 17},
		},
		{
			"terminated after 3 steps", 3, 0,
			[]float32{17, 27, float32(math.NaN()), 17, 27},
			[]float32{1 + 8.5 - 7, 2 + 13.5 - 17, 3 - 27, 1 + 8.5 - 7, 2 + 13.5 - 17},
		},
		{
			"both at once", 3, 3,
			[]float32{17, 27, float32(math.NaN()), 17, 27},
			[]float32{1 + 8.5 - 7, 2 + 13.5 - 17, 3 - 27, 1 + 8.5 - 7, 2 + 13.5 - 17},
		},
		{
			"truncated in the last step of the rollout", 100, 5,
			[]float32{17, 27, 37, 47, 57},
			[]float32{1 + 8.5 - 7, 2 + 13.5 - 17, 3 + 18.5 - 27, 4 + 23.5 - 37, 5 + 28.5 - 47},
		},
		{
			"no end", 100, 0,
			[]float32{17, 27, 37, 47, 57},
			[]float32{1 + 8.5 - 7, 2 + 13.5 - 17, 3 + 18.5 - 27, 4 + 23.5 - 37, 5 + 28.5 - 47},
		},
		{
			"truncated in each step", 100, 1,
			[]float32{17, 17, 17, 17, 17},
			[]float32{2.5, 2.5, 2.5, 2.5, 2.5},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const n = 2
			l := stubCollector(t, 5, agentstest.NewStub(2, prefersSecond), n)
			v, b := agentstest.NewVec(t, envcheck.Timing(tc.length, tc.limit), n)
			for k := range 5 {
				b = agentstest.Step(t, l, v, b, make([]float32, n))
				if got, want := l.actor.NumTimesteps(), (k+1)*n; got != want {
					t.Fatalf("NumTimesteps() = %d after %d steps, want %d", got, k+1, want)
				}
			}
			l.Buf.Estimate(nil, 0.5, 0)
			for row, got := range l.Buf.NextValue {
				want := tc.next[row/n]
				if want == want && math.Abs(float64(got-want)) > 1e-4 {
					t.Errorf("value that follows step %d is %v, want %v", row/n, got, want)
				}
				if adv, want := l.Buf.Adv[row], tc.adv[row/n]; math.Abs(float64(adv-want)) > 1e-4 {
					t.Errorf("advantage of step %d is %v, want %v", row/n, adv, want)
				}
			}
		})
	}
}

// TestBootstrapOverRollouts goes through two rollouts of 2 steps in one episode, which is cut
// off by step 3: nothing of the first may be left in the second.
func TestBootstrapOverRollouts(t *testing.T) {
	l := stubCollector(t, 2, agentstest.NewStub(2, prefersSecond), 1)
	v, b := agentstest.NewVec(t, envcheck.Timing(100, 3), 1)
	for round, want := range [][]float32{{17, 27}, {37, 17}, {27, 37}} {
		for range 2 {
			b = agentstest.Step(t, l, v, b, make([]float32, 1))
		}
		if diff := cmp.Diff(want, l.Buf.NextValue, cmpopts.EquateApprox(1e-5, 0)); diff != "" {
			t.Errorf("rollout %d (-want +got):\n%s", round, diff)
		}
		l.Buf.Clear()
	}
}

// counted is a Collector with the count of its Actor.
type counted struct{ *Collector }

func (c counted) NumTimesteps() int { return c.actor.NumTimesteps() }

func TestObserveRefusesRewards(t *testing.T) {
	agentstest.CheckRejectsRewards(t, func() counted {
		return counted{stubCollector(t, 8, agentstest.NewStub(2, prefersSecond), 3)}
	}, func(l counted) {
		if l.Buf.Step() != 2 {
			t.Errorf("after the error %d steps are recorded, want 2", l.Buf.Step())
		}
	})
}

// TestNetworkErrorsPassThrough breaks the network at each of its uses.
func TestNetworkErrorsPassThrough(t *testing.T) {
	broken := errors.New("broken")
	b, actions := agentstest.BatchOf(2, 0), make([]float32, 1)
	b.Truncated[0] = true
	for _, tc := range []struct {
		name string
		use  func(l *Collector, net *agentstest.Stub) error
	}{
		{"Act", func(l *Collector, net *agentstest.Stub) error {
			net.Err = broken
			return l.Act(b, actions)
		}},
		{"Greedy", func(l *Collector, net *agentstest.Stub) error {
			net.Err = broken
			return l.actor.Greedy().Act(b, actions)
		}},
		{"Observe of a truncated episode", func(l *Collector, net *agentstest.Stub) error {
			err := l.Act(b, actions)
			net.Err = broken
			return errors.Join(err, l.Observe(b))
		}},
		{"Observe of the last step", func(l *Collector, net *agentstest.Stub) error {
			b.Truncated[0] = false
			err := errors.Join(l.Act(b, actions), l.Observe(b), l.Act(b, actions))
			net.Err = broken
			return errors.Join(err, l.Observe(b))
		}},
	} {
		net := agentstest.NewStub(2, prefersSecond)
		if err := tc.use(stubCollector(t, 2, net, 1), net); !errors.Is(err, broken) {
			t.Errorf("%s: error %v, want the network's", tc.name, err)
		}
	}
}

func TestActingAllocatesNothing(t *testing.T) {
	const n = 8
	l := stubCollector(t, 1<<10, agentstest.NewStub(2, func(obs []float32, _ float32) []float32 { return outputs[:] }), n)
	b, actions := agentstest.BatchOf(2, make([]float32, n)...), make([]float32, n)
	b.Truncated[3] = true
	if allocs := testing.AllocsPerRun(100, func() {
		if err := errors.Join(l.Act(b, actions), l.Observe(b)); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocs/op, want 0", allocs)
	}
}

var outputs = [3]float32{0, 1, 2}
