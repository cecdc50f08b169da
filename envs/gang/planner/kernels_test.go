package planner_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// TestTableEqualsConfigure compares the rows of instances of eight tasks, which kernels compute for eight steps
// together where the CPU has them, with Configure, which is compared with the published description, bit by bit.
func TestTableEqualsConfigure(t *testing.T) {
	const tasks = 8
	generated, err := profile.NewModel(profile.Generate(rand.New(rand.NewPCG(1, 2))), profile.DefaultModelConfig())
	if err != nil {
		t.Fatal(err)
	}
	fine := profile.DefaultModelConfig()
	fine.IncrementMilliCPU, fine.TotalMilliCPU = 250, 60000
	many, err := profile.NewModel(generated.Profile(), fine)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name             string
		m                *profile.Model
		windows, columns int
		sizes            func(rng *rand.Rand) float64
	}{
		{"generated", generated, 3, 6, func(rng *rand.Rand) float64 { return 10 + 40*rng.Float64() }},
		{"outside of the grid", generated, 2, 1, func(rng *rand.Rand) float64 { return 100 * rng.Float64() }},
		{"one window", generated, 1, 4, func(rng *rand.Rand) float64 { return 10 + 40*rng.Float64() }},
		{"all windows", generated, 20, 20, func(rng *rand.Rand) float64 { return 10 + 40*rng.Float64() }},
		{"not monotone", gangtest.LawModel(t, tasks), 5, 3, func(rng *rand.Rand) float64 { return 10 + 40*rng.Float64() }},
		{"ties", gangtest.LawModel(t, tasks), 4, 5, func(rng *rand.Rand) float64 { return 30 + 10*float64(rng.IntN(2)) }},
		{"beyond the profile's shares", many, 3, 6, func(rng *rand.Rand) float64 { return 10 + 40*rng.Float64() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			most := max(tc.windows, tc.columns)
			tr := &planner.Trace{Steps: 43, Columns: most, Tasks: tasks, True: make([]float64, 43*tasks)}
			for range tr.Steps * most * tasks {
				tr.Planned = append(tr.Planned, tc.sizes(rng))
			}
			a := planner.NewAllocator(tc.m, most)
			want := make([]uint16, tasks)
			for range 3 { // instances begin with different numbers of steps together
				in, err := planner.NewInstance(t.Context(), tc.m, tr, tc.windows, tc.columns)
				if err != nil {
					t.Fatal(err)
				}
				for _, step := range append(rng.Perm(tr.Steps), tr.Steps-1, 0) {
					a.Load(in.Planned(step))
					for w := 1; w <= tc.windows; w++ {
						a.Configure(0, w, want)
						if diff := cmp.Diff(want, in.Config(step, w)); diff != "" {
							t.Fatalf("Config(%d, %d) differs (-want +got):\n%s", step, w, diff)
						}
						for h, got := range in.Predicted(step, w) {
							if d := a.Superstep(want, h); d != got {
								t.Fatalf("Predicted(%d, %d)[%d] = %v, want %v", step, w, h, got, d)
							}
						}
					}
				}
			}
		})
	}
}

// BenchmarkRows computes the table of an instance of 400 steps.
func BenchmarkRows(b *testing.B) {
	m, err := profile.NewModel(profile.Generate(rand.New(rand.NewPCG(1, 2))), profile.DefaultModelConfig())
	if err != nil {
		b.Fatal(err)
	}
	for _, windows := range []int{3, 10, 20} {
		b.Run(map[int]string{3: "windows 1 to 3", 10: "windows 1 to 10", 20: "windows 1 to 20"}[windows], func(b *testing.B) {
			tr := gangtest.LawTrace(1, 400, 20, 8, false)
			for b.Loop() {
				in, err := planner.NewInstance(b.Context(), m, tr, windows, 6)
				if err != nil {
					b.Fatal(err)
				}
				if err := in.Prepare(b.Context(), 0, 400); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
