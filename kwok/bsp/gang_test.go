package bsp

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/jobs"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

var ctx = context.Background()

// TestGang runs everything on one control plane, one after the other, since each steps its clock.
func TestGang(t *testing.T) {
	server := kwok.Options{Kubeconfig: kwoktest.Start(t, "--clock=stepped").Kubeconfig}
	for _, m := range []Method{Resize, RecreateAll, RecreateChanged} {
		t.Run(string(m), func(t *testing.T) { testMethod(t, server, m) })
	}
	for _, model := range []string{gang.PenaltyConstant, gang.PenaltyPerTask, gang.PenaltyResize} {
		t.Run("hand-worked/"+model, func(t *testing.T) { testHandWorked(t, server, model) })
	}
	t.Run("planner", func(t *testing.T) { testPlanner(t, server) })
	t.Run("pod lost", func(t *testing.T) { testPodLost(t, server) })
	t.Run("clock stepped by another", func(t *testing.T) { testOtherClock(t, server) })
}

// testMethod re-plans two of three tasks before the second of three supersteps.
func testMethod(t *testing.T, server kwok.Options, m Method) {
	seen := record(t, server)
	g, err := Start(ctx, Config{Server: server, Tasks: []string{"A", "b_b", "c"}, Shares: []int64{1000, 1000, 4000}, MilliCPU: 6000, Method: m})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	seen.in(g.space.Namespace())
	first := g.present()
	supersteps := []Superstep{
		{Durations: []time.Duration{3 * time.Second, time.Hour + 1, 2500 * time.Millisecond}},
		{Durations: []time.Duration{20 * time.Second, 20 * time.Second, 7 * time.Second}, Shares: []int64{1500, 1000, 3500}, Penalty: 15 * time.Second},
		{Durations: []time.Duration{1, 0, 2}},
	}
	for i, s := range supersteps {
		took, replan, err := g.Step(ctx, s, i == len(supersteps)-1)
		if err != nil {
			t.Fatal(err)
		}
		// A superstep lasts as long as its slowest task.
		if want := []time.Duration{time.Hour + 1, 20 * time.Second, 2}[i]; took != want {
			t.Errorf("superstep %d took %v, want %v", i, took, want)
		}
		if i != 1 {
			if replan != nil {
				t.Errorf("superstep %d: re-planned %+v, want nothing", i, replan)
			}
			continue
		}
		if replan == nil || replan.Changed != 2 || replan.Modelled != 15*time.Second || replan.Wall <= 0 || replan.Wall > time.Minute {
			t.Errorf("re-planning %+v, want 2 tasks, 15s, and some seconds on the wall", replan)
		}
	}
	if want := time.Hour + 1 + 15*time.Second + 20*time.Second + 2; g.Elapsed() != want {
		t.Errorf("by the clock %v have passed, want %v", g.Elapsed(), want)
	}
	// 3 Jobs for each of 3 supersteps, and those that were created again.
	if want := map[Method]int{Resize: 9, RecreateAll: 12, RecreateChanged: 11}[m]; g.Jobs() != want {
		t.Errorf("%d Jobs were created, want %d", g.Jobs(), want)
	}
	eventually(t, func() string { return seen.barrier(g.Jobs()) })
	for k, want := range []int64{1000, 1000, 4000} {
		if first[k] != want {
			t.Errorf("task %d began with %d millicores, want %d", k, first[k], want)
		}
	}
	// In place a pod of the second superstep has had both shares; created again there are two pods.
	for k, want := range [][]int64{{1000, 1500}, {1000}, {4000, 3500}} {
		pods := 1
		if m == RecreateAll || m == RecreateChanged && len(want) == 2 {
			pods = 2
		}
		eventually(t, func() string { return seen.shares("1", strconv.Itoa(k), want, pods) })
	}
}

// eventually waits until wrong, which asks a recorder that may lag behind, returns "".
func eventually(t *testing.T, wrong func() string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		switch what := wrong(); {
		case what == "":
			return
		case time.Since(begin) > 30*time.Second:
			t.Error(what)
			return
		}
	}
}

