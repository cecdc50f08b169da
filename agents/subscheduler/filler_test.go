package subscheduler

import (
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// The policy that takes the child of the largest gain is greedy, whose values the golden rows
// confirm, in the better of two orders. Ties go to other nodes, and features have the precision of float32.
func TestSubSchedulerByGain(t *testing.T) {
	table := throughput.GenerateTable(0)
	p, err := planner.NewProblem(table, subcluster.Nodes, lra.Counts{12, 9, 14, 8, 11, 13, 10})
	if err != nil {
		t.Fatal(err)
	}
	sub := &filler{policy: func(obs []float32, mask []bool, _ bool) (int, error) {
		best := -1
		for c, ok := range mask {
			if ok && (best < 0 || obs[c*world.NodeFeatures+world.GainFeature] > obs[best*world.NodeFeatures+world.GainFeature]) {
				best = c
			}
		}
		return best, nil
	}}
	x := make(planner.Placement, subcluster.Nodes)
	for _, batch := range []lra.Counts{{12, 9, 14, 8, 11, 13, 10}, {31, 30, 29, 31, 30, 31, 30}} { // the second in rounds
		p.Batch = batch
		if err := sub.Fill(p, x); err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for _, order := range [][]int{planner.AppOrder(batch), planner.RoundsOrder(batch)} {
			y, err := p.Place(order, p.Greedy)
			if err != nil {
				t.Fatal(err)
			}
			want = max(want, p.Value(y))
		}
		if x.Batch() != batch || math.Abs(p.Value(x)-want) > 1e-3 {
			t.Errorf("placement of %v worth %v, want %v worth %v", x.Batch(), p.Value(x), batch, want)
		}
	}
	stubborn := &filler{policy: func([]float32, []bool, bool) (int, error) { return 3, nil }}
	if err := stubborn.Fill(p, x); err == nil {
		t.Error("a choice outside the mask is accepted")
	}
	p.Class = p.Class[:9]
	if err := sub.Fill(p, x); err == nil {
		t.Error("9 nodes are accepted")
	}
}
