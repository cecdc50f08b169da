package node

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

func resources(cpu, mem int64) cluster.Resources {
	return cluster.Resources{MilliCPU: cpu, MemoryBytes: mem}
}

// TestClass: the table of Kubernetes' documentation, "Pod Quality of Service Classes".
func TestClass(t *testing.T) {
	for _, tc := range []struct {
		requests, limits cluster.Resources
		want             QoS
	}{
		{resources(0, 0), resources(0, 0), BestEffort},
		{resources(100, 50), resources(100, 50), Guaranteed},
		{resources(100, 50), resources(100, 60), Burstable},
		{resources(100, 50), resources(0, 0), Burstable},
		{resources(100, 50), resources(100, 0), Burstable},
		{resources(100, 0), resources(100, 0), Burstable}, // memory has no limit
	} {
		if got := Class(tc.requests, tc.limits); got != tc.want {
			t.Errorf("Class(%v, %v) = %v, want %v", tc.requests, tc.limits, got, tc.want)
		}
	}
}

// TestShare: hand-worked divisions of a node of 1000 m.
func TestShare(t *testing.T) {
	pod := func(class QoS, request int64, want float64) Pod {
		return Pod{Class: class, Requests: resources(request, 1), CPU: want}
	}
	for _, tc := range []struct {
		name string
		pods []Pod
		want []float64
	}{
		{"enough for all", []Pod{pod(Burstable, 100, 300), pod(Burstable, 800, 500)}, []float64{300, 500}},
		// Both want all: 1:3 by requests.
		{"by requests", []Pod{pod(Burstable, 100, 1000), pod(Burstable, 300, 1000)}, []float64{250, 750}},
		// The second wants 200 of its 500; the rest goes 1:3 to the others.
		{"rest by requests", []Pod{pod(Burstable, 100, 900), pod(Burstable, 400, 200), pod(Burstable, 300, 900)}, []float64{200, 200, 600}},
		// The Guaranteed pod weighs 500 against the group's 500 and is satisfied with 400; the group has 600, 1:4.
		{"groups", []Pod{pod(Guaranteed, 500, 400), pod(Burstable, 100, 1000), pod(Burstable, 400, 1000)}, []float64{400, 120, 480}},
		// The group weighs 200+400 against 400 of the Guaranteed pod, which gets 400. Of the group's 600
		// the idle pod leaves 500 to its sibling: what one Burstable pod does not want goes to its group first.
		{"siblings first", []Pod{pod(Guaranteed, 400, 900), pod(Burstable, 200, 900), pod(Burstable, 400, 100)}, []float64{400, 500, 100}},
		// 2 shares against 1024: 2/1026 of 1000 m.
		{"best effort", []Pod{pod(BestEffort, 0, 1000), pod(Burstable, 1000, 1000)}, []float64{1000 * 2. / 1026, 1000 * 1024. / 1026}},
		{"two of best effort alone", []Pod{pod(BestEffort, 0, 1000), pod(BestEffort, 0, 100)}, []float64{900, 100}},
	} {
		got := make([]float64, len(tc.pods))
		Share(tc.pods, 1000, got, make([]float64, 3*len(tc.pods)+6))
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestShareProperties: of random pods none gets more than it wants, no CPU is idle while one wants it,
// and a pod that wants no more than its request gets that if the requests fit the node.
func TestShareProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		pods := make([]Pod, 1+rng.IntN(6))
		requested, wanted := 0.0, 0.0
		for i := range pods {
			p := &pods[i]
			p.Class, p.CPU = QoS(rng.IntN(3)), float64(rng.IntN(1000))
			if p.Class != BestEffort {
				p.Requests = resources(2+int64(rng.IntN(500)), 1)
			}
			requested += float64(p.Requests.MilliCPU)
			wanted += p.CPU
		}
		capacity := 2 * requested * rng.Float64()
		got := make([]float64, len(pods))
		Share(pods, capacity, got, make([]float64, 3*len(pods)+6))
		sum := 0.0
		for i, g := range got {
			p := &pods[i]
			sum += g
			if g < 0 || g > p.CPU+1e-9 {
				t.Fatalf("%+v of %v: pod %d gets %v", pods, capacity, i, g)
			}
			// BestEffort pods weigh 2 shares, about 2 m, which requests of the others do not count.
			if fits := requested+2 <= capacity; fits && p.CPU <= float64(p.Requests.MilliCPU) && g < p.CPU-1e-9 {
				t.Fatalf("%+v of %v: pod %d gets %v, which is less than its request", pods, capacity, i, g)
			}
		}
		if math.Abs(sum-min(wanted, capacity)) > 1e-6 {
			t.Fatalf("%+v of %v: %v is shared", pods, capacity, sum)
		}
	}
}

// TestOOMScoreAdj: 10 % of a node's memory requested are 900; the ends are 3 and 999. Values of the
// comments in pkg/kubelet/qos/policy.go and of Kubernetes' documentation, "Node-pressure Eviction".
func TestOOMScoreAdj(t *testing.T) {
	for _, tc := range []struct {
		class   QoS
		request int64
		want    int64
	}{
		{Guaranteed, 100, -997}, {BestEffort, 0, 1000}, {Burstable, 100, 900}, {Burstable, 0, 999}, {Burstable, 999, 3}, {Burstable, 600, 400},
	} {
		if got := OOMScoreAdj(&Pod{Class: tc.class, Requests: resources(1, tc.request)}, 1000); got != tc.want {
			t.Errorf("%v that requests %d of 1000: %d, want %d", tc.class, tc.request, got, tc.want)
		}
	}
}

// TestVictims: the order in which pods lose their memory, on a node of 1000 bytes.
func TestVictims(t *testing.T) {
	pods := []Pod{
		{Class: Guaranteed, Requests: resources(1, 500), Memory: 500}, // score 500-997 = -497; 0 above its request
		{Class: Burstable, Requests: resources(1, 300), Memory: 100},  // 100+700 = 800; 200 below
		{Class: Burstable, Requests: resources(1, 100), Memory: 150},  // 150+900 = 1050; 50 above
		{Class: BestEffort, Memory: 60},                               // 60+1000 = 1060; 60 above
		{Class: Burstable, Requests: resources(1, 100), Memory: 100},  // 100+900 = 1000; 0 above
		{Class: BestEffort, Memory: 0},                                // does not run
	}
	order := func(victim func([]Pod) int) (all []int) {
		left := slices.Clone(pods)
		for {
			i := victim(left)
			if i < 0 {
				return all
			}
			all = append(all, i)
			left[i].Memory = 0
		}
	}
	oom := order(func(p []Pod) int { return OOMVictim(p, 1000) })
	if want := []int{3, 2, 4, 1, 0}; !slices.Equal(oom, want) {
		t.Errorf("the kernel kills %v, want %v", oom, want)
	}
	// 0 and 4 are equal; the first one goes.
	if got, want := order(EvictionVictim), []int{3, 2, 0, 4, 1}; !slices.Equal(got, want) {
		t.Errorf("kubelet evicts %v, want %v", got, want)
	}
}
