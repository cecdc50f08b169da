package pods

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/vpa/neighbours"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

const gib = 1 << 30

// amounts returns millicores and GiB as resources.
func amounts(cpu int64, memory float64) cluster.Resources {
	return cluster.Resources{MilliCPU: cpu, MemoryBytes: int64(memory * gib)}
}

// scene is a pod and neighbours on a node of 3 cores and 4 GiB, in steps of a minute.
type scene struct {
	t        *testing.T
	dynamics Controller
	cluster  cluster.Cluster
	demand   []cluster.Resources
	node     neighbours.Node
	rec      Recommendation
	step     int
}

// newScene begins with a pod of the given requests and limits. Its demand and those of the neighbours are
// those of steps 0, 1, …; they have been running with that of step 0.
func newScene(t *testing.T, requests, limits cluster.Resources, demand []cluster.Resources, others ...neighbours.Neighbour) *scene {
	t.Helper()
	o := DefaultOptions()
	s := &scene{t: t, cluster: sim.New()}
	s.dynamics = NewController(&o, 1, Timing{Step: time.Minute, Startup: 30 * time.Second, Checkpoint: 10 * time.Minute})
	s.dynamics.Node = NewSharedNode(1, len(others), 60)
	s.demand, s.node = demand, neighbours.Node{Capacity: amounts(3000, 4), History: 1}
	for _, n := range others {
		n.Demand = append(n.Demand[:1:1], n.Demand...)
		s.node.Neighbours = append(s.node.Neighbours, n)
	}
	s.rec = Constant(requests)
	s.rec.Limits, s.rec.SetLimits = limits, true
	first := Start{Node: s.node.Allocatable(), Shares: []float64{1}, Demand: demand[0], Requests: requests, Limits: limits, Shared: &s.node}
	if err := s.dynamics.Begin(context.Background(), s.cluster, &first); err != nil {
		t.Fatal(err)
	}
	return s
}

// run plays a step and returns its events.
func (s *scene) run() *prices.Events {
	s.t.Helper()
	s.dynamics.Last = prices.Events{}
	if _, err := s.dynamics.RunShared(context.Background(), s.cluster, s.step, s.demand[s.step], &s.rec); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cluster.Advance(context.Background(), time.Minute); err != nil {
		s.t.Fatal(err)
	}
	s.step++
	return &s.dynamics.Last
}

// neighbourOf returns a neighbour with a mean demand of 1.2 cores, memory at its price included.
func neighbourOf(requests, limits cluster.Resources, demand ...cluster.Resources) neighbours.Neighbour {
	return neighbours.Neighbour{Demand: demand, Requests: requests, Limits: limits, Mean: 1.2}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestContention: 5 cores are wanted of 3. Hand-worked by requests as weights.
func TestContention(t *testing.T) {
	none := cluster.Resources{}
	for _, tc := range []struct {
		name                          string
		requests, limits              cluster.Resources
		throttled, neighbour, overCPU float64 // millicores: of the pod and of the neighbour; used above the request
		harm                          float64 // core-hours
	}{
		// 1:1, 1500 m each. Within its request the pod would leave the neighbour all of its 2000 m: 500 m for a
		// minute, ten times.
		{"without a limit", amounts(1000, 1), none, 1500, 500, 500, 10 * 0.5 / 60},
		// A limit of 1000 m leaves 2000 m: the neighbour has all.
		{"limit at the request", amounts(1000, 1), amounts(1000, 4), 2000, 0, 0, 0},
		// 2:1, 2000 m and 1000 m: the neighbour has what it requests, and the pod no more than it requests.
		{"request for what is used", amounts(2000, 1), none, 1000, 1000, 0, 0},
		// 1500:1000 are 1800 m and 1200 m. Within 1500 m the pod would leave 1500 m: 300 m more.
		{"request between", amounts(1500, 1), none, 1200, 800, 300, 10 * 0.3 / 60},
		// 10:1000: the pod has 29.7 m, 19.7 m above its request, which leave 2000 m anyway? No: 3000·1000/1010
		// are 2970 m, of which the neighbour wants 2000 m; the pod gets the other 1000 m and harms nobody.
		{"tiny request", amounts(10, 1), none, 2000, 0, 990, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t, tc.requests, tc.limits, []cluster.Resources{amounts(3000, 1)}, neighbourOf(amounts(1000, 1), none, amounts(2000, 1)))
			got := s.run()
			near(t, "throttled CPU", got.ThrottledCPU, tc.throttled)
			near(t, "the neighbour's throttled CPU", s.dynamics.Node.Stats.ThrottledCPU, tc.neighbour)
			near(t, "CPU above the request", got.OverCPU, tc.overCPU)
			near(t, "harm", got.Harm, tc.harm)
		})
	}
}

