package kubescore_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// All expected values are worked by hand from the formulas of the plugins, which stand beside them.

func TestResources(t *testing.T) {
	cpu := Resource{Requested: 3000, Allocatable: 4000, Weight: 1}    // 75 % requested
	mem := Resource{Requested: 5000, Allocatable: 20000, Weight: 1}   // 25 %
	full := Resource{Requested: 9000, Allocatable: 4000, Weight: 1}   // more than there is
	none := Resource{Requested: 10, Allocatable: 0, Weight: 1}        // left out
	heavy := Resource{Requested: 5000, Allocatable: 20000, Weight: 3} // 25 %, thrice
	third := Resource{Requested: 1, Allocatable: 3, Weight: 1}        // 33.3 %
	shape := []ShapePoint{{0, 0}, {50, 10}, {100, 2}}
	for _, tc := range []struct {
		name      string
		got, want int64
	}{
		{"least: (25+75)/2", LeastAllocated(cpu, mem), 50},
		{"least: (25+3*75)/4 = 62.5", LeastAllocated(cpu, heavy), 62},
		{"least: floor(66.67)", LeastAllocated(third), 66},
		{"least: overfull is 0", LeastAllocated(full, mem), 37},
		{"least: absent resource left out", LeastAllocated(cpu, none), 25},
		{"least: nothing to score", LeastAllocated(none), 0},
		{"most: (75+25)/2", MostAllocated(cpu, mem), 50},
		{"most: (75+3*25)/4 = 37.5", MostAllocated(cpu, heavy), 37},
		{"most: overfull is 100", MostAllocated(full, mem), 62},
		{"balanced: 1-0.5/2", BalancedAllocation(cpu, mem), 75},
		{"balanced: fractions at most 1: 1-0.75/2 = 0.625", BalancedAllocation(full, mem), 62},
		{"balanced: one resource", BalancedAllocation(cpu, none), 100},
		// Fractions 0.75, 0.25, 0.25: mean 5/12, squares (1/9 + 1/36 + 1/36) = 1/6, std sqrt(1/18) = 0.2357.
		{"balanced: three resources", BalancedAllocation(cpu, mem, heavy), 76},
		// 75 % lies halfway between 100 and 20, 25 % halfway between 0 and 100.
		{"ratio: (60+50)/2", RequestedToCapacityRatio(shape, cpu, mem), 55},
		{"ratio: (60+3*50)/4 = 52.5 rounds up", RequestedToCapacityRatio(shape, cpu, heavy), 53},
		{"ratio: overfull as 100 %: (20+50)/2", RequestedToCapacityRatio(shape, full, mem), 35},
		{"ratio: a zero score is left out", RequestedToCapacityRatio(shape, cpu, Resource{0, 10, 1}), 60},
		{"ratio: all zero", RequestedToCapacityRatio(shape, Resource{0, 10, 1}), 0},
		{"ratio: before the first point", RequestedToCapacityRatio([]ShapePoint{{40, 3}, {60, 5}}, mem), 30},
		{"ratio: after the last point", RequestedToCapacityRatio([]ShapePoint{{40, 3}, {60, 5}}, cpu), 50},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, tc.got, tc.want)
		}
	}
}

func TestNormalize(t *testing.T) {
	for _, tc := range []struct {
		name      string
		normalize func([]int64)
		raw, want []int64
	}{
		{"affinity: 100*w/max w", func(s []int64) { Normalize(s, false) }, []int64{0, 1, 3}, []int64{0, 33, 100}},
		{"affinity: no preference", func(s []int64) { Normalize(s, false) }, []int64{0, 0}, []int64{0, 0}},
		{"taints: 100-100*c/max c", func(s []int64) { Normalize(s, true) }, []int64{0, 1, 3}, []int64{100, 67, 0}},
		{"taints: none", func(s []int64) { Normalize(s, true) }, []int64{0, 0}, []int64{100, 100}},
		{"spread: 100*(max+min-raw)/max", NormalizeSpread, []int64{2, 4, 8, SpreadIgnored}, []int64{100, 75, 25, 0}},
		{"spread: max 0", NormalizeSpread, []int64{0, 0, SpreadIgnored}, []int64{100, 100, 0}},
		{"none", NormalizeSpread, nil, nil},
	} {
		got := append([]int64(nil), tc.raw...)
		tc.normalize(got)
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}

func TestSpreadTerm(t *testing.T) {
	// 3*ln(4+2)+5-1 = 3*1.791759+4.
	if got, want := SpreadTerm(3, SpreadWeight(4), 5), 9.375278; got-want > 1e-6 || want-got > 1e-6 {
		t.Errorf("SpreadTerm(3, 4, 5) = %v, want %v", got, want)
	}
}

func TestImageLocality(t *testing.T) {
	const mb = 1 << 20
	for _, tc := range []struct {
		name       string
		images     []Image
		containers int
		want       int64
	}{
		{"none", nil, 1, 0},
		{"below 23 MiB", []Image{{20 * mb, 10}}, 1, 0},
		{"halfway: (511.5-23)/977", []Image{{511*mb + mb/2, 10}}, 1, 50},
		{"on half of the nodes: (255.75-23)/977 = 23.8 %", []Image{{511*mb + mb/2, 5}}, 1, 23},
		{"above the cap", []Image{{4000 * mb, 10}}, 1, 100},
		{"two containers: (1000-23)/(2000-23) = 49.4 %", []Image{{400 * mb, 10}, {600 * mb, 10}}, 2, 49},
	} {
		if got := ImageLocality(tc.images, 10, tc.containers); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	cpu, mem := Resource{3000, 4000, 1}, Resource{5000, 20000, 1}
	if n := testing.AllocsPerRun(100, func() {
		LeastAllocated(cpu, mem)
		BalancedAllocation(cpu, mem)
	}); n != 0 {
		t.Errorf("%v allocations for two scores, want 0", n)
	}
}
