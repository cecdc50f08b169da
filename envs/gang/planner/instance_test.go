package planner_test

import (
	"context"
	"math"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

func TestInstanceTable(t *testing.T) {
	in, err := planner.NewInstance(context.Background(), gangtest.LawModel(t, 5), gangtest.LawTrace(1, 12, 6, 5, false), 4, 3)
	if err != nil {
		t.Fatal(err)
	}
	a := planner.NewAllocator(in.Model(), 6)
	want, durations := make([]uint16, 5), make([]float64, 3)
	for _, step := range []int{7, 0, 11, 7} {
		a.Load(in.Planned(step))
		for w := 1; w <= 4; w++ {
			a.Configure(0, w, want)
			if diff := cmp.Diff(want, in.Config(step, w)); diff != "" {
				t.Errorf("Config(%d, %d) differs (-want +got):\n%s", step, w, diff)
			}
			in.Predict(step, want, durations)
			if diff := cmp.Diff(durations, in.Predicted(step, w)); diff != "" {
				t.Errorf("Predicted(%d, %d) differs (-want +got):\n%s", step, w, diff)
			}
		}
	}
}

// The first caller makes a row; run with -race. Rows of eight tasks are made together.
func TestInstanceConcurrent(t *testing.T) {
	for _, tasks := range []int{5, 8} {
		shared, alone := gangtest.LawInstance(t, 5, 30, 4, tasks, false), gangtest.LawInstance(t, 5, 30, 4, tasks, false)
		_ = alone.Prepare(context.Background(), 0, 30)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 30 {
					step := (i*7 + g*11) % 30
					for w := 1; w <= 3; w++ {
						if diff := cmp.Diff(alone.Config(step, w), shared.Config(step, w)); diff != "" {
							t.Errorf("%d tasks: Config(%d, %d) differs (-alone +shared):\n%s", tasks, step, w, diff)
						}
						if diff := cmp.Diff(alone.Predicted(step, w), shared.Predicted(step, w)); diff != "" {
							t.Errorf("%d tasks: Predicted(%d, %d) differs (-alone +shared):\n%s", tasks, step, w, diff)
						}
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestNewInstanceErrors(t *testing.T) {
	m := gangtest.LawModel(t, 3)
	for _, test := range []struct {
		windows, columns int
		change           func(*planner.Trace)
		want             string
	}{
		{-1, 1, nil, "gang: table of -1 windows, want 0 to the trace's 4 columns"},
		{5, 1, nil, "gang: table of 5 windows, want 0 to the trace's 4 columns"},
		{1, 0, nil, "gang: table of 0 columns, want 1 to the trace's 4"},
		{1, 5, nil, "gang: table of 5 columns, want 1 to the trace's 4"},
		{1, 1, func(tr *planner.Trace) { tr.Steps = 0 }, "gang: trace of 0 steps and 4 columns, want at least 1 of each"},
		{1, 1, func(tr *planner.Trace) { tr.Tasks = 2 }, "gang: trace of 2 tasks, want the profile's 3"},
		{1, 1, func(tr *planner.Trace) { tr.Planned = tr.Planned[1:] }, "gang: trace with 71 planned sizes, want 6·4·3"},
		{1, 1, func(tr *planner.Trace) { tr.True = tr.True[1:] }, "gang: trace with 17 true sizes, want 6·3"},
		{1, 1, func(tr *planner.Trace) { tr.True[4] = math.NaN() }, "gang: trace with size NaN at index 4, want finite sizes"},
	} {
		tr := gangtest.LawTrace(1, 6, 4, 3, true)
		if test.change != nil {
			test.change(tr)
		}
		if _, err := planner.NewInstance(context.Background(), m, tr, test.windows, test.columns); err == nil || err.Error() != test.want {
			t.Errorf("NewInstance: error %v, want %s", err, test.want)
		}
	}
}

func TestScale(t *testing.T) {
	got := make([]float32, 7)
	planner.Scale(got, []float64{10, 20, 30, 9, 31, math.Inf(1), math.Inf(-1)}, 10, 30)
	if diff := cmp.Diff([]float32{0, 0.5, 1, 0, 1, 1, 0}, got); diff != "" { // by hand
		t.Errorf("Scale differs (-want +got):\n%s", diff)
	}
}

// An instance that keeps scaled durations gives those of one that does not, to many callers at once; run with -race.
func TestScaledConcurrent(t *testing.T) {
	const low, high = 40, 160
	kept, alone := gangtest.LawInstance(t, 5, 30, 4, 8, false), gangtest.LawInstance(t, 5, 30, 4, 8, false)
	kept.KeepScaled()
	want := make([]float32, alone.Windows()*alone.Columns())
	var all [30][]float32
	for step := range all {
		for w := 1; w <= alone.Windows(); w++ {
			planner.Scale(want[(w-1)*alone.Columns():], alone.Predicted(step, w), low, high)
		}
		all[step] = make([]float32, len(want))
		alone.Scaled(all[step], step, low, high)
		if diff := cmp.Diff(want, all[step]); diff != "" {
			t.Errorf("Scaled of step %d differs (-want +got):\n%s", step, diff)
		}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			got := make([]float32, len(want))
			for i := range 60 {
				step := (i*7 + g*11) % 30
				kept.Scaled(got, step, low, high)
				if diff := cmp.Diff(all[step], got); diff != "" {
					t.Errorf("Scaled of step %d differs (-alone +kept):\n%s", step, diff)
				}
			}
		})
	}
	wg.Wait()
}
