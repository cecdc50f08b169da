package gang_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

func open(tb testing.TB, n int, opts map[string]any) *envs.Vec {
	tb.Helper()
	return envstest.Open(tb, spec(tb).ID, n, envs.VecOptions{Options: opts, Autoreset: envs.SameStep})
}

var (
	reset = envstest.Reset
	step  = envstest.Step
	write = envstest.Write
)

// handData writes the data of the hand-worked episode of README.md.
func handData(tb testing.TB) string { return gangtest.HandData(tb, 1, 60) }

// TestHandWorkedEpisode plays the episode of README.md, section "An episode by hand".
func TestHandWorkedEpisode(t *testing.T) {
	for _, tc := range []struct {
		model    string
		penalty  float64 // of the second step: 15 s, 15 s for three of three tasks, 1 s for each of three
		pods     int     // that exist after it, the deleted ones counted
		requests int64
	}{
		{gang.PenaltyConstant, 15, 6, 8000},
		{gang.PenaltyPerTask, 15, 6, 8000},
		{gang.PenaltyResize, 3, 3, 8000},
	} {
		t.Run(tc.model, func(t *testing.T) {
			v := open(t, 1, map[string]any{
				"data": handData(t), "split": "heldout", "forecaster": "persistence",
				"steps": 3, "windows": 2, "horizon": 2, "penalty_model": tc.model,
			})
			b := reset(t, v, 1)
			approx := cmpopts.EquateApprox(0, 1e-5)
			// Size 20 on 1 core takes 220 s, (220−50)/200 = 0.85; on 8 cores 80 s, 0.15. Size 20 is
			// (20−10)/40 = 0.25. A share is 1 of 24 cores. No plan has been made.
			want := []float32{.85, .85, .15, .15, .15, .15, .25, .25, .25, 1. / 24, 1. / 24, 1. / 24, 1}
			if diff := cmp.Diff(want, b.Obs, approx); diff != "" {
				t.Errorf("first observation (-want +got):\n%s", diff)
			}
			b = step(t, v, 0)
			checkStep(t, b, -2.20, 220, 0, 220, 0)
			b = step(t, v, 2)
			checkStep(t, b, -(80+tc.penalty)/100, 80, tc.penalty, 300+tc.penalty, 1)
			want = []float32{.15, .15, .15, .15, .15, .15, .25, .25, .25, 1. / 3, 1. / 3, 1. / 3, 0}
			if diff := cmp.Diff(want, b.Obs, approx); diff != "" {
				t.Errorf("third observation (-want +got):\n%s", diff)
			}
			s := v.Env(0).State()
			if len(s.Pods) != tc.pods || s.Nodes[0].NumPods != 3 || s.Nodes[0].Requested.MilliCPU != 24000 {
				t.Errorf("cluster after the plan:\n%v", s)
			}
			for i, p := range s.Pods {
				running := i >= tc.pods-3
				if (p.Phase == cluster.Running) != running || running && p.Requests.MilliCPU != tc.requests {
					t.Errorf("pod %d is %v with %d millicores", i, p.Phase, p.Requests.MilliCPU)
				}
			}
			if want := time.Duration(300+tc.penalty) * time.Second; s.Now != want {
				t.Errorf("the clock is at %v, want %v", s.Now, want)
			}
			b = step(t, v, 0)
			if !b.Truncated[0] || b.Terminated[0] {
				t.Errorf("after three steps: terminated %v, truncated %v; want false, true", b.Terminated[0], b.Truncated[0])
			}
			if want := -(380 + tc.penalty) / 100; math.Abs(b.EpisodeReturn[0]-want) > 1e-9 {
				t.Errorf("return %v, want %v", b.EpisodeReturn[0], want)
			}
		})
	}
}

// TestFirstPlanIsFree: 80 s at once, and no checkpoint.
func TestFirstPlanIsFree(t *testing.T) {
	v := open(t, 1, map[string]any{"data": handData(t), "split": "heldout", "forecaster": "persistence", "steps": 3})
	reset(t, v, 1)
	checkStep(t, step(t, v, 1), -0.80, 80, 0, 80, 0)
}