// testHandWorked plays the episode of the README of package gang.
func testHandWorked(t *testing.T, server kwok.Options, model string) {
	v := open(t, map[string]any{
		"data": handData(t), "split": "heldout", "forecaster": "persistence",
		"steps": 3, "windows": 2, "horizon": 2, "penalty_model": model,
	})
	actions := []float32{0, 2, 0}
	r, err := Play(ctx, server, v, func(_ *envs.Batch, action []float32) error {
		action[0], actions = actions[0], actions[1:]
		return nil
	}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		total    float64
		jobs     int
		modelled float64
	}{gang.PenaltyConstant: {395, 12, 15}, gang.PenaltyPerTask: {395, 12, 15}, gang.PenaltyResize: {383, 9, 3}}[model]
	if r.Clock != want.total || r.Simulated != want.total || r.Difference != 0 || r.Jobs != want.jobs || r.Modelled != want.modelled {
		t.Errorf("totals %v s by the clock, %v s simulated, %d ns apart, %d Jobs, re-planning %v s; want %+v",
			r.Clock, r.Simulated, r.Difference, r.Jobs, r.Modelled, want)
	}
	for i, s := range r.Steps {
		d, milliCPU := []float64{220, 80, 80}[i], []int64{1000, 8000, 8000}[i]
		if s.Duration != d || s.Shares[0] != milliCPU || (s.Replan != nil) != (i == 1) {
			t.Errorf("superstep %d: %+v, want %v s with %d millicores", i, s, d, milliCPU)
		}
	}
	if r.Measured != 380+r.ReplanWall || r.ReplanWall <= 0 {
		t.Errorf("%v s with %v s of measured re-planning, want 380 s and that", r.Measured, r.ReplanWall)
	}
}

