package planner_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// divisions calls visit with every division of n supersteps into windows up to longest.
func divisions(n, longest int, windows []int, visit func(windows []int)) {
	if n == 0 {
		visit(windows)
		return
	}
	for w := 1; w <= min(n, longest); w++ {
		divisions(n-w, longest, append(windows, w), visit)
	}
}

// With λ = 1 and perfect knowledge, the one-time plan is the best of all divisions of the
// episode into windows.
func TestOneTimeIsOptimal(t *testing.T) {
	for seed := range uint64(5) {
		in := gangtest.LawInstance(t, seed, 12, 3, 4, true)
		ep := planner.Episode{First: 2, Steps: 9, Penalty: 10}
		a := planner.NewAllocator(in.Model(), ep.Steps)
		a.Load(in.Trace().True[ep.First*4 : (ep.First+ep.Steps)*4])
		levels := make([]uint16, 4)
		want := math.Inf(1)
		divisions(ep.Steps, 5, nil, func(windows []int) {
			total := ep.Penalty * float64(len(windows)-1)
			s := 0
			for _, w := range windows {
				a.Configure(s, w, levels)
				for ; w > 0; w-- {
					d, _ := in.Execute(ep.First+s, levels)
					total += d
					s++
				}
			}
			want = min(want, total)
		})
		run := gangtest.Simulate(t, planner.Config{Controller: planner.ControllerOneTime, Lambda: 1, MaxWindow: 5}, in, ep)
		if math.Abs(run.Total-want) > 1e-9*want {
			t.Errorf("seed %d: one-time plan takes %v, want the optimum %v", seed, run.Total, want)
		}
	}
}

// The decision of the dynamic controllers is the first of the best of all divisions of
// their horizon, where one more division of MPC begins with the configuration in force.
func TestDynamicIsOptimal(t *testing.T) {
	const horizon, lambda, penalty = 6, 1.05, 12
	in := gangtest.LawInstance(t, 11, 10, horizon, 4, false)
	ep := planner.Episode{Steps: 10, Penalty: penalty}
	rng := rand.New(rand.NewPCG(13, 14))
	mpc := gangtest.NewPlanner(t, planner.Config{Controller: planner.ControllerDynamicMPC, Window: horizon, Lambda: lambda}, in, ep)
	a := planner.NewAllocator(in.Model(), horizon)
	levels, next, current := make([]uint16, 4), make([]uint16, 4), make([]uint16, 4)
	answers := map[bool]int{}
	for step := range 5 { // the horizon ends within the episode
		for range 8 {
			for k := range current {
				current[k] = uint16(rng.IntN(20))
			}
			if rng.IntN(2) == 0 {
				copy(current, in.Config(step, 3))
			}
			a.Load(in.Planned(step))
			cost := func(windows []int, keep bool) float64 {
				total, s := 0.0, 0
				for i, w := range windows {
					config := current
					if i > 0 || !keep {
						a.Configure(s, w, levels)
						config = levels
					}
					if i > 0 || !keep && step > 0 {
						total += penalty
					}
					total += math.Pow(lambda, float64(w)) * a.Runtime(config, s, w)
					s += w
				}
				return total
			}
			best, want := math.Inf(1), 0
			divisions(horizon, horizon, nil, func(windows []int) {
				if c := cost(windows, false); c < best {
					best, want = c, windows[0]
				}
			})
			divisions(horizon, horizon, nil, func(windows []int) {
				if c := cost(windows, true); c < best {
					best, want = c, 0
				}
			})
			if got := mpc.Plan(context.Background(), step, current, next); got != want {
				t.Fatalf("step %d, levels %v: window %d, want %d", step, current, got, want)
			}
			answers[want == 0]++
			if want > 0 {
				a.Configure(0, want, levels)
				if diff := cmp.Diff(levels, next); diff != "" {
					t.Errorf("step %d: levels differ (-want +got):\n%s", step, diff)
				}
			}
		}
	}
	if answers[true] == 0 || answers[false] == 0 {
		t.Errorf("answers keep: %d, reconfigure: %d; want some of each", answers[true], answers[false])
	}
}