func checkStep(t *testing.T, b *envs.Batch, reward, duration, penalty, total, checkpoints float64) {
	t.Helper()
	if math.Abs(b.Reward[0]-reward) > 1e-9 {
		t.Errorf("reward %v, want %v", b.Reward[0], reward)
	}
	want := []float64{duration, penalty, total, checkpoints}
	if diff := cmp.Diff(want, b.Info[:4], cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
}

// TestGoldenEpisode pins a generated episode, noise and all: a change of any law, scaler,
// forecaster or draw shows here and must be meant.
func TestGoldenEpisode(t *testing.T) {
	v := open(t, 1, map[string]any{"steps": 24, "noise": 1.0, "straggler_prob": 0.05})
	b := reset(t, v, 42)
	var text strings.Builder
	for i := range 24 {
		action := float32(i % 4)
		fmt.Fprintf(&text, "%2d", i)
		for _, x := range b.Obs {
			fmt.Fprintf(&text, " %.5f", x)
		}
		b = step(t, v, action)
		info := b.Info
		if b.Done(0) {
			info = b.FinalInfo
		}
		fmt.Fprintf(&text, "\n   action %v reward %.6f duration %.4f bottleneck %v\n", action, b.Reward[0], info[0], info[5])
	}
	envstest.Golden(t, "episode", text.String())
}

// TestBaselinesEqualSimulator plays each planner as a baseline and compares the total with
// that of the simulator, which knows nothing of actions, pods and rewards.
func TestBaselinesEqualSimulator(t *testing.T) {
	v := open(t, 1, map[string]any{"steps": 40})
	for _, cfg := range []planner.Config{
		{Controller: planner.ControllerNever}, {Controller: planner.ControllerEqualSplit}, {Controller: planner.ControllerEXPPO},
		{Controller: planner.ControllerStatic, Window: 2}, {Controller: planner.ControllerStatic, Window: 7},
		{Controller: planner.ControllerDynamicMPC, Window: 10, Lambda: 1.02},
		{Controller: planner.ControllerDynamicWindow, Window: 10, Lambda: 1.02},
		{Controller: planner.ControllerOneTime, Lambda: 1}, {Controller: planner.ControllerExactMinMax},
		{Controller: planner.ControllerOneTime, Lambda: 1, LocalSearch: true},
		{Controller: planner.ControllerCommitted, Window: 6, Lambda: 1, Commitment: 1},
		{Controller: planner.ControllerCommitted, Window: 3, Lambda: 1, Commitment: 3},
		{Controller: planner.ControllerCommitted, Window: 6, Lambda: 1, Commitment: 2},
		{Controller: planner.ControllerThreshold, Window: 3, Saving: 1},
		{Controller: planner.ControllerThreshold, Window: 1, Saving: 0.5, LocalSearch: true},
	} {
		name := cfg.Controller
		switch {
		case cfg.Controller == planner.ControllerStatic:
			name = fmt.Sprintf("static_%d", cfg.Window)
		case cfg.Controller == planner.ControllerCommitted && cfg.Commitment == 1:
			name = "rhc"
		case cfg.Controller == planner.ControllerCommitted && cfg.Commitment == 3:
			name = "afhc"
		case cfg.Controller == planner.ControllerThreshold && cfg.LocalSearch:
			name = "threshold:window=1,saving=0.5,local_search=true"
		case cfg.LocalSearch:
			name += ":local_search=true"
		}
		t.Run(name, func(t *testing.T) {
			reset(t, v, 5)
			task := v.Env(0).Task().(*gang.Task)
			p, err := planner.New(cfg, task.Instance(), task.Episode())
			if err != nil {
				t.Fatal(err)
			}
			want, err := planner.Simulate(task.Instance(), p, task.Episode(), false)
			if err != nil {
				t.Fatal(err)
			}
			b := envstest.Play(t, v, envstest.Policy(t, v, name), 5)
			if got := b.FinalInfo[2]; math.Abs(got-want.Total) > 1e-6 || int(b.FinalInfo[3]) != want.Checkpoints {
				t.Errorf("total %v with %v checkpoints, the simulator's is %v with %d", got, b.FinalInfo[3], want.Total, want.Checkpoints)
			}
		})
	}
}

// TestPoolIsShared sees that environments made together play the same prepared instances.
func TestPoolIsShared(t *testing.T) {
	v := open(t, 8, map[string]any{"instances": 1, "steps": 5})
	reset(t, v, 1)
	first := v.Env(0).Task().(*gang.Task).Instance()
	for i := range 8 {
		if v.Env(i).Task().(*gang.Task).Instance() != first {
			t.Errorf("environment %d has an instance of its own", i)
		}
	}
}

// TestSplitsDiffer sees that equal seeds give different instances in the two splits.
func TestSplitsDiffer(t *testing.T) {
	train, held := open(t, 1, map[string]any{"steps": 5}), open(t, 1, map[string]any{"steps": 5, "split": "heldout"})
	if cmp.Equal(reset(t, train, 1).Obs, reset(t, held, 1).Obs) {
		t.Error("seed 1 gives the same first observation in both splits")
	}
}

// TestFileForecastsAreThere: the held-out part has 1019 rows and a file forecasts for the first 1000
// of them, so that no episode may reach further. Every forecast is 10 and so of size 20.
func TestFileForecastsAreThere(t *testing.T) {
	dir := handData(t)
	var text strings.Builder
	text.WriteString("# t")
	for h := 1; h < 20; h++ {
		fmt.Fprintf(&text, ",t+%d", h)
	}
	text.WriteString(strings.Repeat("\n10"+strings.Repeat(",10", 19), 1000))
	for _, name := range []string{"x", "y", "z"} {
		write(t, filepath.Join(dir, "forecasts", name+"_forecasts.csv"), text.String())
	}
	v := open(t, 1, map[string]any{"data": dir, "split": "heldout", "forecaster": "file", "steps": 40})
	for seed := range uint64(400) { // one episode in 30 would reach too far
		reset(t, v, seed)
		for i, size := range v.Env(0).Task().(*gang.Task).Instance().Trace().Planned {
			if size != 20 {
				t.Fatalf("seed %d: planned size %d is %v, want 20", seed, i, size)
			}
		}
	}
}

// TestOwnUnits plays the hand-worked episode with sizes in a tenth of the unit, from 100 to 500, and
// half of the cores, of which a plan gives each task four: 20·(12 − 4) = 160 s.
func TestOwnUnits(t *testing.T) {
	v := open(t, 1, map[string]any{
		"data": gangtest.HandData(t, 10, 60), "split": "heldout", "forecaster": "persistence", "steps": 3,
		"size_low": 100.0, "size_high": 500.0, "total_cpu_m": 12000, "start_cpu_m": 2000, "increment_cpu_m": 500,
	})
	b := reset(t, v, 1)
	// Two cores take 200 s, (200−50)/200; size 200 is (200−100)/400; 2 of 12 cores.
	for i, want := range map[int]float32{0: 0.75, 6: 0.55, 24: 0.25, 27: 1. / 6} {
		if math.Abs(float64(b.Obs[i]-want)) > 1e-6 {
			t.Errorf("observation %d is %v, want %v", i, b.Obs[i], want)
		}
	}
	checkStep(t, step(t, v, 0), -2, 200, 0, 200, 0)
	checkStep(t, step(t, v, 1), -1.75, 160, 15, 375, 1)
	if n := v.Env(0).State().Nodes[0]; n.Allocatable.MilliCPU != 12000 || n.Requested.MilliCPU != 12000 {
		t.Errorf("node of %v with %v requested, want 12 cores and all of them", n.Allocatable, n.Requested)
	}
}

// TestClipped: plans of the hand-worked episode are of 80 s throughout.
func TestClipped(t *testing.T) {
	for high, want := range map[float64]float64{70: 1, 80: 0} {
		v := open(t, 1, map[string]any{
			"data": handData(t), "split": "heldout", "forecaster": "persistence", "steps": 3, "duration_low": 50.0, "duration_high": high,
		})
		reset(t, v, 1)
		part, low, top := v.Env(0).Task().(*gang.Task).Clipped()
		if math.Abs(part-want) > 1e-9 || math.Abs(low-80) > 1e-9 || math.Abs(top-80) > 1e-9 {
			t.Errorf("duration_high %v: %v of durations between %v and %v s, want %v of 80 s", high, part, low, top, want)
		}
	}
}

// TestReportProfile: a superstep of size 20 on c cores takes 20·(12-c) s, and what the options leave
// uncovered is noted.
func TestReportProfile(t *testing.T) {
	report := func(opts map[string]any) *gang.ProfileReport {
		opts["data"], opts["split"], opts["forecaster"], opts["steps"] = handData(t), "heldout", "persistence", 4
		v := open(t, 1, opts)
		reset(t, v, 1)
		return v.Env(0).Task().(*gang.Task).ReportProfile(20, 2)
	}
	r := report(map[string]any{"duration_low": 50.0, "duration_high": 80.0})
	for i, want := range []float64{220, 200, 160, 80} {
		if got := r.Durations["b"][i]; r.At[i] != float64(int(1000)<<i) || math.Abs(got-want) > 1e-9 {
			t.Errorf("b on %v millicores: %v s, want %v", r.At[i], got, want)
		}
	}
	if len(r.Tasks) != 3 || len(r.Windows[0].Seconds) != 2 || r.Method != "constant" || len(r.Notes) != 0 {
		t.Errorf("%d tasks, %d ages, penalty %s, notes %q; want 3, 2, constant and none", len(r.Tasks), len(r.Windows[0].Seconds), r.Method, r.Notes)
	}
	for option, tc := range map[string]struct {
		value any
		note  string
	}{
		"duration_high": {70.0, "100 % of predicted durations are beyond what observations show: set duration_low:80 and duration_high:80"},
		"start_cpu_m":   {500, "tasks start with 500 millicores"},
		"size_high":     {60.0, "sizes are 10 to 60 by the options size_low and size_high, and the profile's 10 to 50"},
	} {
		opts := map[string]any{"duration_low": 50.0, "duration_high": 80.0, option: tc.value}
		if notes := strings.Join(report(opts).Notes, "\n"); !strings.Contains(notes, tc.note) {
			t.Errorf("%s %v: notes %q, want %q", option, tc.value, notes, tc.note)
		}
	}
}

// TestParametersOfPlanners: the names of planners carry their parameters, which reach the planner.
func TestParametersOfPlanners(t *testing.T) {
	v := open(t, 1, map[string]any{"steps": 40})
	for name, cfg := range map[string]planner.Config{
		"dynamic_mpc:lambda=0.99":            {Controller: planner.ControllerDynamicMPC, Window: 10, Lambda: 0.99},
		"dynamic_mpc:penalty_factor=3":       {Controller: planner.ControllerDynamicMPC, Window: 10, Lambda: 1.02, PenaltyFactor: 3},
		"dynamic_mpc:horizon=4":              {Controller: planner.ControllerDynamicMPC, Window: 4, Lambda: 1.02},
		"dynamic_mpc_tuned":                  {Controller: planner.ControllerDynamicMPC, Window: 10, Lambda: 1.005, PenaltyFactor: 1.8},
		"dynamic_window:horizon=5,lambda=1":  {Controller: planner.ControllerDynamicWindow, Window: 5, Lambda: 1},
		"dynamic_window:penalty_factor=0.25": {Controller: planner.ControllerDynamicWindow, Window: 10, Lambda: 1.02, PenaltyFactor: 0.25},
	} {
		reset(t, v, 5)
		task := v.Env(0).Task().(*gang.Task)
		want := gangtest.Simulate(t, cfg, task.Instance(), task.Episode())
		b := envstest.Play(t, v, envstest.Policy(t, v, name), 5)
		if got := b.FinalInfo[2]; math.Abs(got-want.Total) > 1e-6 || int(b.FinalInfo[3]) != want.Checkpoints {
			t.Errorf("%s: total %v with %v checkpoints, the simulator's is %v with %d", name, got, b.FinalInfo[3], want.Total, want.Checkpoints)
		}
	}
}

// TestWrongProfile: planners and observations see the wrong profile, which executes nothing: a job that keeps its
// configuration takes as long as without errors. One that re-plans takes longer, and one that learns hardly any longer.
func TestWrongProfile(t *testing.T) {
	right := open(t, 1, map[string]any{"steps": 60})
	wrong := open(t, 1, map[string]any{"steps": 60, "scale_error": 0.4, "exponent_error": 0.2})
	if a, b := reset(t, right, 3), reset(t, wrong, 3); cmp.Equal(a.Obs, b.Obs) {
		t.Errorf("the first observation is %v with the true profile and with a wrong one", a.Obs)
	}
	total := func(v *envs.Vec, name string) (sum float64) {
		for seed := range uint64(2) {
			sum += envstest.Play(t, v, envstest.Policy(t, v, name), 3+seed).FinalInfo[2]
		}
		return sum
	}
	for _, name := range []string{planner.ControllerEqualSplit, planner.ControllerExactMinMax, planner.ControllerOneTime} {
		if got, want := total(wrong, name), total(right, name); got != want {
			t.Errorf("%s: %v s, want the %v s of the true profile", name, got, want)
		}
	}
	best, lost, learnt := total(right, "dynamic_mpc_tuned"), total(wrong, "dynamic_mpc_tuned"), total(wrong, "dynamic_mpc_online")
	t.Logf("dynamic_mpc_tuned takes %.0f s with the true profile, %.0f s with a wrong one; dynamic_mpc_online %.0f s", best, lost, learnt)
	if lost < 1.1*best || learnt-best > (lost-best)/10 {
		t.Errorf("%v s with the true profile, %v s with a wrong one, %v s learning", best, lost, learnt)
	}
}
