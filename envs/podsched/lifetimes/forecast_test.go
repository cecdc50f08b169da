package lifetimes

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/imbalance"
)

// TestRemains has probabilities worked by hand: with a factor of 2 and a hint of 100 s the logarithm of the
// true time is uniform from log 50 to log 200, so that a quarter is longer than 100·√2 = 141.421 s.
func TestRemains(t *testing.T) {
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for _, tc := range []struct {
		name                  string
		factor, hint, age, in float64 // seconds
		want                  float64
	}{
		{"now", 2, 100, 0, 0, 1},
		{"within the shortest", 2, 100, 0, 49, 1},
		{"the hint", 2, 100, 0, 100, 0.5},
		{"a quarter is longer", 2, 100, 0, 141.421356, 0.25},
		{"the longest", 2, 100, 0, 201, 0},
		{"age corrects: a half of the half", 2, 100, 100, 41.421356, 0.5},
		{"age below the shortest says nothing", 2, 100, 40, 60, 0.5},
		{"older than the longest, by rounding", 2, 100, 201, 1, 0},
		{"exact, before", 1, 100, 30, 69, 1},
		{"exact, at its end", 1, 100, 30, 70, 0},
		{"no hint", 2, 0, 50, 1e6, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := New(1, time.Second, tc.factor)
			if got := f.remains(second(tc.hint), second(tc.age), second(tc.in)); math.Abs(got-tc.want) > 1e-6 {
				t.Errorf("remains(%v s, age %v s, %v s more) = %v, want %v", tc.hint, tc.age, tc.in, got, tc.want)
			}
		})
	}
}

// TestAddIsUpdate: adding pods one by one while the clock stands gives the same bits as counting all of them again.
func TestAddIsUpdate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := cluster.NewState()
	r := imbalance.Resource{Added: 2, Inverse: []float64{0.1, 0.2, 0.3}}
	f, anew := New(3, 100*time.Second, 2), New(3, 100*time.Second, 2)
	for i := range int32(40) {
		if i%8 == 0 {
			s.Now += 20 * time.Second
			if i > 0 {
				s.Pods[i-1].Phase = cluster.Succeeded
			}
		}
		f.Update(s, 50*time.Second, r, r)
		anew.CopyFrom(f)
		anew.at = never
		anew.Update(s, 50*time.Second, r, r)
		if diff := cmp.Diff([]any{f.cpu, f.memory, f.cost, f.runs}, []any{anew.cpu, anew.memory, anew.cost, anew.runs}); diff != "" {
			t.Fatalf("pod %d (-added +anew):\n%s", i, diff)
		}
		s.Pods = append(s.Pods, cluster.Pod{Phase: cluster.Running})
		f.Add(s, Pod{Index: i, Node: i % 3, Hint: time.Duration(rng.Int64N(int64(200 * time.Second))), Begun: s.Now, CPU: rng.Float64(), Memory: rng.Float64()})
	}
	if len(f.running) != 40-4 {
		t.Errorf("%d pods run, want 36: four have ended", len(f.running))
	}
}