func TestPlannersCadence(t *testing.T) {
	in := gangtest.LawInstance(t, 21, 60, 8, 8, false)
	ep := planner.Episode{First: 5, Steps: 40, Penalty: 15}
	for _, window := range []int{2, 3, 4, 7} { // the instance's table ends at 3
		run := gangtest.Simulate(t, planner.Config{Controller: planner.ControllerStatic, Window: window}, in, ep)
		for i, step := range run.Steps {
			want := 0
			if i%window == 0 {
				want = window
			}
			if step.T != ep.First+i || step.Window != want {
				t.Errorf("static %d: step %d of %d has window %d, want %d", window, i, step.T, step.Window, want)
			}
		}
		if want := (ep.Steps - 1) / window; run.Checkpoints != want {
			t.Errorf("static %d: %d checkpoints, want %d", window, run.Checkpoints, want)
		}
	}
	run := gangtest.Simulate(t, planner.Config{Controller: planner.ControllerDynamicWindow, Window: 8, Lambda: 1.02, MaxWindow: 4}, in, ep)
	due := 0
	for i, step := range run.Steps {
		if i < due && step.Window != 0 || i == due && (step.Window < 1 || step.Window > 4) {
			t.Errorf("dynamic window: step %d has window %d, and the last one ends at %d", i, step.Window, due)
		}
		due += step.Window
	}
	for _, controller := range []string{planner.ControllerEXPPO, planner.ControllerEqualSplit} {
		run := gangtest.Simulate(t, planner.Config{Controller: controller}, in, ep)
		if run.Checkpoints != 0 || run.Steps[0].Window != planner.Custom || run.Steps[39].Window != 0 {
			t.Errorf("%s: %d checkpoints, windows %d … %d", controller, run.Checkpoints, run.Steps[0].Window, run.Steps[39].Window)
		}
	}
	never := gangtest.Simulate(t, planner.Config{Controller: planner.ControllerNever}, in, ep)
	for _, step := range never.Steps {
		if diff := cmp.Diff(make([]uint16, 8), step.Levels); diff != "" || step.Window != 0 {
			t.Fatalf("never: step %d has window %d and levels %v", step.T, step.Window, step.Levels)
		}
	}
}

// No controller is faster, penalties aside, than the exact configuration of every step.
func TestExactMinMaxBoundsControllers(t *testing.T) {
	in := gangtest.LawInstance(t, 31, 40, 8, 8, false)
	ep := planner.Episode{Steps: 40, Penalty: 15}
	bound := gangtest.Simulate(t, planner.Config{Controller: planner.ControllerExactMinMax}, in, ep)
	for _, cfg := range []planner.Config{
		{Controller: planner.ControllerStatic, Window: 1},
		{Controller: planner.ControllerDynamicMPC, Window: 6, Lambda: 1},
		{Controller: planner.ControllerDynamicWindow, Window: 6, Lambda: 1},
		{Controller: planner.ControllerOneTime, Lambda: 1},
		{Controller: planner.ControllerOneTime, Lambda: 1, LocalSearch: true},
		{Controller: planner.ControllerCommitted, Window: 6, Lambda: 1, Commitment: 3},
		{Controller: planner.ControllerThreshold, Window: 2, Saving: 1},
		{Controller: planner.ControllerEXPPO},
		{Controller: planner.ControllerEqualSplit},
		{Controller: planner.ControllerNever},
	} {
		run := gangtest.Simulate(t, cfg, in, ep)
		for i, step := range run.Steps {
			if step.Duration < bound.Steps[i].Duration {
				t.Errorf("%s: step %d takes %v, less than the bound %v", cfg.Controller, i, step.Duration, bound.Steps[i].Duration)
			}
		}
		if want := run.Duration + 15*float64(run.Checkpoints); run.Total != want {
			t.Errorf("%s: total %v, want %v", cfg.Controller, run.Total, want)
		}
	}
}

// A planner with a PenaltyFactor takes the decisions of one whose episode has the greater penalty,
// but pays its own.
func TestPenaltyFactor(t *testing.T) {
	in := gangtest.LawInstance(t, 51, 60, 8, 8, false)
	charged, dear := planner.Episode{Steps: 40, Penalty: 15}, planner.Episode{Steps: 40, Penalty: 60}
	for _, controller := range []string{planner.ControllerDynamicMPC, planner.ControllerDynamicWindow} {
		cfg := planner.Config{Controller: controller, Window: 8, Lambda: 1}
		plain, want := gangtest.Simulate(t, cfg, in, charged), gangtest.Simulate(t, cfg, in, dear)
		cfg.PenaltyFactor = 4
		got := gangtest.Simulate(t, cfg, in, charged)
		if diff := cmp.Diff(want.Steps, got.Steps); diff != "" {
			t.Errorf("%s: steps differ from those of penalty 60 (-want +got):\n%s", controller, diff)
		}
		if got.Checkpoints >= plain.Checkpoints {
			t.Errorf("%s: %d checkpoints, want fewer than the %d without the factor", controller, got.Checkpoints, plain.Checkpoints)
		}
		if want := got.Duration + 15*float64(got.Checkpoints); got.Total != want {
			t.Errorf("%s: total %v, want %v", controller, got.Total, want)
		}
	}
}

