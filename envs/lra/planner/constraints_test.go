package planner_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/lra/interference"
	"github.com/kubernasium/kubernasium/envs/lra/lratest"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// Fewest weighted violations of the first six published batches of each size: by SciPy's
// HiGHS over the same columns (testdata/highs_check.py --medea).
var fewestViolations = map[int][6]float64{
	200: {60, 61, 58, 68, 50, 63},
	300: {78, 89, 81, 89, 84, 91},
	400: {107, 120, 110, 131, 117, 104},
}

func TestMedeaFewestViolations(t *testing.T) {
	constraints := lratest.Constraints(t)
	table := lratest.Table(t, "p20")
	for containers, want := range fewestViolations {
		if testing.Short() && containers != 300 {
			continue
		}
		for i, batch := range lratest.Batches(t, containers)[:6] {
			p, err := planner.NewProblem(table, 81, batch)
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.Medea(t.Context(), constraints, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := 0.0
			for _, x := range s.Placement {
				got += interference.Violations(constraints, x)
			}
			if got != want[i] || s.Bound != want[i] || s.Placement.Batch() != batch {
				t.Errorf("batch %d of %d: %v violations, bound %v, want %v", i, containers, got, s.Bound, want[i])
			}
		}
	}
}

// TestParagonAsCoded compares means over the published batches 0 to 29 with those of the
// artefact's own code on the same tables, which draws ties otherwise.
func TestParagonAsCoded(t *testing.T) {
	constraints := lratest.Constraints(t)
	for _, tc := range []struct {
		table      string
		containers int
		want       float64
	}{
		{"p20", 200, .742}, {"p20", 300, .731}, {"p20", 400, .727},
		{"true", 200, .716}, {"true", 300, .705}, {"true", 400, .700},
	} {
		table, sum := lratest.Table(t, tc.table), 0.0
		for i, batch := range lratest.Batches(t, tc.containers)[:30] {
			p, err := planner.NewProblem(table, 81, batch)
			if err != nil {
				t.Fatal(err)
			}
			x, err := p.Place(planner.AppOrder(batch), p.ParagonAsCoded(constraints, rand.New(rand.NewPCG(uint64(i), 0))))
			if err != nil {
				t.Fatal(err)
			}
			sum += p.Average(x) / 30
		}
		if math.Abs(sum-tc.want) > 0.01 {
			t.Errorf("table %s, %d containers: mean %.4f, want %v within 0.01", tc.table, tc.containers, sum, tc.want)
		}
	}
}
