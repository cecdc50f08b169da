package rules

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// aware is a NodeAwareRule of round numbers, on a day of hourly samples of 100 m and 1 GiB that ends with one of 200 m
// and 2 GiB, and two of 100 m and 1 GiB. A step takes 30 min: the last hour has two.
type aware struct {
	n NodeAwareRule
	v View
}

func newAware() *aware {
	a := &aware{n: NodeAwareRule{NodeAware: NodeAware{CPU: 1, CPUWindow: 0.5, BusyCPU: 0.8, CPUMargin: 1.5, BusyMemory: 0.8, MemoryMargin: 1.25,
		Period: 30, Band: 0.25, Review: 8, CPUFactor: 2, MemoryFactor: 3, Leak: 1.5, Spin: 1.25, Bump: 1.2}}}
	a.v = View{Interval: 30 * time.Minute, Pods: make([]pods.Pod, 1), Node: amounts(1000, 10)}
	for range 45 {
		a.v.Seen = append(a.v.Seen, amounts(100, 1))
	}
	a.v.Seen = append(a.v.Seen, amounts(200, 2), amounts(100, 1), amounts(100, 1))
	return a
}

// step adds a sample and returns the recommendation after it.
func (a *aware) step(t *testing.T, cpu int64, memory float64, load [2]float64) pods.Recommendation {
	t.Helper()
	a.v.Seen, a.v.Load = append(a.v.Seen, amounts(cpu, memory)), load
	r, ok := a.n.Recommend(t.Context(), &a.v, a.v.Step == 0)
	if !ok {
		t.Fatalf("step %d: no recommendation", a.v.Step)
	}
	a.v.Step++
	return r
}

// TestNodeAware: with room on the node, a pod requests the CPU in use, and 1.25 times the larger of the memory in use and its
// mean of the last hour. On a busy node it requests 1.5 times the CPU. If the node of 10 GiB were busy with another 1.4 GiB,
// which are missing to the day's peak, it requests that peak.
func TestNodeAware(t *testing.T) {
	for _, tc := range []struct {
		name   string
		load   [2]float64
		target cluster.Resources
	}{
		// Memory: 0.6 GiB in use, and (1 + 0.6)/2 = 0.8 in the mean, which is the larger.
		{"room", [2]float64{0.79, 0.65}, amounts(160, 1)},
		{"no CPU", [2]float64{0.8, 0.5}, amounts(240, 1)},
		{"no memory", [2]float64{0.5, 0.67}, amounts(160, 2)},
	} {
		got := newAware().step(t, 160, 0.6, tc.load)
		if got.Target.MilliCPU != tc.target.MilliCPU || got.Target.MemoryBytes-tc.target.MemoryBytes > 1 || got.Target.MemoryBytes < tc.target.MemoryBytes {
			t.Errorf("%s: target %+v, want %+v", tc.name, got.Target, tc.target)
		}
		if got.Lower.MilliCPU != (tc.target.MilliCPU*4+4)/5 || got.Upper.MilliCPU != tc.target.MilliCPU*5/4 {
			t.Errorf("%s: bounds %d and %d of CPU, want a quarter away", tc.name, got.Lower.MilliCPU, got.Upper.MilliCPU)
		}
		if want := amounts(400, 6); got.Limits != want { // twice and three times the day's peaks
			t.Errorf("%s: limits %+v, want %+v", tc.name, got.Limits, want)
		}
	}
	high := newAware().step(t, 160, 2, [2]float64{}) // more memory in use than in the mean
	if want := amounts(0, 2.5).MemoryBytes; high.Target.MemoryBytes != want {
		t.Errorf("memory of 2 GiB in use: target %d, want %d", high.Target.MemoryBytes, want)
	}
}

// TestFaultyPodsAreEvicted: the CPU limit goes for one step, for which the updater evicts, and comes back.
func TestFaultyPodsAreEvicted(t *testing.T) {
	type sample struct {
		cpu    int64
		memory float64
	}
	calm := sample{100, 1}
	for _, tc := range []struct {
		name    string
		samples []sample
		evicts  []int // steps
	}{
		// Leaks are above 1.5·2 GiB, and above 1.04 times the mean of their hour.
		{"leak", []sample{calm, {100, 2.9}, {100, 3.3}, calm, calm}, []int{2}},
		{"as much for hours", []sample{calm, {100, 3.1}, {100, 3.1}, calm, calm}, []int{1}},
		{"a slow rise", []sample{calm, {100, 2.95}, {100, 3.05}, {100, 3.1}, calm}, nil},
		// CPU above 1.25·200 m three times in a row.
		{"spin", []sample{calm, {251, 1}, {251, 1}, {251, 1}, calm}, []int{3}},
		{"CPU at the bound", []sample{calm, {250, 1}, {250, 1}, {250, 1}, calm}, nil},
		{"a burst", []sample{calm, {251, 1}, {251, 1}, calm, {251, 1}}, nil},
		// It leaks again within the hour of its eviction: more memory is its way, and a leak is above 1.5·4 GiB from then on.
		{"no fault", []sample{calm, {100, 3.1}, {100, 4}, {100, 5.9}, {100, 6.5}}, []int{1, 4}},
	} {
		a, evicts := newAware(), []int(nil)
		for i, s := range tc.samples {
			r := a.step(t, s.cpu, s.memory, [2]float64{})
			if r.Limits.MilliCPU == 0 {
				evicts = append(evicts, i)
			}
			if r.Limits.MemoryBytes == 0 {
				t.Errorf("%s, step %d: no limit of memory", tc.name, i)
			}
		}
		if diff := cmp.Diff(tc.evicts, evicts); diff != "" {
			t.Errorf("%s: steps that evict (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestLimitComesBack: between two recommendations, the one that evicts is followed by one with a CPU limit.
func TestLimitComesBack(t *testing.T) {
	a := newAware()
	a.n.Period = 120
	var limits []int64
	for i := range 8 {
		memory := 1.0
		if i == 4 {
			memory = 3.5
		}
		a.v.Step, a.v.Seen = i, append(a.v.Seen, amounts(100, memory))
		if r, ok := a.n.Recommend(t.Context(), &a.v, i == 0); ok {
			limits = append(limits, r.Limits.MilliCPU)
		}
	}
	if diff := cmp.Diff([]int64{400, 0, 400}, limits); diff != "" { // in steps 0, 4 and 5
		t.Errorf("CPU limits (-want +got):\n%s", diff)
	}
}
