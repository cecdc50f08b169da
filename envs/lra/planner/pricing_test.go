package planner_test

import (
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// handTable: a container achieves 1 − 0.1 for each other on its node, an MMS twice that beside a
// Redis.
func handTable(t *testing.T) *lra.Table {
	t.Helper()
	table, err := lra.NewTable(func(s lra.State, app int) float64 {
		v := 1 - 0.1*float64(s.Total()-1)
		if app == 1 && s.Counts()[0] > 0 {
			v *= 2
		}
		return v
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func handModel(t *testing.T) *planner.Model {
	t.Helper()
	m, err := planner.NewModel(handTable(t), planner.StandardClass, planner.Objective{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// One Redis and two MMS are left. Values: Redis and MMS 0.9 + 1.8 = 2.7, all three
// 0.8 + 2·1.6 = 4, two MMS 1.8, one container 1.
func TestBestFill(t *testing.T) {
	m, rest := handModel(t), lra.Counts{1, 2}
	for _, tc := range []struct {
		name       string
		redis, mms float64
		low        int
		want       lra.Counts
	}{
		{"free", 0, 0, 0, lra.Counts{1, 2}},
		{"surplus 4 − 1 − 2·1.2 = 0.6 is above 2.7 − 1 − 1.2 = 0.5", 1, 1.2, 0, lra.Counts{1, 2}},
		{"surplus 4 − 1 − 2·1.4 = 0.2 is below 2.7 − 1 − 1.4 = 0.3", 1, 1.4, 0, lra.Counts{1, 1}},
		{"nothing is worth its price", 3, 3, 0, lra.Counts{}},
		{"the nodes after it lack room for one", 3, 3, 1, lra.Counts{1, 0}},
		{"the last node takes all", 3, 3, 3, lra.Counts{1, 2}},
	} {
		pi := [lra.NumApps]float64{tc.redis, tc.mms}
		if got := m.BestFill(rest, &pi, tc.low).Counts(); got.Total() < tc.low || surplus(m, got, &pi) != surplus(m, tc.want, &pi) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func surplus(m *planner.Model, c lra.Counts, pi *[lra.NumApps]float64) float64 {
	v := m.Value[stateOf(c)]
	for a, k := range c {
		v -= pi[a] * float64(k)
	}
	return v
}

// A node that is never offered anything is worth, with containers of its state leaving at rate 1
// and discount 1: an empty one 0, one container 1/(1+1), Redis and MMS
// (2.7 + 1/2 + 1/2)/(1 + 2).
func TestWorthWithoutOffers(t *testing.T) {
	m := handModel(t)
	var worth planner.Worth
	worth.Start(m, 1)
	worth.Improve(m, &planner.Offers{Discount: 1}, 10_000)
	for _, tc := range []struct {
		counts lra.Counts
		want   float64
	}{{lra.Counts{}, 0}, {lra.Counts{1}, 0.5}, {lra.Counts{1, 1}, 3.7 / 3}} {
		if got := worth[stateOf(tc.counts)]; math.Abs(got-tc.want) > 5*planner.WorthTolerance {
			t.Errorf("worth of %v = %v, want %v", tc.counts, got, tc.want)
		}
	}
}

// Offers of MMS at 1.2: beside a Redis one adds 1.7, beside another MMS 0.8. So they make a Redis
// worth more, and an MMS not.
func TestWorthBuysWhatGains(t *testing.T) {
	m := handModel(t)
	var worth, without planner.Worth
	pi := [lra.NumApps]float64{100, 1.2, 100, 100, 100, 100, 100}
	worth.Start(m, 1)
	without.Start(m, 1)
	worth.Improve(m, &planner.Offers{Prices: pi, Rate: 2, Discount: 1}, 10_000)
	without.Improve(m, &planner.Offers{Prices: pi, Discount: 1}, 10_000)
	redis, mms := stateOf(lra.Counts{1}), stateOf(lra.Counts{0, 1})
	if worth[redis] <= without[redis]+0.05 {
		t.Errorf("worth of Redis %v with offers of MMS, %v without, want more", worth[redis], without[redis])
	}
	if math.Abs(worth[mms]-without[mms]) > 0.01 { // a second MMS adds 0.8 at 1.2
		t.Errorf("worth of MMS %v with offers of MMS, %v without, want the same", worth[mms], without[mms])
	}
}

func stateOf(c lra.Counts) lra.State {
	s, err := lra.StateOf(c)
	if err != nil {
		panic(err)
	}
	return s
}
