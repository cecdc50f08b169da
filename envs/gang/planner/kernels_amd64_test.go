//go:build !purego

package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/cpu"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// TestAVX2EqualsAVX512: where the CPU has both, the tables are equal. Where it has AVX2 alone, TestTableEqualsConfigure compares
// its kernels.
func TestAVX2EqualsAVX512(t *testing.T) {
	if !hasAVX512 || !cpu.X86.HasAVX2 {
		t.Skip("this CPU lacks AVX-512 or AVX2; run on one that has both")
	}
	m, err := profile.NewModel(profile.Generate(rand.New(rand.NewPCG(1, 2))), profile.DefaultModelConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, windows := range []int{1, 2, 3, 20} {
		tr := &Trace{Steps: 43, Columns: windows, Tasks: lanes, Planned: make([]float64, 43*windows*lanes), True: make([]float64, 43*lanes)}
		for i := range tr.Planned {
			tr.Planned[i] = 10 + float64(i*i*7%397)/10
		}
		table := func() *Instance {
			in, err := NewInstance(t.Context(), m, tr, windows, windows)
			if err != nil {
				t.Fatal(err)
			}
			if err := in.Prepare(t.Context(), 0, tr.Steps); err != nil {
				t.Fatal(err)
			}
			return in
		}
		wide := table()
		hasAVX512 = false
		narrow := table()
		hasAVX512 = true
		if d := cmp.Diff(wide.levels, narrow.levels) + cmp.Diff(wide.predicted, narrow.predicted); d != "" {
			t.Errorf("windows 1 to %d (-AVX-512 +AVX2):\n%s", windows, d)
		}
	}
}
