package shadow_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/shadow"
)

// TestDisagreements: of the three recorded decisions First makes b's in another way: a and b share n0 then, with shares of
// 100 % and 0 %, whose standard deviation is 50; half of it counts, for memory has none. As recorded both nodes have 50 %.
// Last puts a and c on n1: at a's time 50 % and 0 % either way, 12.5; c fills one node either way, 25.
func TestDisagreements(t *testing.T) {
	r := run(t, spread(t), shadow.Options{Policies: []shadow.Policy{first, last}})
	cost := func(v float64) shadow.Costs { return shadow.Costs{Imbalance: shadow.Number(v)} }
	want := []shadow.Disagreement{
		{At: start, Pod: "default/a", Node: "n0", Cost: cost(12.5), Choices: []shadow.DisagreeingChoice{{Policy: r.Policies[1].Name, Node: "n1", Cost: cost(12.5)}}},
		{At: start, Pod: "default/b", Node: "n1", Cost: cost(0), Choices: []shadow.DisagreeingChoice{{Policy: r.Policies[0].Name, Node: "n0", Cost: cost(25)}}},
		{At: start.Add(10 * time.Hour), Pod: "default/c", Node: "n0", Cost: cost(25), Choices: []shadow.DisagreeingChoice{{Policy: r.Policies[1].Name, Node: "n1", Cost: cost(25)}}},
	}
	near := cmp.Comparer(func(a, b shadow.Number) bool { return math.Abs(float64(a-b)) < 1e-9 })
	if diff := cmp.Diff(want, r.Disagreements, near); diff != "" || r.Disagreed != 3 {
		t.Errorf("%d disagreements (-want +got):\n%s", r.Disagreed, diff)
	}
	// What is only asked changes nothing: the recorded cluster is as it was.
	wantMetric(t, r, "imbalance", 2*25/12.0, 8*25/12.0)
}
