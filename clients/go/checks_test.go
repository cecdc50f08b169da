package client

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/space"
)

// A mask permits an action if it permits a value of each element.
func TestPermits(t *testing.T) {
	for _, tc := range []struct {
		act  space.Space
		mask string
		want bool
	}{
		{space.Discrete{N: 3}, "010", true},
		{space.Discrete{N: 3}, "000", false},
		{space.MultiDiscrete{NVec: []int{2, 3}}, "01100", true},
		{space.MultiDiscrete{NVec: []int{2, 3}}, "11000", false},
		{space.MultiDiscrete{NVec: []int{2, 3}}, "00111", false},
		{space.MultiBinary{N: 2}, "0110", true},
		{space.MultiBinary{N: 2}, "1100", false},
	} {
		mask := make([]bool, len(tc.mask))
		for i := range mask {
			mask[i] = tc.mask[i] == '1'
		}
		if got := permits(tc.act, mask); got != tc.want {
			t.Errorf("%v with mask %s: %v, want %v", tc.act, tc.mask, got, tc.want)
		}
	}
}
