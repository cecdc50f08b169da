package a2c

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// prefersSecond gives action 1 the probability 1 − e^-20 and observations the value 100·obs + 7.
func prefersSecond(obs []float32, _ float32) []float32 { return []float32{0, 20, 100*obs[0] + 7} }

// TestMaskedActionsAreNeverChosen plays Timing, which masks out action 1 at even steps, with a
// network that wants nothing else.
func TestMaskedActionsAreNeverChosen(t *testing.T) {
	const n = 4
	l := stubLearner(t, small(64), newStub(2, prefersSecond), n)
	v, b := newVec(t, envcheck.Timing(7, 0), n)
	actions, greedy := make([]float32, n), make([]float32, n)
	for k := range 64 {
		// Episodes of 7 steps begin together: the observation is their step over 10.
		want := float32(k % 7 % 2)
		if err := l.Greedy().Act(b, greedy); err != nil {
			t.Fatal(err)
		}
		b = step(t, l, v, b, actions)
		for i := range n {
			if greedy[i] != want || actions[i] != want {
				t.Fatalf("step %d, environment %d: Greedy chose %v and Act %v, want %v", k, i, greedy[i], actions[i], want)
			}
			if b.Invalid[i] {
				t.Fatalf("step %d, environment %d: action %v was masked out", k, i, actions[i])
			}
		}
	}
}

// TestActSamples counts the actions of Act, whose probabilities are 1/4 and 3/4.
func TestActSamples(t *testing.T) {
	const n, steps = 10, 1000
	net := newStub(2, func([]float32, float32) []float32 { return []float32{0, float32(math.Log(3)), 0} })
	l := stubLearner(t, small(steps), net, n)
	b, actions, seconds := batchOf(2, make([]float32, n)...), make([]float32, n), 0
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
			cfg := small(5)
			cfg.Gamma, cfg.GAELambda = 0.5, 0
			l := stubLearner(t, cfg, newStub(2, prefersSecond), n)
			v, b := newVec(t, envcheck.Timing(tc.length, tc.limit), n)
			for k := range 5 {
				b = step(t, l, v, b, make([]float32, n))
				if got, want := l.NumTimesteps(), (k+1)*n; got != want {
					t.Fatalf("NumTimesteps() = %d after %d steps, want %d", got, k+1, want)
				}
			}
			l.buf.Estimate(cfg.Gamma, cfg.GAELambda)
			for row, got := range l.buf.NextValue {
				want := tc.next[row/n]
				if want == want && math.Abs(float64(got-want)) > 1e-4 {
					t.Errorf("value that follows step %d is %v, want %v", row/n, got, want)
				}
				if adv, want := l.buf.Adv[row], tc.adv[row/n]; math.Abs(float64(adv-want)) > 1e-4 {
					t.Errorf("advantage of step %d is %v, want %v", row/n, adv, want)
				}
			}
		})
	}
}

// TestBootstrapOverRollouts goes through two rollouts of 2 steps in one episode, which is cut
// off by step 3: nothing of the first may be left in the second.
func TestBootstrapOverRollouts(t *testing.T) {
	l := stubLearner(t, small(2), newStub(2, prefersSecond), 1)
	v, b := newVec(t, envcheck.Timing(100, 3), 1)
	for round, want := range [][]float32{{17, 27}, {37, 17}, {27, 37}} {
		for range 2 {
			b = step(t, l, v, b, make([]float32, 1))
		}
		if diff := cmp.Diff(want, l.buf.NextValue, cmpopts.EquateApprox(1e-5, 0)); diff != "" {
			t.Errorf("rollout %d (-want +got):\n%s", round, diff)
		}
		if m, err := l.Update(); m == nil || err != nil {
			t.Fatalf("Update() = %v, %v", m, err)
		}
	}
}

func TestObserveRefusesRewards(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		l := stubLearner(t, small(8), newStub(2, prefersSecond), 3)
		b, actions := batchOf(2, 0, 0, 0), make([]float32, 3)
		for range 2 {
			if err := l.Act(b, actions); err != nil {
				t.Fatal(err)
			}
			if err := l.Observe(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Act(b, actions); err != nil {
			t.Fatal(err)
		}
		b.Reward[1] = bad
		err := l.Observe(b)
		if err == nil {
			t.Fatalf("Observe of reward %v gives no error", bad)
		}
		// Two steps of 3 environments came before; this is the 8th timestep, counted from 0.
		for _, part := range []string{"environment 1", "timestep 7", "reward"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not name %q", err, part)
			}
		}
		if l.NumTimesteps() != 6 || l.buf.Step() != 2 {
			t.Errorf("after the error NumTimesteps() = %d and %d steps are recorded, want 6 and 2", l.NumTimesteps(), l.buf.Step())
		}
	}
}

// TestNetworkErrorsPassThrough breaks the network at each of its uses.
func TestNetworkErrorsPassThrough(t *testing.T) {
	broken := errors.New("broken")
	b, actions := batchOf(2, 0), make([]float32, 1)
	b.Truncated[0] = true
	for _, tc := range []struct {
		name string
		use  func(l *Learner, net *stub) error
	}{
		{"Act", func(l *Learner, net *stub) error {
			net.err = broken
			return l.Act(b, actions)
		}},
		{"Greedy", func(l *Learner, net *stub) error {
			net.err = broken
			return l.Greedy().Act(b, actions)
		}},
		{"Observe of a truncated episode", func(l *Learner, net *stub) error {
			err := l.Act(b, actions)
			net.err = broken
			return errors.Join(err, l.Observe(b))
		}},
		{"Update", func(l *Learner, net *stub) error {
			var errs []error
			for range 2 {
				errs = append(errs, l.Act(b, actions), l.Observe(b))
			}
			net.err = broken
			_, err := l.Update()
			return errors.Join(append(errs, err)...)
		}},
	} {
		net := newStub(2, prefersSecond)
		if err := tc.use(stubLearner(t, small(2), net, 1), net); !errors.Is(err, broken) {
			t.Errorf("%s: error %v, want the network's", tc.name, err)
		}
	}
}

func TestActingAllocatesNothing(t *testing.T) {
	const n = 8
	l := stubLearner(t, small(1<<10), newStub(2, func(obs []float32, _ float32) []float32 { return outputs[:] }), n)
	b, actions := batchOf(2, make([]float32, n)...), make([]float32, n)
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
