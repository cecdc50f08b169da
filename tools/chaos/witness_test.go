//go:build linux

package main

import "testing"

// TestDiffer: sequences by hand, in which steps are missing, come twice, or are of another session.
func TestDiffer(t *testing.T) {
	want := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for name, tc := range map[string]struct {
		got           []uint64
		lost, doubled int
	}{
		"the same":            {[]uint64{1, 2, 3, 4}, 0, 0},
		"one lost":            {[]uint64{1, 2, 4, 5}, 1, 0},
		"two lost":            {[]uint64{1, 4, 5}, 2, 0},
		"one doubled":         {[]uint64{1, 2, 2, 3}, 0, 1},
		"doubled, then lost":  {[]uint64{1, 1, 2, 4}, 1, 1},
		"of another session":  {[]uint64{1, 2, 33, 44}, 2, 0},
		"more than there are": {[]uint64{7, 8, 9, 10}, 7, 0},
	} {
		if lost, doubled := differ(tc.got, want); lost != tc.lost || doubled != tc.doubled {
			t.Errorf("%s: %d lost and %d doubled, want %d and %d", name, lost, doubled, tc.lost, tc.doubled)
		}
	}
}
