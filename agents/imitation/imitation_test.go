package imitation

import (
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
)

// TestRate: of four steps a linear schedule takes 1, ¾, ½ and ¼ of its first rate.
func TestRate(t *testing.T) {
	for _, tc := range []struct {
		name string
		rate agents.Schedule
		want [4]float64
	}{
		{"none takes the learner's", agents.Schedule{}, [4]float64{0.5, 0.5, 0.5, 0.5}},
		{"constant", agents.Constant(0.01), [4]float64{0.01, 0.01, 0.01, 0.01}},
		{"linear", agents.Schedule{Initial: 0.008, Linear: true}, [4]float64{0.008, 0.006, 0.004, 0.002}},
	} {
		for k, want := range tc.want {
			if got := (Demonstration{LearningRate: tc.rate}).Rate(k, 4, 0.5); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: Rate(%d, 4, 0.5) = %v, want %v", tc.name, k, got, want)
			}
		}
	}
}
