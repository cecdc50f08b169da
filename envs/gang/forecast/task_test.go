package forecast_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/forecast"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

const id = "k8s/GangForecast-v0"

var (
	ctx   = context.Background()
	reset = envstest.Reset
)

func open(tb testing.TB, opts map[string]any) *envs.Vec {
	tb.Helper()
	return envstest.Open(tb, id, 1, envs.VecOptions{Options: opts, Autoreset: envs.SameStep})
}

func TestContract(t *testing.T) {
	for i, tc := range []struct {
		name string
		opts map[string]any
	}{
		{"generated", map[string]any{"steps": 6}},
		{"pool, noise, resize", map[string]any{"instances": 2, "noise": 1.0, "penalty_model": "resize", "steps": 6, "horizon": 3}},
		{"persistence, held-out", map[string]any{"forecaster": "persistence", "split": "heldout", "steps": 6, "horizon": 10}},
		{"files", map[string]any{"data": gangtest.HandData(t, 1, 60), "steps": 6, "forecaster": "persistence"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			envstest.EveryThird(t, i)
			envcheck.Run(t, envstest.Spec(t, id), envcheck.Options{Options: tc.opts, Steps: 120, SkipBaselines: tc.name != "generated"})
		})
	}
}

// handForecasts opens an environment with the hand-worked data and 1020 rows of training, in which an
// episode of 1009 steps has one place: it begins at row 1 or, held out, at row 1020.
func handForecasts(t *testing.T, split string) *envs.Vec {
	return open(t, map[string]any{
		"data": gangtest.HandData(t, 1, 1020), "split": split, "forecaster": "persistence", "steps": 1009, "horizon": 2, "correction": 40.0,
	})
}

