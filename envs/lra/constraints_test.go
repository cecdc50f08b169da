package lra_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/lra"
)

func publishedConstraints(tb testing.TB) []lra.Constraint {
	tb.Helper()
	all, err := lra.ReadConstraintsFile(filepath.Join(dataDir(tb), "interference_applist.csv"))
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// TestConstraintsByteForByte derives both published files from the published pairwise profile.
func TestConstraintsByteForByte(t *testing.T) {
	dir := dataDir(t)
	pairs, err := lra.ReadPairsFiles(filepath.Join(dir, "0905-7app-2008-pairwise-normed.csv"), filepath.Join(dir, "0905-7app-2008-pairwise-normed-per-app.csv"))
	if err != nil {
		t.Fatal(err)
	}
	constraints, err := pairs.Constraints()
	if err != nil {
		t.Fatal(err)
	}
	var list, curves bytes.Buffer
	if err := lra.WriteConstraints(&list, constraints); err != nil {
		t.Fatal(err)
	}
	if err := lra.WriteCurves(&curves, constraints); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]*bytes.Buffer{"interference_applist.csv": &list, "interference_rpslist.csv": &curves} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	read := publishedConstraints(t)
	for i := range constraints {
		constraints[i].Curve = [lra.MaxSlots]float64{}
	}
	if diff := cmp.Diff(constraints, read); diff != "" {
		t.Errorf("read again (-derived +read):\n%s", diff)
	}
}

// TestMedeaCosts: 52 states violate nothing; and by hand, with the published list: an MMS
// without the store violates "at least 1" once; one beside a store does not, but the store
// tolerates 0 MMS, at weight 2.
func TestMedeaCosts(t *testing.T) {
	constraints := publishedConstraints(t)
	free := 0
	for s := range lra.State(lra.NumStates) {
		if lra.Violations(constraints, s) == 0 {
			free++
		}
	}
	if free != 52 {
		t.Errorf("%d states violate nothing, want 52", free)
	}
	for _, tc := range []struct {
		counts lra.Counts
		want   float64
	}{
		{lra.Counts{0, 1}, 1}, {lra.Counts{1, 1}, 2}, {lra.Counts{2, 1}, 4},
		{lra.Counts{4}, 4}, // the store tolerates 2 others, each of four has 3
		{lra.Counts{3}, 0},
	} {
		s, err := lra.StateOf(tc.counts)
		if err != nil {
			t.Fatal(err)
		}
		if got := lra.Violations(constraints, s); got != tc.want {
			t.Errorf("violations of %v: %v, want %v", tc.counts, got, tc.want)
		}
	}
}

// Fewest weighted violations of the first six published batches of each size: by SciPy's
// HiGHS over the same columns (testdata/highs_check.py --medea).
var fewestViolations = map[int][6]float64{
	200: {60, 61, 58, 68, 50, 63},
	300: {78, 89, 81, 89, 84, 91},
	400: {107, 120, 110, 131, 117, 104},
}

func TestMedeaFewestViolations(t *testing.T) {
	constraints := publishedConstraints(t)
	table := readTable(t, "p20")
	for containers, want := range fewestViolations {
		if testing.Short() && containers != 300 {
			continue
		}
		for i, batch := range readBatches(t, containers)[:6] {
			p, err := lra.NewProblem(table, 81, batch)
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.Medea(ctx, constraints, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := 0.0
			for _, x := range s.Placement {
				got += lra.Violations(constraints, x)
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
	constraints := publishedConstraints(t)
	for _, tc := range []struct {
		table      string
		containers int
		want       float64
	}{
		{"p20", 200, .742}, {"p20", 300, .731}, {"p20", 400, .727},
		{"true", 200, .716}, {"true", 300, .705}, {"true", 400, .700},
	} {
		table, sum := readTable(t, tc.table), 0.0
		for i, batch := range readBatches(t, tc.containers)[:30] {
			p, err := lra.NewProblem(table, 81, batch)
			if err != nil {
				t.Fatal(err)
			}
			x, err := p.Place(lra.AppOrder(batch), p.ParagonAsCoded(constraints, rand.New(rand.NewPCG(uint64(i), 0))))
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
