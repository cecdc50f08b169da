package gang_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/gang"
)

// lawTrace returns a trace of random walks. With exact, planners see the truth.
func lawTrace(seed uint64, steps, columns, tasks int, exact bool) *gang.Trace {
	rng := rand.New(rand.NewPCG(seed, 1))
	tr := &gang.Trace{Steps: steps, Columns: columns, Tasks: tasks}
	walk := make([]float64, (steps+columns)*tasks)
	for i := range walk {
		if walk[i] = 10 + 40*rng.Float64(); i >= tasks {
			walk[i] = min(50, max(10, walk[i-tasks]+8*rng.NormFloat64()))
		}
	}
	for t := range steps {
		tr.True = append(tr.True, walk[t*tasks:(t+1)*tasks]...)
		for _, v := range walk[t*tasks : (t+columns)*tasks] {
			if !exact {
				v += 3 * rng.NormFloat64()
			}
			tr.Planned = append(tr.Planned, v)
		}
	}
	return tr
}

func lawInstance(tb testing.TB, seed uint64, steps, columns, tasks int, exact bool) *gang.Instance {
	tb.Helper()
	in, err := gang.NewInstance(lawModel(tb, tasks), lawTrace(seed, steps, columns, tasks, exact), min(3, columns), columns)
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

func mustPlan(tb testing.TB, cfg gang.PlannerConfig, in *gang.Instance, ep gang.Episode) gang.Planner {
	tb.Helper()
	p, err := gang.NewPlanner(cfg, in, ep)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func simulate(tb testing.TB, cfg gang.PlannerConfig, in *gang.Instance, ep gang.Episode) gang.Run {
	tb.Helper()
	run, err := gang.Simulate(in, mustPlan(tb, cfg, in, ep), ep, true)
	if err != nil {
		tb.Fatal(err)
	}
	return run
}

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
		in := lawInstance(t, seed, 12, 3, 4, true)
		ep := gang.Episode{First: 2, Steps: 9, Penalty: 10}
		a := gang.NewAllocator(in.Model(), ep.Steps)
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
		run := simulate(t, gang.PlannerConfig{Controller: gang.ControllerOneTime, Lambda: 1, MaxWindow: 5}, in, ep)
		if math.Abs(run.Total-want) > 1e-9*want {
			t.Errorf("seed %d: one-time plan takes %v, want the optimum %v", seed, run.Total, want)
		}
	}
}

