package bsp

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// handEpisode returns the environment of the episode in the README of package gang, and the real machine to run it
// on: tasks take half as long as the profile says, 10·w/c s on c cores, and log D is off by a known amount.
func handEpisode(t *testing.T) (*envs.Vec, RealConfig, *lawExecutor, *bytes.Buffer) {
	t.Helper()
	opts := map[string]any{
		"data": handData(t), "split": "heldout", "forecaster": "persistence", "steps": 3, "windows": 2, "horizon": 2,
	}
	e := newLawExecutor()
	v := open(t, opts)
	c := RealConfig{Executor: e, Limit: time.Minute, Policy: "by hand", Kwargs: opts, Seed: 1, Log: &bytes.Buffer{}}
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{1}}); err != nil {
		t.Fatal(err)
	}
	for _, task := range v.Env(0).Task().(*gang.Task).Instance().Model().Profile().Tasks {
		e.laws[task] = profile.Law{Task: task, A: 10, SizeExp: 1, ShareExp: 1, CMax: 100}
		c.Works = append(c.Works, Work{task, 1})
	}
	slices.Reverse(c.Works) // the order is the profile's
	actions := []float32{0, 2, 0}
	c.Act = func(_ *envs.Batch, action []float32) error {
		action[0], actions = actions[0], actions[1:]
		return nil
	}
	return v, c, e, c.Log.(*bytes.Buffer)
}