// TestMemoryPressure: of a node of 4 GiB, pods want more than is there or than kubelet leaves
// alone, 3.90 GiB. In step 0 all is well; each container has then worked 60 core-seconds, which a kill
// loses.
func TestMemoryPressure(t *testing.T) {
	type events struct {
		OOMs, NodeEvictions, Evictions, Restarts int
		Lost, Harm                               float64
	}
	none := cluster.Resources{}
	calm := amounts(1000, 1)
	work := 10 * 60. / 3600 // a minute's work, ten times
	for _, tc := range []struct {
		name             string
		requests, limits cluster.Resources
		pod, other       float64 // GiB in step 1
		want, neighbour  events
	}{
		{"room", amounts(1000, 1), none, 1.9, 1.9, events{}, events{}},
		// 4.5 of 4: the neighbour is 1.5 above its request and the pod 1, so the kernel kills the neighbour. With 1 GiB
		// for the pod nothing would happen. It is down for half a minute: 0.5 core, ten times, beside its
		// work and an hour of its 1.2 cores.
		{"kernel kills the neighbour", amounts(1000, 1), none, 2, 2.5, events{Harm: 1.2 + work + 10*0.5/60}, events{OOMs: 1, Restarts: 1, Lost: 60}},
		{"… and a limit protects it", amounts(1000, 1), amounts(3000, 1.2), 2, 2.5, events{OOMs: 1, Restarts: 1, Lost: 60}, events{}},
		{"… or a request", amounts(1000, 2), none, 2, 2.5, events{}, events{OOMs: 1, Restarts: 1, Lost: 60}},
		// 4.4 GiB with 1 GiB for the pod: the neighbour goes in any case.
		{"kernel kills the neighbour anyway", amounts(1000, 1), none, 1.1, 3.4, events{}, events{OOMs: 1, Restarts: 1, Lost: 60}},
		// The pod is 1.6 above its request.
		{"kernel kills the pod", amounts(1000, 1), none, 2.6, 2.5, events{OOMs: 1, Restarts: 1, Lost: 60}, events{}},
		// 3.95 GiB leave 51 MiB. The neighbour goes, and is down for all of the minute; a quarter of an hour for
		// the eviction.
		{"kubelet evicts the neighbour", amounts(1000, 1), none, 1.95, 2, events{Harm: 1.25*1.2 + work + 10*1./60},
			events{OOMs: 1, NodeEvictions: 1, Evictions: 1, Restarts: 1, Lost: 60}},
		{"kubelet evicts the pod", amounts(1000, 1), none, 2, 1.95, events{OOMs: 1, NodeEvictions: 1, Evictions: 1, Restarts: 1, Lost: 60}, events{}},
		{"a Guaranteed pod stays", amounts(1000, 2), amounts(1000, 2), 2, 1.95, events{}, events{OOMs: 1, NodeEvictions: 1, Evictions: 1, Restarts: 1, Lost: 60}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t, tc.requests, tc.limits, []cluster.Resources{calm, amounts(1000, tc.pod), calm},
				neighbourOf(amounts(1000, 1), none, calm, amounts(1000, tc.other), calm))
			if got := s.run(); got.OOMs != 0 || got.Harm != 0 {
				t.Fatalf("step 0: %+v", got)
			}
			of := func(i *prices.Events) events {
				return events{i.OOMs, i.NodeEvictions, i.Evictions, i.Restarts, i.Lost, i.Harm}
			}
			got, about := s.run(), cmpopts.EquateApprox(0, 1e-9)
			if diff := cmp.Diff(tc.want, of(got), about); diff != "" {
				t.Errorf("the pod (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.neighbour, of(&s.dynamics.Node.Stats), about); diff != "" {
				t.Errorf("the neighbour (-want +got):\n%s", diff)
			}
			if got := s.run(); got.Harm != 0 || got.OOMs != 0 || got.DownCPU != 0 || s.dynamics.Node.Stats.DownCPU != 0 {
				t.Errorf("step 2: %+v, neighbours %+v, want all to serve again", got, s.dynamics.Node.Stats)
			}
		})
	}
}

