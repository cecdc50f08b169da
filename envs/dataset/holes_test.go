package dataset_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

func TestHoles(t *testing.T) {
	for _, tc := range []struct {
		name  string
		times []float64
		want  []dataset.Hole
		text  string
	}{
		{"none", []float64{0, 60, 120, 180}, nil, ""},
		{"jitter", []float64{0, 61, 119, 182, 240}, nil, ""},
		{"too few to tell", []float64{0, 600}, nil, ""},
		{"one", []float64{0, 60, 120, 300, 360}, []dataset.Hole{{Before: 3, Missing: 2, Seconds: 180}}, "line 3: 2 samples of x are missing before this line, by the usual interval of 60 s"},
		{"two", []float64{0, 10, 30, 40, 50, 100, 110}, []dataset.Hole{{Before: 2, Missing: 1, Seconds: 20}, {Before: 5, Missing: 4, Seconds: 50}},
			"line 5: 4 samples of x are missing before this line, by the usual interval of 10 s; in all 5 in 2 places"},
	} {
		holes, usual := dataset.Holes(tc.times)
		if diff := cmp.Diff(tc.want, holes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if got := dataset.HolesText("x", holes, usual, func(i int) string { return fmt.Sprintf("line %d", i) }); got != tc.text {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.text)
		}
	}
}
