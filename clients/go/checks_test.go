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

// Messages of servers count from the first environment of a part, in all their wordings.
func TestCountFrom(t *testing.T) {
	for msg, want := range map[string]string{
		"environment 1: envs: environment must be reset":                         "environment 5: envs: environment must be reset",
		"render of environment 1 before its first reset":                         "render of environment 5 before its first reset",
		"envs: no state: environment 1 has failed; reset and step it":            "envs: no state: environment 5 has failed; reset and step it",
		"envs: no state: the episode of environment 1 has more than 100 actions": "envs: no state: the episode of environment 5 has more than 100 actions",
		"a reply of 9 bytes, want at most 8":                                     "a reply of 9 bytes, want at most 8",
	} {
		e := &Error{Msg: msg}
		if e.countFrom(4); e.Msg != want {
			t.Errorf("%q becomes %q, want %q", msg, e.Msg, want)
		}
	}
}