// TestBestEffortWaits: kubelet reports memory pressure for five minutes, and the scheduler keeps a
// BestEffort pod off the node so long. All of its downtime counts, as the pod caused it.
func TestBestEffortWaits(t *testing.T) {
	demand := []cluster.Resources{amounts(1000, 1), amounts(1000, 3.5)}
	other := []cluster.Resources{amounts(1000, 0.4), amounts(1000, 0.45)}
	for range 8 {
		demand, other = append(demand, amounts(1000, 1)), append(other, amounts(1000, 0.4))
	}
	// It uses 0.45 GiB above its request of none, and the pod 0.4 above its 3.1.
	s := newScene(t, amounts(1000, 3.1), cluster.Resources{}, demand, neighbourOf(cluster.Resources{}, cluster.Resources{}, other...))
	var down []float64
	harm := 0.0
	for range demand {
		got := s.run()
		harm += got.Harm
		down = append(down, s.dynamics.Node.Stats.DownCPU)
	}
	// Evicted in step 1, it is bound 5 minutes later in step 6 and starts in half a minute.
	if diff := cmp.Diff([]float64{0, 1000, 1000, 1000, 1000, 1000, 500, 0, 0, 0}, down); diff != "" {
		t.Errorf("CPU demanded while the neighbour is down (-want +got):\n%s", diff)
	}
	near(t, "harm", harm, 1.25*1.2+10*60./3600+10*5.5/60)
}

// TestPending: a request that the node has no room for leaves the pod pending, until a lower one is
// recommended; nothing is charged for that.
func TestPending(t *testing.T) {
	demand := make([]cluster.Resources, 6)
	for i := range demand {
		demand[i] = amounts(1000, 1)
	}
	s := newScene(t, amounts(2001, 1), cluster.Resources{}, demand, neighbourOf(amounts(1000, 1), cluster.Resources{}, demand...))
	for range 2 {
		if got := s.run(); got.DownCPU != 1000 || s.dynamics.Pods[0].Scheduled {
			t.Errorf("with 2001 m of 3000 beside a neighbour's 1000: %v m down, scheduled %v", got.DownCPU, s.dynamics.Pods[0].Scheduled)
		}
	}
	s.rec.Target.MilliCPU = 2000
	if got := s.run(); got.DownCPU != 500 || got.Evictions != 0 || got.Harm != 0 || s.dynamics.Pods[0].Requests.MilliCPU != 2000 {
		t.Errorf("with 2000 m: %+v, request %v", got, s.dynamics.Pods[0].Requests)
	}
}

// TestFaults: a leak of 0.1 GiB a minute ends with the kill by the memory limit, and a thread that spins
// takes what its limit leaves it, after the work.
func TestFaults(t *testing.T) {
	demand := make([]cluster.Resources, 6)
	for i := range demand {
		demand[i] = amounts(1000, 1)
	}
	s := newScene(t, amounts(1000, 1), amounts(1500, 1.25), demand)
	s.node.Faults = []neighbours.Fault{{From: 1, To: 6, Leak: 0.1 * gib}, {From: 5, To: 6, Spin: 3000}}
	var memory []float64
	for i := range demand {
		got := s.run()
		memory = append(memory, float64(s.dynamics.Pods[0].Used.MemoryBytes)/gib)
		if want := map[int]int{3: 1}[i]; got.OOMs != want {
			t.Errorf("step %d: %d kills, want %d", i, got.OOMs, want)
		}
		if i == 5 {
			near(t, "CPU above the request", got.OverCPU, 500)
			near(t, "throttled CPU", got.ThrottledCPU, 0)
		}
	}
	if diff := cmp.Diff([]float64{1, 1.1, 1.2, 1.25, 1, 1}, memory, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("GiB in use (-want +got):\n%s", diff)
	}
}