// testPlanner plays a planner whose configurations no action names, with random durations, and
// compares with the same episode in memory.
func testPlanner(t *testing.T, server kwok.Options) {
	opts := map[string]any{"steps": 3, "noise": 1.0, "penalty_model": gang.PenaltyPerTask}
	play := func(v *envs.Vec) func(*envs.Batch, []float32) error {
		b, err := v.Spec().Baseline(planner.ControllerExactMinMax)
		if err != nil {
			t.Fatal(err)
		}
		rule, err := b.New(v.Env(0).Task())
		if err != nil {
			t.Fatal(err)
		}
		return func(b *envs.Batch, action []float32) error { return rule(ctx, v.Env(0).State(), b.Begins(0), action) }
	}
	v := open(t, opts)
	r, err := Play(ctx, server, v, play(v), 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	memory := open(t, opts)
	act := play(memory)
	b, err := memory.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{7}})
	for action := []float32{0}; err == nil && !b.Done(0); {
		if err = act(b, action); err == nil {
			b, err = memory.Step(ctx, action)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if want := memory.Env(0).State().Now.Seconds(); r.Clock != want || r.Difference != 0 {
		t.Errorf("%v s by the clock, want %v", r.Clock, want)
	}
	replannings, jobs := 0, 3*8
	for _, s := range r.Steps {
		if s.Replan != nil {
			replannings++
			jobs += s.Replan.Changed
		}
	}
	if replannings != 3 || r.Jobs != jobs {
		t.Errorf("%d re-plannings and %d Jobs, want 3 and %d", replannings, r.Jobs, jobs)
	}
}

// testPodLost deletes a waiting pod: the Job fails, since its task would start again.
func testPodLost(t *testing.T, server kwok.Options) {
	g, err := Start(ctx, Config{Server: server, Tasks: []string{"a", "b"}, Shares: []int64{1000, 1000}, MilliCPU: 2000, Method: Resize})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	pod := g.space.Pods(g.names[1])[0].Name
	if err := g.space.Client().CoreV1().Pods(g.space.Namespace()).Delete(ctx, pod, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := g.space.Wait(ctx, func() (string, error) {
		for _, p := range g.space.Pods(g.names[1]) {
			if p.Name == pod && p.DeletionTimestamp == nil {
				return "the pod is there", nil
			}
		}
		return "", nil
	}); err != nil {
		t.Fatal(err)
	}
	_, _, err = g.Step(ctx, Superstep{Durations: []time.Duration{1, 1}}, true)
	if !errors.Is(err, jobs.ErrFailed) || !strings.Contains(err.Error(), g.names[1]) {
		t.Errorf("superstep with a lost pod: %v, want that job %s failed", err, g.names[1])
	}
}

func testOtherClock(t *testing.T, server kwok.Options) {
	g, err := Start(ctx, Config{Server: server, Tasks: []string{"a"}, Shares: []int64{1000}, MilliCPU: 1000, Method: Resize})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if _, err := g.clock.ask(ctx, g.clock.api.Post().Body([]byte(`{"advance": "1s"}`))); err != nil {
		t.Fatal(err)
	}
	_, _, err = g.Step(ctx, Superstep{Durations: []time.Duration{time.Minute}}, true)
	if err == nil || !strings.Contains(err.Error(), "somebody else steps it") {
		t.Errorf("superstep by a clock that another stepped: %v, want an error that says so", err)
	}
}

// TestControlPlaneGone kills the control plane between two supersteps.
func TestControlPlaneGone(t *testing.T) {
	p := kwoktest.Start(t, "--clock=stepped")
	g, err := Start(ctx, Config{
		Server: kwok.Options{Kubeconfig: p.Kubeconfig}, Tasks: []string{"a"}, Shares: []int64{1000}, MilliCPU: 1000, Method: Resize,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Step(ctx, Superstep{Durations: []time.Duration{time.Second}}, false); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Step(ctx, Superstep{Durations: []time.Duration{time.Second}}, false); !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("a superstep without a control plane: %v, want %v", err, cluster.ErrUnavailable)
	}
	if err := g.Close(); err == nil {
		t.Error("Close without a control plane: no error, though its objects may be there")
	}
}

func TestRealClock(t *testing.T) {
	_, err := Start(ctx, Config{
		Server: kwok.Options{Kubeconfig: kwoktest.Start(t, "--components=").Kubeconfig},
		Tasks:  []string{"a"}, Shares: []int64{1000}, MilliCPU: 1000, Method: Resize,
	})
	if !errors.Is(err, ErrRealClock) {
		t.Errorf("Start on a real clock: %v, want %v", err, ErrRealClock)
	}
}

func TestStartRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		c    Config
		want string
	}{
		{"no task", Config{Method: Resize}, "0 shares for 0 tasks"},
		{"no share", Config{Tasks: []string{"a"}, Method: Resize}, "0 shares for 1 tasks"},
		{"no method", Config{Tasks: []string{"a"}, Shares: []int64{1}}, `method ""`},
	} {
		if _, err := Start(ctx, tc.c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want an error with %q", tc.name, err, tc.want)
		}
	}
}

func open(t *testing.T, opts map[string]any) *envs.Vec {
	t.Helper()
	spec, err := envs.Lookup("k8s/GangWindow-v0")
	if err != nil {
		t.Fatal(err)
	}
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

// handData writes the hand-worked data of the README of package gang: three tasks that take
// D(w, c) = w·(12 − c) seconds for size w on c cores, and size 20 throughout the held-out part.
func handData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var profile, series strings.Builder
	profile.WriteString("Task Name,Workload Size,CPU Shares,Duration\n")
	for _, task := range []string{"a", "b", "c"} {
		for size := 10; size <= 50; size += 10 {
			for cores := 1; cores <= 8; cores++ {
				fmt.Fprintf(&profile, "%s,%d,%d,%d\n", task, size, cores*1000, size*(12-cores))
			}
		}
	}
	series.WriteString("timestamp,value\n")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1019 + 60 {
		value := 10
		if i < 60 {
			value = 40 * (i % 2)
		}
		fmt.Fprintf(&series, "%s,%d\n", start.Add(time.Duration(i)*time.Hour).Format(time.DateTime), value)
	}
	files := map[string]string{"profile/workload_profiling.csv": profile.String()}
	for _, name := range []string{"x", "y", "z"} {
		files["series/"+name+".csv"] = series.String()
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		envstest.Write(t, path, text)
	}
	return dir
}

// present returns the millicores of the present pods, by task.
func (g *Gang) present() []int64 {
	var all []int64
	for _, name := range g.names {
		for _, p := range g.space.Pods(name) {
			all = append(all, allocated(p))
		}
	}
	return all
}
