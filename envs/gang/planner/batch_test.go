package planner

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// lawInstance returns an instance of eight tasks and 40 steps.
func lawInstance(tb testing.TB) *Instance {
	tb.Helper()
	m, err := profile.NewModel(profile.Generate(rand.New(rand.NewPCG(1, 2))), profile.DefaultModelConfig())
	if err != nil {
		tb.Fatal(err)
	}
	tr := &Trace{Steps: 40, Columns: 6, Tasks: lanes, Planned: make([]float64, 40*6*lanes), True: make([]float64, 40*lanes)}
	for i := range tr.Planned {
		tr.Planned[i] = 10 + float64(i*i*7%397)/10
	}
	in, err := NewInstance(tb.Context(), m, tr, 3, 6)
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

func needKernels(t *testing.T) {
	t.Helper()
	if !hasKernels {
		t.Skip("this CPU or build has no kernels; needs AVX2 or AVX-512")
	}
}

// TestInstancesTakeTurns: of eight instances that begin together, each computes another number of rows at first. The
// rows of eight steps are computed together, and none twice.
func TestInstancesTakeTurns(t *testing.T) {
	needKernels(t)
	seen := map[int]bool{}
	for range lockstep {
		in := lawInstance(t)
		if err := in.Prepare(t.Context(), 0, 1); err != nil {
			t.Fatal(err)
		}
		first := ready(in)
		seen[first] = true
		if err := in.Prepare(t.Context(), first, 1); err != nil {
			t.Fatal(err)
		}
		if got := ready(in); got != first+lockstep {
			t.Errorf("%d rows after the second step to compute, want %d and %d", got, first, lockstep)
		}
		const step = 20
		for s := step + 1; s >= step; s-- { // in all instances but one they are computed together
			if err := in.Prepare(t.Context(), s, 1); err != nil {
				t.Fatal(err)
			}
			if s > step {
				in.levels[s*in.windows*lanes] = 9999 // of a row that is final
			}
		}
		if in.levels[(step+1)*in.windows*lanes] != 9999 {
			t.Error("a final row is computed again")
		}
	}
	if len(seen) != lockstep || seen[0] {
		t.Errorf("first steps compute %v rows, want each of 1 to %d", seen, lockstep)
	}
}

func ready(in *Instance) (n int) {
	for i := range in.ready {
		if in.ready[i].Load() {
			n++
		}
	}
	return n
}

// TestEndedContextMakesNoRows: rows that a context has cut short are computed when they are asked for again.
func TestEndedContextMakesNoRows(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	in, whole := lawInstance(t), lawInstance(t)
	if err := in.Prepare(ended, 0, 20); !errors.Is(err, context.Canceled) || ready(in) > 0 {
		t.Fatalf("Prepare: %v, and %d rows; want context.Canceled and none", err, ready(in))
	}
	if got, want := in.Predicted(5, 3)[5], whole.Predicted(5, 3)[5]; got != want || got == 0 {
		t.Errorf("Predicted = %v, want %v", got, want)
	}
}

// TestBatchesServeUsualModels: other numbers of tasks, and tables that are too large, are left to the allocator.
func TestBatchesServeUsualModels(t *testing.T) {
	needKernels(t)
	p := profile.Generate(rand.New(rand.NewPCG(1, 2)))
	fine, many, few := profile.DefaultModelConfig(), profile.DefaultModelConfig(), *p
	fine.IncrementMilliCPU = 64 // 250 of them, and 110 levels
	many.TotalMilliCPU = 8000 + 256*many.IncrementMilliCPU
	few.Tasks, few.Durations = p.Tasks[:7], p.Durations[:7*len(p.Sizes)*len(p.Shares)]
	for _, tc := range []struct {
		name    string
		p       *profile.Profile
		cfg     profile.ModelConfig
		windows int
		want    bool
	}{
		{"default", p, profile.DefaultModelConfig(), 3, true},
		{"longest windows", p, profile.DefaultModelConfig(), 20, true},
		{"no window", p, profile.DefaultModelConfig(), 0, false},
		{"many levels", p, fine, 20, true},
		{"a table of 262,145 numbers and more", p, fine, 40, false},
		{"256 increments, more than a byte", p, many, 3, false},
		{"seven tasks", &few, profile.DefaultModelConfig(), 3, false},
	} {
		m, err := profile.NewModel(tc.p, tc.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if b := newBatch(m, tc.windows, make([]float64, 40)); (b != nil) != tc.want {
			t.Errorf("%s: a batch: %v, want %v", tc.name, b != nil, tc.want)
		}
	}
}
