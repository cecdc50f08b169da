package interference_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
	"github.com/kubernasium/kubernasium/envs/lra/lratest"
)

// TestConstraintsByteForByte derives both published files from the published pairwise profile.
func TestConstraintsByteForByte(t *testing.T) {
	dir := lratest.Dir(t)
	pairs, err := files.ReadPairsFiles(filepath.Join(dir, "0905-7app-2008-pairwise-normed.csv"), filepath.Join(dir, "0905-7app-2008-pairwise-normed-per-app.csv"))
	if err != nil {
		t.Fatal(err)
	}
	constraints, err := pairs.Constraints()
	if err != nil {
		t.Fatal(err)
	}
	var list, curves bytes.Buffer
	if err := files.WriteConstraints(&list, constraints); err != nil {
		t.Fatal(err)
	}
	if err := files.WriteCurves(&curves, constraints); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]*bytes.Buffer{"interference_applist.csv": &list, "interference_rpslist.csv": &curves} {
		if diff := cmp.Diff(envstest.Read(t, filepath.Join(dir, name)), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	read := lratest.Constraints(t)
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
	constraints := lratest.Constraints(t)
	free := 0
	for s := range lra.State(lra.NumStates) {
		if interference.Violations(constraints, s) == 0 {
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
		if got := interference.Violations(constraints, s); got != tc.want {
			t.Errorf("violations of %v: %v, want %v", tc.counts, got, tc.want)
		}
	}
}
