package tracking

import (
	"math"
	"testing"
)

// The adjusted values are those of statsmodels 0.15.0, multipletests(p, method="holm").
func TestHolm(t *testing.T) {
	for _, tc := range []struct {
		name    string
		p, want []float64
	}{
		{"none", nil, nil},
		{"one", []float64{0.03}, []float64{0.03}},
		// By hand: 0.005·4 = 0.02, 0.01·3 = 0.03, 0.03·2 = 0.06, and 0.04·1 is raised to 0.06.
		{"four", []float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{"six", []float64{0.2, 0.001, 0.013, 0.04, 0.5, 0.012}, []float64{0.4, 0.006, 0.06, 0.12, 0.5, 0.06}},
		{"ties", []float64{0.05, 0.05, 0.05}, []float64{0.15, 0.15, 0.15}},
		{"at most 1", []float64{0.9, 0.8}, []float64{1, 1}},
	} {
		got := Holm(tc.p)
		if len(got) != len(tc.want) {
			t.Fatalf("%s: %v, want %v", tc.name, got, tc.want)
		}
		for i := range got {
			if math.Abs(got[i]-tc.want[i]) > 1e-12 {
				t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
				break
			}
		}
	}
}