// TestPlayReal executes the hand-worked episode: 20·10 = 200 s on one core, then 25 s on eight. The simulator's total
// is 395 s.
func TestPlayReal(t *testing.T) {
	v, c, e, log := handEpisode(t)
	r, err := PlayReal(ctx, c, v)
	if err != nil {
		t.Fatal(err)
	}
	if r.Duration != 250 || r.Model != 395 || len(r.Steps) != 3 || math.Abs(r.Total-r.Duration-r.Replan-r.Planning) > 1e-9 || e.open != 0 {
		t.Errorf("durations %v, model %v, %d supersteps, total %v, %d crews left; want 250, 395, 3, the sum, none", r.Duration, r.Model, len(r.Steps), r.Total, e.open)
	}
	// log 200/220 once, log 25/80 twice, each of three tasks.
	if want := math.Sqrt((math.Pow(math.Log(200./220), 2) + 2*math.Pow(math.Log(25./80), 2)) / 3); math.Abs(r.RMS-want) > 1e-9 {
		t.Errorf("RMS %v, want %v", r.RMS, want)
	}
	if diff := cmp.Diff([][]int64{{8000, 8000, 8000}}, e.replans); diff != "" {
		t.Errorf("re-plannings (-want +got):\n%s", diff)
	}
	if j := e.started[0]; j.Method != RecreateAll || j.Works[0].Task != r.Tasks[0] || !slices.Equal(j.MilliCPU, []int64{1000, 1000, 1000}) {
		t.Errorf("job %+v, want the tasks of the profile on a core each", j)
	}
	for i, s := range r.Steps {
		if s.Replanned != (i == 1) || s.Duration() != []float64{200, 25, 25}[i] || s.Penalty != []float64{0, 15, 0}[i] || !slices.Equal(s.Sizes, []float64{20, 20, 20}) {
			t.Errorf("superstep %d: %+v", i, s)
		}
	}

	l, err := ReadLog(bytes.NewReader(log.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	replayed, err := Replay(ctx, l, open(t, l.Kwargs))
	if err != nil {
		t.Fatal(err)
	}
	want, got := mustJSON(t, r), mustJSON(t, replayed)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replay (-run +replay):\n%s", diff)
	}
	// Of an interrupted run the simulator plays what there is.
	cut := log.Bytes()[:log.Len()-20]
	if l, err = ReadLog(bytes.NewReader(cut)); err != nil || len(l.Steps) != 2 {
		t.Fatalf("a log that is cut: %d supersteps, %v; want 2", len(l.Steps), err)
	}
	if replayed, err = Replay(ctx, l, open(t, l.Kwargs)); err != nil || replayed.Model != 315 {
		t.Errorf("its replay: %v s, %v; want 315", replayed.Model, err)
	}
}

func mustJSON(t *testing.T, x any) string {
	t.Helper()
	text, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// playMPC lets dynamic_mpc plan an episode of 30 supersteps on a machine whose re-plannings take a known time, by a clock
// that stands still otherwise.
func playMPC(t *testing.T, penaltyModel string, takes time.Duration, modelled bool) (steps []RealStep, replannings int) {
	t.Helper()
	opts := map[string]any{"steps": 30, "penalty_model": penaltyModel}
	v, e := open(t, opts), newLawExecutor()
	e.replanTime = takes
	c := RealConfig{Executor: e, Limit: time.Minute, Policy: "dynamic_mpc", Kwargs: opts, Seed: 1, ModelledCost: modelled}
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{1}}); err != nil {
		t.Fatal(err)
	}
	for _, task := range v.Env(0).Task().(*gang.Task).Instance().Model().Profile().Tasks {
		e.laws[task] = profile.Law{Task: task, A: 10, SizeExp: 1, ShareExp: 1, CMax: 100}
		c.Works = append(c.Works, Work{task, 1})
	}
	planner, err := envs.NewPolicies(v, "dynamic_mpc", 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Act = func(_ *envs.Batch, action []float32) error { return planner.Follow(ctx, action) }
	synctest.Test(t, func(t *testing.T) {
		r, err := PlayReal(ctx, c, v)
		if err != nil {
			t.Fatal(err)
		}
		if want := takes.Seconds() * float64(len(e.replans)); math.Abs(r.Replan-want) > 1e-6 || r.Expected != r.Steps[29].Expected {
			t.Errorf("re-plannings took %v s, at last %v expected; want %v and the last superstep's %v", r.Replan, r.Expected, want, r.Steps[29].Expected)
		}
		steps = r.Steps
	})
	return steps, len(e.replans)
}

// TestPlannersLearnTheCost: where re-plannings turn out to cost nothing, the planner makes more of them than by the
// environment's cost of 15 s, and where they cost hours, none after the first, which it believes to be free. What it expects
// is by hand: the mean of the environment's cost, 15 s or 1 s for each of eight tasks, and of those measured.
func TestPlannersLearnTheCost(t *testing.T) {
	_, modelled := playMPC(t, gang.PenaltyConstant, 0, true)
	if modelled < 3 {
		t.Fatalf("%d re-plannings by the environment's cost, want 3 or more", modelled)
	}
	for _, test := range []struct {
		penaltyModel string
		takes        time.Duration
		modelled     bool
		prior        float64
		least, most  int // re-plannings
	}{
		{gang.PenaltyConstant, 0, false, 15, modelled + 1, 30},
		{gang.PenaltyConstant, 10_000 * time.Second, false, 15, 1, 1},
		{gang.PenaltyConstant, 10_000 * time.Second, true, 15, modelled, modelled},
		{gang.PenaltyResize, 10_000 * time.Second, false, 8, 1, 1},
		{gang.PenaltyPerTask, 500 * time.Millisecond, false, 15, modelled + 1, 30},
	} {
		steps, n := playMPC(t, test.penaltyModel, test.takes, test.modelled)
		if n < test.least || n > test.most {
			t.Errorf("%+v: %d re-plannings", test, n)
		}
		before := 0.0
		for _, s := range steps {
			want := (test.prior + before*test.takes.Seconds()) / (1 + before)
			if test.modelled {
				want = test.prior
			}
			if math.Abs(s.Expected-want) > 1e-6 {
				t.Fatalf("%+v: superstep %d is planned with a cost of %v s, want %v after %v re-plannings", test, s.Step, s.Expected, want, before)
			}
			if s.Replanned {
				before++
			}
		}
	}
}

// TestPlayRealDead: a superstep in which a task dies ends the run; the log has those before it.
func TestPlayRealDead(t *testing.T) {
	v, c, e, log := handEpisode(t)
	e.dead = 2
	if _, err := PlayReal(ctx, c, v); !errors.Is(err, ErrDead) || e.open != 0 {
		t.Errorf("%v, %d crews left; want %v and none", err, e.open, ErrDead)
	}
	if l, err := ReadLog(log); err != nil || len(l.Steps) != 1 {
		t.Errorf("log of %d supersteps, %v; want 1", len(l.Steps), err)
	}
}

func TestPlayRealRefuses(t *testing.T) {
	v, c, _, _ := handEpisode(t)
	c.Works = c.Works[1:]
	if _, err := PlayReal(ctx, c, v); err == nil || !strings.Contains(err.Error(), "has no workload") {
		t.Errorf("a task without work: %v", err)
	}
	v, c, _, _ = handEpisode(t)
	c.Works = append(c.Works, Work{"other", 1})
	if _, err := PlayReal(ctx, c, v); err == nil || !strings.Contains(err.Error(), "4 workloads for the 3 tasks") {
		t.Errorf("work without a task: %v", err)
	}
}

// TestReplayRefuses: no other episode passes for that of the log.
func TestReplayRefuses(t *testing.T) {
	v, c, _, log := handEpisode(t)
	if _, err := PlayReal(ctx, c, v); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Log){
		"sizes":     func(l *Log) { l.Steps[1].Sizes[0]++ },
		"shares":    func(l *Log) { l.Steps[1].MilliCPU[0] -= 100 },
		"grain":     func(l *Log) { l.Steps[1].MilliCPU[0] -= 50 },
		"budget":    func(l *Log) { l.Steps[1].MilliCPU[0] = 1 << 40 },
		"kept":      func(l *Log) { l.Steps[2].MilliCPU[0] = 1000 },
		"replanned": func(l *Log) { l.Steps[2].Action[0] = 1 },
		"model":     func(l *Log) { l.Steps[2].Model[0]++ },
		"penalty":   func(l *Log) { l.Steps[1].Penalty = 0 },
		"action":    func(l *Log) { l.Steps[1].Action = nil },
		"tasks":     func(l *Log) { l.Tasks[0] = "other" },
		"longer":    func(l *Log) { l.Steps = append(l.Steps, l.Steps[2]) },
	} {
		l, err := ReadLog(bytes.NewReader(log.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		change(l)
		if _, err := Replay(ctx, l, open(t, l.Kwargs)); !errors.Is(err, ErrReplay) {
			t.Errorf("%s: %v, want %v", name, err, ErrReplay)
		}
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte(`{"env":"k8s/GangWindow-v0","env_kwargs":{"steps":1},"seed":1,"policy":"p","setting":"s","method":"resize","tasks":["a"],"works":["a:1"]}
{"step":0,"action":[0],"sizes":[20],"milli_cpu":[1000],"planning_s":0,"replan_s":0,"seconds":[2],"model_s":[2],"model_penalty_s":0}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ReadLog(bytes.NewReader(text))
		if err != nil {
			return
		}
		r := RealReport{Steps: l.Steps}
		r.sum()
		for i, s := range l.Steps {
			if s.Step != i || !(s.Duration() > 0) {
				t.Errorf("superstep %d: %+v", i, s)
			}
		}
	})
}

// TestSumLeavesOutNoDuration: a modelled duration below zero, or a measured one of zero, has no logarithm, and JSON no
// NaN. The rest counts: log 2/1 alone.
func TestSumLeavesOutNoDuration(t *testing.T) {
	r := RealReport{Steps: []RealStep{{Seconds: []float64{2, 3, 0}, Model: []float64{1, -0.5, 1}}}}
	r.sum()
	if math.Abs(r.RMS-math.Ln2) > 1e-12 || r.Duration != 3 {
		t.Errorf("RMS %v and duration %v, want log 2 and 3", r.RMS, r.Duration)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}