// The decision of the dynamic controllers is the first of the best of all divisions of
// their horizon, where one more division of MPC begins with the configuration in force.
func TestDynamicIsOptimal(t *testing.T) {
	const horizon, lambda, penalty = 6, 1.05, 12
	in := lawInstance(t, 11, 10, horizon, 4, false)
	ep := gang.Episode{Steps: 10, Penalty: penalty}
	rng := rand.New(rand.NewPCG(13, 14))
	mpc := mustPlan(t, gang.PlannerConfig{Controller: gang.ControllerDynamicMPC, Window: horizon, Lambda: lambda}, in, ep)
	a := gang.NewAllocator(in.Model(), horizon)
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
			if got := mpc.Plan(step, current, next); got != want {
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
	in := lawInstance(t, 21, 60, 8, 8, false)
	ep := gang.Episode{First: 5, Steps: 40, Penalty: 15}
	for _, window := range []int{2, 3, 4, 7} { // the instance's table ends at 3
		run := simulate(t, gang.PlannerConfig{Controller: gang.ControllerStatic, Window: window}, in, ep)
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
	run := simulate(t, gang.PlannerConfig{Controller: gang.ControllerDynamicWindow, Window: 8, Lambda: 1.02, MaxWindow: 4}, in, ep)
	due := 0
	for i, step := range run.Steps {
		if i < due && step.Window != 0 || i == due && (step.Window < 1 || step.Window > 4) {
			t.Errorf("dynamic window: step %d has window %d, and the last one ends at %d", i, step.Window, due)
		}
		due += step.Window
	}
	for _, controller := range []string{gang.ControllerEXPPO, gang.ControllerEqualSplit} {
		run := simulate(t, gang.PlannerConfig{Controller: controller}, in, ep)
		if run.Checkpoints != 0 || run.Steps[0].Window != gang.Custom || run.Steps[39].Window != 0 {
			t.Errorf("%s: %d checkpoints, windows %d … %d", controller, run.Checkpoints, run.Steps[0].Window, run.Steps[39].Window)
		}
	}
	never := simulate(t, gang.PlannerConfig{Controller: gang.ControllerNever}, in, ep)
	for _, step := range never.Steps {
		if diff := cmp.Diff(make([]uint16, 8), step.Levels); diff != "" || step.Window != 0 {
			t.Fatalf("never: step %d has window %d and levels %v", step.T, step.Window, step.Levels)
		}
	}
}

// No controller is faster, penalties aside, than the exact configuration of every step.
func TestExactMinMaxBoundsControllers(t *testing.T) {
	in := lawInstance(t, 31, 40, 8, 8, false)
	ep := gang.Episode{Steps: 40, Penalty: 15}
	bound := simulate(t, gang.PlannerConfig{Controller: gang.ControllerExactMinMax}, in, ep)
	for _, cfg := range []gang.PlannerConfig{
		{Controller: gang.ControllerStatic, Window: 1},
		{Controller: gang.ControllerDynamicMPC, Window: 6, Lambda: 1},
		{Controller: gang.ControllerDynamicWindow, Window: 6, Lambda: 1},
		{Controller: gang.ControllerOneTime, Lambda: 1},
		{Controller: gang.ControllerEXPPO},
		{Controller: gang.ControllerEqualSplit},
		{Controller: gang.ControllerNever},
	} {
		run := simulate(t, cfg, in, ep)
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

func TestNewPlannerErrors(t *testing.T) {
	in := lawInstance(t, 1, 10, 4, 3, true)
	ok := gang.Episode{Steps: 10}
	for _, test := range []struct {
		cfg  gang.PlannerConfig
		ep   gang.Episode
		want string
	}{
		{gang.PlannerConfig{Controller: "greedy"}, ok, `gang: unknown controller "greedy"`},
		{gang.PlannerConfig{Controller: gang.ControllerStatic}, ok, "gang: Window 0 of controller static, want 1 to the trace's 4 columns"},
		{gang.PlannerConfig{Controller: gang.ControllerDynamicMPC, Window: 5, Lambda: 1}, ok, "gang: Window 5 of controller dynamic_mpc, want 1 to the trace's 4 columns"},
		{gang.PlannerConfig{Controller: gang.ControllerDynamicWindow, Window: 4}, ok, "gang: Lambda 0 of controller dynamic_window, want a finite number > 0"},
		{gang.PlannerConfig{Controller: gang.ControllerOneTime, Lambda: math.NaN()}, ok, "gang: Lambda NaN of controller one_time, want a finite number > 0"},
		{gang.PlannerConfig{Controller: gang.ControllerOneTime, Lambda: 1, MaxWindow: -1}, ok, "gang: MaxWindow -1 of controller one_time, want at least 1"},
		{gang.PlannerConfig{Controller: gang.ControllerNever}, gang.Episode{}, "gang: episode of 0 steps from 0, want 1 or more within the trace's 10"},
		{gang.PlannerConfig{Controller: gang.ControllerNever}, gang.Episode{First: 1, Steps: 10}, "gang: episode of 10 steps from 1, want 1 or more within the trace's 10"},
		{gang.PlannerConfig{Controller: gang.ControllerNever}, gang.Episode{Steps: 10, Penalty: -1}, "gang: Penalty -1, want a finite number ≥ 0"},
	} {
		if _, err := gang.NewPlanner(test.cfg, in, test.ep); err == nil || err.Error() != test.want {
			t.Errorf("NewPlanner(%+v): error %v, want %s", test.cfg, err, test.want)
		}
	}
}

func TestPlanAllocatesNothing(t *testing.T) {
	in := lawInstance(t, 41, 40, 10, 8, false)
	ep := gang.Episode{Steps: 40, Penalty: 15}
	current, next := make([]uint16, 8), make([]uint16, 8)
	for _, cfg := range []gang.PlannerConfig{
		{Controller: gang.ControllerStatic, Window: 4},
		{Controller: gang.ControllerDynamicMPC, Window: 10, Lambda: 1.02},
		{Controller: gang.ControllerDynamicWindow, Window: 10, Lambda: 1.02},
		{Controller: gang.ControllerOneTime, Lambda: 1.02},
		{Controller: gang.ControllerExactMinMax},
	} {
		p := mustPlan(t, cfg, in, ep)
		if got := testing.AllocsPerRun(3, func() {
			for step := range 6 {
				p.Plan(step, current, next)
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations, want 0", p.Name(), got)
		}
	}
}
