package planner_test

import (
	"context"
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// TestReplanningsByHand: two tasks alternate between supersteps in which both have size 10 and those
// in which b has 30. Plans for one superstep are 3 and 2 cores, which take 40 s, and 1 and 4, which
// take 80 s. A superstep later the first takes 120 s, the second 80 s.
func TestReplanningsByHand(t *testing.T) {
	tr := &planner.Trace{Steps: 6, Columns: 1, Tasks: 2}
	for i := range tr.Steps {
		tr.True = append(tr.True, 10, 10+20*float64(i%2))
	}
	tr.Planned = tr.True
	in, err := planner.NewInstance(context.Background(), gangtest.HandModel(t), tr, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		penalty      float64
		interval     int
		perSuperstep float64
	}{
		{15, 1, 75},  // 15+60; (15+60+100)/2
		{40, 1, 100}, // 40+60; (40+60+100)/2, the same
		{60, 2, 110}, // 60+60; (60+60+100)/2
	} {
		all := in.Replannings(planner.Episode{First: 1, Steps: 5, Penalty: test.penalty}, 2)
		if len(all) != 1 || all[0].Window != 1 || len(all[0].Seconds) != 2 {
			t.Fatalf("%+v, want one window and two ages", all)
		}
		r := all[0]
		if math.Abs(r.Seconds[0]-60) > 1e-9 || math.Abs(r.Seconds[1]-100) > 1e-9 {
			t.Errorf("%v seconds by age, want 60 and 100", r.Seconds)
		}
		if r.Interval != test.interval || math.Abs(r.PerSuperstep-test.perSuperstep) > 1e-9 {
			t.Errorf("penalty %v: every %d supersteps, %v s each; want %d, %v s", test.penalty, r.Interval, r.PerSuperstep, test.interval, test.perSuperstep)
		}
	}
}
