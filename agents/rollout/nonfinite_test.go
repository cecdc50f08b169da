package rollout

import (
	"math"
	"testing"
)

// A reward of 1e300 at step 1 of environment 1 is infinite as a float32: steps 0 and 1 have
// returns that are not finite, and step 2 has not.
func TestNonFiniteSource(t *testing.T) {
	b := New(3, 2, 1, 1, 2)
	b.Reward[1*2+1] = 1e300
	b.Estimate(nil, 0.9, 1)
	if got, want := b.NonFiniteSource(), "the return +Inf of environment 1 at step 1 of the rollout"; got != want {
		t.Errorf("NonFiniteSource() = %s, want %s", got, want)
	}
	b.Reward[1*2+1] = math.MaxFloat32 / 2
	b.Estimate(nil, 0.9, 1)
	if got, want := b.NonFiniteSource(), "the network's parameters, as all returns are finite"; got != want {
		t.Errorf("NonFiniteSource() = %s, want %s", got, want)
	}
}
