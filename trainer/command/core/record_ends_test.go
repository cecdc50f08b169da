package core

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/run"
)

// TestRecordedEnds: a recorded step leads to the observation that the next one begins with, but an
// episode's last step to where the episode ended. CartPole ends beyond 2.4 or 12 degrees
// (Gymnasium's documentation), and begins within 0.05.
func TestRecordedEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recorded.safetensors")
	mustExecute(t, "record", "--env", "classic/CartPole-v1", "--policy", "random", "-n", "100", "--out", path)
	r, _, err := run.ReadTransitions(path)
	if err != nil {
		t.Fatal(err)
	}
	ends := 0
	for i := range r.Len() - 1 {
		next, begin := r.NextObs[4*i:4*i+4], r.Obs[4*i+4:4*i+8]
		if !r.Terminated[i] {
			if !slices.Equal(next, begin) {
				t.Errorf("step %d leads to %v, and step %d begins with %v", i, next, i+1, begin)
			}
			continue
		}
		ends++
		if math.Abs(float64(next[0])) <= 2.4 && math.Abs(float64(next[2])) <= 12*2*math.Pi/360 {
			t.Errorf("step %d ends an episode at %v, which is within the limits", i, next)
		}
		for _, x := range begin {
			if math.Abs(float64(x)) > 0.05 {
				t.Errorf("step %d begins an episode with %v, want all within 0.05", i+1, begin)
			}
		}
	}
	if ends == 0 {
		t.Error("no episode ended")
	}
}
