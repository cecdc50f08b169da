package planner_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// TestTrialByHand: a container achieves 1 − 0.1 for each other on its node, an MMS twice that beside a
// Redis. Of one Redis and two MMS on two nodes, round-robin puts an MMS beside nothing: Redis and MMS
// 0.9 + 1.8, and 1 for the other, 3.7 in all. Greedy and the optimum put all on one node, worth 4. The
// constraint permits one MMS beside a Redis; all on one node break it by one, at the weight 2.
func TestTrialByHand(t *testing.T) {
	clock := time.Time{}
	trial := planner.Trial{
		Plan: handTable(t), Score: handTable(t), Nodes: 2, Batches: []lra.Counts{{1, 2}, {1, 2}},
		Constraints: []interference.Constraint{{Subject: 0, Other: 1, Threshold: 1}},
		Rand:        func(batch int) *rand.Rand { return rand.New(rand.NewPCG(uint64(batch), 0)) },
		Now: func() time.Time { // a millisecond passes between two readings
			clock = clock.Add(time.Millisecond)
			return clock
		},
	}
	all, err := trial.Run(t.Context(), planner.Methods)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct{ throughput, violations float64 }{
		"round-robin": {3.7 / 3, 0}, "greedy": {4. / 3, 2}, "local-search": {4. / 3, 2}, "milp": {4. / 3, 2}, "linear bound": {4. / 3, 0},
	}
	for _, r := range all {
		w, ok := want[r.Method]
		if !ok {
			continue
		}
		delete(want, r.Method)
		if len(r.Throughput) != 2 || math.Abs(r.Throughput[0]-w.throughput) > 1e-9 || r.Throughput[1] != r.Throughput[0] || math.Abs(r.Violations-w.violations) > 1e-9 {
			t.Errorf("%s: throughputs %v and %v violations, want twice %v and %v", r.Method, r.Throughput, r.Violations, w.throughput, w.violations)
		}
		if math.Abs(r.DecisionMicros-1000./3) > 1e-6 { // a millisecond for three containers
			t.Errorf("%s: %v µs a decision, want 333.3", r.Method, r.DecisionMicros)
		}
	}
	if len(want) > 0 || all[len(all)-1].Method != "linear bound" {
		t.Errorf("no result of %v; the last is of %s, want the linear bound", want, all[len(all)-1].Method)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := trial.Run(ended, planner.Methods); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v, want context canceled", err)
	}
}
