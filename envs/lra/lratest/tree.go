package lratest

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// CheckAskedOnTheWayDown asks a baseline at the root of one choice, where it takes action 0, and again half-way down
// another, where the first leaf is now full.
func CheckAskedOnTheWayDown(t *testing.T, id, baseline string, opts map[string]any) {
	t.Helper()
	v := envstest.Open(t, id, 1, envs.VecOptions{Options: opts})
	policies, err := envs.NewPolicies(v, baseline, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, action := envstest.Reset(t, v, 1), make([]float32, 1)
	for down := false; !down || b.Mask[0]; down = !down { // down to the first leaf until it is full
		if !b.Mask[0] || b.Done(0) {
			t.Fatalf("%s: %v: the first leaf is not full at %v", id, b.Mask, b.EpisodeLength)
		}
		if b.EpisodeLength[0] == 0 {
			if err := policies.Act(t.Context(), action); err != nil || action[0] != 0 {
				t.Fatalf("%s: %s takes %v first, %v; want 0", id, baseline, action, err)
			}
		}
		b = envstest.Step(t, v, 0)
	}
	if err := policies.Act(t.Context(), action); err != nil || !b.Mask[int(action[0])] {
		t.Errorf("%s: %s takes %v, %v, where %v is permitted", id, baseline, action, err, b.Mask)
	}
}
