package throughput_test

import (
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/lratest"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// TestRegressorHeldOut fits the published partial profiles and compares the states that they
// lack with the complete one, beside the forest of the artefact on the same states.
func TestRegressorHeldOut(t *testing.T) {
	dir, truth := lratest.Dir(t), lratest.Table(t, "true")
	for _, tc := range []struct {
		name, file string
	}{{"p05", "profile_p05_322.csv"}, {"p20", "profile_p20_2008.csv"}, {"p90", "profile_p90_5792.csv"}} {
		profile, err := files.ReadProfileFile(filepath.Join(dir, tc.file))
		if err != nil {
			t.Fatal(err)
		}
		r, err := throughput.FitRegressor(profile)
		if err != nil {
			t.Fatal(err)
		}
		heldOut := func(s lra.State) bool { return !r.Measured[s] }
		ours := throughput.Compare(r.Table(), truth, heldOut)
		forest := throughput.Compare(lratest.Table(t, tc.name), truth, heldOut)
		t.Logf("%s: %d held-out states, MSE %.5f MAE %.4f node %.4f, at most %.3f times at %v; the forest MSE %.5f MAE %.4f node %.4f",
			tc.name, ours.States, ours.MSE, ours.MAE, ours.PerContainer, ours.LargestRatio, ours.LargestAtNode, forest.MSE, forest.MAE, forest.PerContainer)
		if ours.MSE > forest.MSE {
			t.Errorf("%s: held-out MSE %.5f, the artefact's forest has %.5f", tc.name, ours.MSE, forest.MSE)
		}
	}
}