func TestNewPlannerErrors(t *testing.T) {
	in := gangtest.LawInstance(t, 1, 10, 4, 3, true)
	ok := planner.Episode{Steps: 10}
	for _, test := range []struct {
		cfg  planner.Config
		ep   planner.Episode
		want string
	}{
		{planner.Config{Controller: "greedy"}, ok, `gang: unknown controller "greedy"`},
		{planner.Config{Controller: planner.ControllerStatic}, ok, "gang: Window 0 of controller static, want 1 to the trace's 4 columns"},
		{planner.Config{Controller: planner.ControllerDynamicMPC, Window: 5, Lambda: 1}, ok, "gang: Window 5 of controller dynamic_mpc, want 1 to the trace's 4 columns"},
		{planner.Config{Controller: planner.ControllerDynamicWindow, Window: 4}, ok, "gang: Lambda 0 of controller dynamic_window, want a finite number > 0"},
		{planner.Config{Controller: planner.ControllerOneTime, Lambda: math.NaN()}, ok, "gang: Lambda NaN of controller one_time, want a finite number > 0"},
		{planner.Config{Controller: planner.ControllerOneTime, Lambda: 1, MaxWindow: -1}, ok, "gang: MaxWindow -1 of controller one_time, want at least 1"},
		{planner.Config{Controller: planner.ControllerDynamicMPC, Window: 4, Lambda: 1, PenaltyFactor: -1}, ok, "gang: PenaltyFactor -1 of controller dynamic_mpc, want a finite number > 0"},
		{planner.Config{Controller: planner.ControllerCommitted, Window: 4, Lambda: 1, Commitment: 5}, ok, "gang: Commitment 5 of controller chc, want 1 to its Window, 4"},
		{planner.Config{Controller: planner.ControllerThreshold, Window: 4, Saving: -1}, ok, "gang: Saving -1 of controller threshold, want a finite number ≥ 0"},
		{planner.Config{Controller: planner.ControllerNever}, planner.Episode{}, "gang: episode of 0 steps from 0, want 1 or more within the trace's 10"},
		{planner.Config{Controller: planner.ControllerNever}, planner.Episode{First: 1, Steps: 10}, "gang: episode of 10 steps from 1, want 1 or more within the trace's 10"},
		{planner.Config{Controller: planner.ControllerNever}, planner.Episode{Steps: 10, Penalty: -1}, "gang: Penalty -1, want a finite number ≥ 0"},
	} {
		if _, err := planner.New(test.cfg, in, test.ep); err == nil || err.Error() != test.want {
			t.Errorf("NewPlanner(%+v): error %v, want %s", test.cfg, err, test.want)
		}
	}
}

func TestPlanAllocatesNothing(t *testing.T) {
	in := gangtest.LawInstance(t, 41, 40, 10, 8, false)
	ep := planner.Episode{Steps: 40, Penalty: 15}
	current, next := make([]uint16, 8), make([]uint16, 8)
	for _, cfg := range []planner.Config{
		{Controller: planner.ControllerStatic, Window: 4},
		{Controller: planner.ControllerDynamicMPC, Window: 10, Lambda: 1.02},
		{Controller: planner.ControllerDynamicWindow, Window: 10, Lambda: 1.02},
		{Controller: planner.ControllerOneTime, Lambda: 1.02},
		{Controller: planner.ControllerCommitted, Window: 10, Lambda: 1, Commitment: 4, Saving: 1, LocalSearch: true},
		{Controller: planner.ControllerThreshold, Window: 3, Saving: 1},
		{Controller: planner.ControllerExactMinMax},
	} {
		p := gangtest.NewPlanner(t, cfg, in, ep)
		if got := testing.AllocsPerRun(3, func() {
			for step := range 6 {
				p.Plan(context.Background(), step, current, next)
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations, want 0", p.Name(), got)
		}
	}
}
