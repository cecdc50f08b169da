package throughput_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// small returns a profile of one to three containers of one application, which lose 0.2 for each
// other one. Its regression has a square term, and so falls below 0 or grows beyond 1 at eight.
func small() []throughput.Measurement {
	var all []throughput.Measurement
	for a := range lra.NumApps {
		for k, rps := range []float64{1, 0.8, 0.3} {
			m := throughput.Measurement{}
			m.Counts[a], m.RPS[a] = k+1, rps
			all = append(all, m)
		}
	}
	return all
}

// TestPredictionsAreClipped: what was measured of an application bounds what is predicted of it.
func TestPredictionsAreClipped(t *testing.T) {
	r, err := throughput.FitRegressor(small())
	if err != nil {
		t.Fatal(err)
	}
	table := r.Table()
	for s := lra.State(1); s < lra.NumStates; s++ {
		for a, k := range s.Counts() {
			if v := table.RPS[s][a]; k > 0 && (v < 0.3 || v > 1) {
				t.Fatalf("%s in %v: %v, want 0.3 to 1 as measured", lra.Apps[a], s.Counts(), v)
			}
		}
	}
	clipped := r.Clippings()
	if len(clipped) != lra.NumApps || clipped[0].App != "redis" || clipped[0].Low != 0.3 || clipped[0].High != 1 || clipped[0].States == 0 ||
		clipped[0].Lowest >= 0.3 && clipped[0].Most <= 1 {
		t.Errorf("clipped: %+v", clipped)
	}
}

// TestExtrapolations: ckm was measured alone, with 1 to 3 containers. The states with 4 or more of
// ckm are the multisets of at most 4 more containers of 7 applications: C(11, 7) = 330.
func TestExtrapolations(t *testing.T) {
	r, err := throughput.FitRegressor(small())
	if err != nil {
		t.Fatal(err)
	}
	var got []throughput.Extrapolation
	for _, e := range r.Extrapolations() {
		if e.App == "ckm" && (e.Feature == "ckm" || e.Feature == "mms" || e.Feature == "all containers") {
			if e.Feature != "ckm" {
				e.States = 0 // not counted by hand
			}
			got = append(got, e)
		}
	}
	want := []throughput.Extrapolation{
		{App: "ckm", Feature: "mms", Given: throughput.Range{Low: 1, High: 7}},
		{App: "ckm", Feature: "ckm", Given: throughput.Range{Low: 4, High: 8}, Measured: throughput.Range{Low: 1, High: 3}, States: 330},
		{App: "ckm", Feature: "all containers", Given: throughput.Range{Low: 4, High: 8}, Measured: throughput.Range{Low: 1, High: 3}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("extrapolations of ckm (-want +got):\n%s", d)
	}
}
