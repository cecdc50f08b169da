package gpushare

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRings: nodes a and c, of G2, and b and d, of T4 and P100, in turn. Each of a ring has an edge
// to the next; what is alone has one to itself that does not count.
func TestRings(t *testing.T) {
	for _, tc := range []struct {
		models []int8
		want   []float32
	}{
		{[]int8{0, 1, 0, 2}, []float32{0, 2, 1, 1, 2, 0, 3, 3, 1, 0, 1, 0}},
		{[]int8{-1, 0, -1, -1}, []float32{0, 2, 1, 1, 2, 3, 3, 0, 1, 0, 1, 1}},
		{[]int8{5}, []float32{0, 0, 0}},
	} {
		nodes := make([]NodeState, len(tc.models))
		for i, m := range tc.models {
			nodes[i].Model = m
		}
		if d := cmp.Diff(tc.want, Rings(nil, nodes)); d != "" {
			t.Errorf("rings of %v (-want +got):\n%s", tc.models, d)
		}
	}
}