// correct takes a step with the same correction of both forecasts.
func correct(t *testing.T, v *envs.Vec, correction float32) *envs.Batch {
	t.Helper()
	b, err := v.Step(ctx, []float32{correction, correction})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func checkStep(t *testing.T, b *envs.Batch, reward, duration float64) {
	t.Helper()
	if math.Abs(b.Reward[0]-reward) > 1e-9 || math.Abs(b.Info[0]-duration) > 1e-9 || b.Info[2] != b.Info[0] {
		t.Errorf("reward %v, duration %v, total %v; want %v and twice %v", b.Reward[0], b.Info[0], b.Info[2], reward, duration)
	}
}

// TestForecastByHand plays the episode of README.md, section "A correction by hand".
func TestForecastByHand(t *testing.T) {
	v := handForecasts(t, "heldout")
	reset(t, v, 1)
	task := v.Env(0).Task().(*forecast.Task)
	for range 2 {
		if b := correct(t, v, 0); b.Reward[0] != 0 || task.Step() != 0 {
			t.Errorf("reward %v at step %d before the last task's correction, want 0 at step 0", b.Reward[0], task.Step())
		}
	}
	checkStep(t, correct(t, v, 0), -0.80, 80)

	reset(t, v, 1)
	correct(t, v, -0.75)
	correct(t, v, 0)
	checkStep(t, correct(t, v, 0), -1.98, 198)
	if got := task.Levels()[0]; got != 11 { // 2100 millicores are 11 increments above 1000
		t.Errorf("level of task a is %d, want 11", got)
	}
}

// TestObservationByHand: rows of the training part are of size 10 and 50 in turn, those of the
// held-out part of size 20. A day has 24 steps, so that a row has the size of the one a day before.
func TestObservationByHand(t *testing.T) {
	approx := cmpopts.EquateApprox(0, 1e-6)
	days := func(a, b float32) (x []float32) {
		for range 7 * 3 {
			x = append(x, a, b)
		}
		return x
	}
	held := reset(t, handForecasts(t, "heldout"), 1)
	// The last known row, 1019, is of size 50, and the forecast repeats it.
	want := slices.Concat([]float32{1, -1, 0, -1, 0, -1, 0, -1, 0, 0}, days(-1, 0), []float32{1, 24. / 144, 1, 1. / 24, 1})
	if diff := cmp.Diff(want, held.Obs, approx); diff != "" {
		t.Errorf("first observation of the held-out part (-want +got):\n%s", diff)
	}
	v := handForecasts(t, "train")
	b := reset(t, v, 1)
	// Row 0 is the only one before the episode.
	want = slices.Concat(make([]float32, 10), days(0, 0), []float32{0, 24. / 144, 1, 1. / 24, 1})
	if diff := cmp.Diff(want, b.Obs, approx); diff != "" {
		t.Errorf("first observation of the training part (-want +got):\n%s", diff)
	}
	for range 60 * 3 {
		b = correct(t, v, 0)
	}
	// Rows 0 to 60 are known: those of two days, from row 61-4-48 on. Row 60 is of size 10.
	want = slices.Concat([]float32{0, 1, 0, 1, 0, 1, 0, 1, 0, 0}, days(1, 0), []float32{2. / 7, 24. / 144})
	if diff := cmp.Diff(want, b.Obs[:len(want)], approx); diff != "" {
		t.Errorf("observation after 60 supersteps (-want +got):\n%s", diff)
	}
}

// TestUncorrectedIsThePlanner compares with the simulator, which knows nothing of corrections.
func TestUncorrectedIsThePlanner(t *testing.T) {
	v := open(t, map[string]any{"steps": 30, "horizon": 5, "lambda": 1.01, "penalty_factor": 2.0})
	reset(t, v, 7)
	task := v.Env(0).Task().(*forecast.Task)
	want := gangtest.Simulate(t, planner.Config{Controller: planner.ControllerDynamicMPC, Window: 5, Lambda: 1.01, PenaltyFactor: 2}, task.Instance(), task.Episode())
	b := envstest.Play(t, v, envstest.Policy(t, v, "uncorrected"), 7)
	if got := b.FinalInfo[2]; math.Abs(got-want.Total) > 1e-6 || int(b.FinalInfo[3]) != want.Checkpoints {
		t.Errorf("total %v with %v checkpoints, the simulator's is %v with %d", got, b.FinalInfo[3], want.Total, want.Checkpoints)
	}
}

// TestCacheBaselinesLeavesThePlanner: caching makes no decision in place of the environment's planner.
func TestCacheBaselinesLeavesThePlanner(t *testing.T) {
	v := open(t, map[string]any{"steps": 5})
	play := func() []float64 {
		for !v.Last().Done(0) {
			if _, err := v.Step(ctx, make([]float32, 6)); err != nil {
				t.Fatal(err)
			}
		}
		return slices.Clone(v.Last().FinalInfo)
	}
	reset(t, v, 7)
	want := play()
	reset(t, v, 7)
	v.CacheBaselines()
	if got := play(); !slices.Equal(got, want) {
		t.Errorf("info at the end of the episode after CacheBaselines is %v, want %v", got, want)
	}
}

// TestPlannersOfBothEnvironments: a planner takes the same time in both environments.
func TestPlannersOfBothEnvironments(t *testing.T) {
	opts := map[string]any{"steps": 20}
	for _, name := range []string{"static_3", "dynamic_window", "dynamic_mpc:lambda=1", "one_time"} {
		one, other := envstest.Open(t, "k8s/GangWindow-v0", 1, envs.VecOptions{Options: opts, Autoreset: envs.SameStep}), open(t, opts)
		want := envstest.Play(t, one, envstest.Policy(t, one, name), 3).FinalInfo[2]
		if got := envstest.Play(t, other, envstest.Policy(t, other, name), 3).FinalInfo[2]; got != want {
			t.Errorf("%s: total %v in %s, want %v", name, got, id, want)
		}
	}
}

// TestTrueSizesArePerfectForecasts: with the corrections of true_sizes the planner decides as it does with
// perfect forecasts, until its horizon reaches the last size of the trace.
func TestTrueSizesArePerfectForecasts(t *testing.T) {
	totals := func(policy, forecaster string) (all []float64) {
		v := open(t, map[string]any{"steps": 30, "correction": 40.0, "forecaster": forecaster})
		p, err := envs.NewPolicies(v, policy, 0)
		if err != nil {
			t.Fatal(err)
		}
		reset(t, v, 11)
		for range 8 * 20 {
			b, err := p.Step(ctx)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b.Info[2])
		}
		return all
	}
	want := totals("uncorrected", "perfect")
	if diff := cmp.Diff(want, totals("true_sizes", "seasonal"), cmpopts.EquateApprox(1e-6, 0)); diff != "" {
		t.Errorf("totals of true_sizes (-perfect forecasts +got):\n%s", diff)
	}
	if cmp.Equal(want, totals("uncorrected", "seasonal"), cmpopts.EquateApprox(1e-6, 0)) {
		t.Error("perfect forecasts change nothing")
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, tc := range []struct {
		opts map[string]any
		want string
	}{
		{map[string]any{"lambda": 3.0}, "lambda is 3, want 0.5 to 2"},
		{map[string]any{"penalty_factor": 0.0}, "penalty_factor is 0, want 0.01 to 100"},
		{map[string]any{"correction": 0.0}, "correction is 0, want 1e-09"},
		{map[string]any{"horizon": 21}, "horizon is 21, want 1 to 20"},
		{map[string]any{"dynamics": "compatible", "data": t.TempDir()}, "dynamics compatible has no history"},
	} {
		envstest.CheckInvalid(t, id, tc.opts, tc.want)
	}
}
