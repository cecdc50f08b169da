package metis_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/agents/metis"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/space"
)

// TestEqualSplit chooses among three sub-clusters by hand: the rows have containers of each application,
// free slots and the value.
func TestEqualSplit(t *testing.T) {
	const features, app = lra.NumApps + 2, 2
	obs := space.Dict{Fields: []space.Field{{Key: "nodes", Space: space.NewBox(0, 1, 3, features)}, {Key: "batch", Space: space.NewBox(0, 1, 17)}}}
	all := []bool{true, true, true}
	for _, tc := range []struct {
		name       string
		free, same [3]float32
		mask       []bool
		want       int
	}{
		{"the most free slots", [3]float32{.2, .5, .4}, [3]float32{0, .9, 0}, all, 1},
		{"then the fewest of the application", [3]float32{.5, .2, .5}, [3]float32{.3, 0, .1}, all, 2},
		{"then, in the first episode, the first", [3]float32{.5, .5, .5}, [3]float32{.1, .1, .1}, all, 0},
		{"of those that are permitted", [3]float32{.5, .2, .1}, [3]float32{0, 0, 0}, []bool{false, true, true}, 1},
	} {
		row := make([]float32, 3*features+17)
		row[3*features+app] = 1
		for c := range 3 {
			row[c*features+lra.NumApps], row[c*features+app] = tc.free[c], tc.same[c]
		}
		if got := metis.EqualSplit(obs, 1)(0, row, tc.mask); got != tc.want {
			t.Errorf("%s: sub-cluster %d, want %d", tc.name, got, tc.want)
		}
	}
	// In later episodes each of three equal ones is chosen sometimes.
	demo, seen := metis.EqualSplit(obs, 1), map[int]bool{}
	row := make([]float32, 3*features+17)
	row[3*features+app] = 1
	for range 100 {
		seen[demo(1, row, all)] = true
	}
	if len(seen) != 3 {
		t.Errorf("equal sub-clusters chosen in later episodes: %v, want all three", seen)
	}
}
