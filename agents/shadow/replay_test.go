package shadow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

func withFirst() shadow.Options { return shadow.Options{Policies: []shadow.Policy{first}} }

// TestQueueByPriority: of two pods that wait for a node, the policy's queue tries that of the higher priority
// first. As recorded, b waits from 1 to 10 h and c from 2 to 12 h; by priority, c until 10 h and b, after c's 4 h,
// until 14 h.
func TestQueueByPriority(t *testing.T) {
	s := newScript(t)
	n := s.node("n0", 4)
	low, high := s.cores(4), s.template(clustertrace.Template{MilliCPU: 4000, Priority: 5, PreemptionPolicy: "Never"})
	a := s.pod("a", low)
	s.bind(a, n)
	s.at(1)
	b := s.pod("b", low)
	s.at(2)
	c := s.pod("c", high)
	s.at(10).finish(a)
	s.bind(b, n)
	s.at(12).finish(b)
	s.bind(c, n)
	s.at(16).finish(c)
	r := run(t, s.end(20), withFirst())
	wantMetric(t, r, "pending_time", 3600*(9+10)/3.0, 3600*(13+8)/3.0)
	wantMetric(t, r, "pending_pods", (9+10)/20.0, (13+8)/20.0)
	wantMetric(t, r, "nodes_in_use", 16/20.0, 16/20.0) // b ends at 16 h
}

// TestGates: a pod waits from the removal of its last gate.
func TestGates(t *testing.T) {
	s := newScript(t)
	n := s.node("n0", 4)
	held, free := s.template(clustertrace.Template{MilliCPU: 1000, Gates: []string{"quota"}}), s.cores(1)
	p := s.pod("a", held)
	s.at(3).add(clustertrace.Event{Kind: clustertrace.UpdatePod, Pod: p, Template: free})
	s.at(5).bind(p, n)
	s.at(7).finish(p)
	r := run(t, s.end(8), withFirst())
	wantMetric(t, r, "pending_time", 2*3600, 0)
	wantMetric(t, r, "nodes_in_use", 2/8.0, 2/8.0) // as recorded from 5 to 7 h, by the policy from 3 to 5 h
}

// TestRemovedNode: the policy has both pods on the node that goes at 4 h. The one that was lost with it in the
// recording is lost; the other moves to n1 for the rest of its time.
func TestRemovedNode(t *testing.T) {
	s := newScript(t)
	n0, n1 := s.node("n0", 4), s.node("n1", 4)
	two := s.cores(2)
	a, b := s.pod("a", two), s.pod("b", two)
	s.bind(a, n0)
	s.bind(b, n1)
	s.at(4).add(clustertrace.Event{Kind: clustertrace.RemoveNode, Node: n0})
	s.at(5).deletePod(a) // which is when the garbage collector sees it
	s.at(10).finish(b)
	r := run(t, s.end(12), withFirst())
	wantMetric(t, r, "nodes_in_use", (4*2+6*1)/12.0, (4*1+6*1)/12.0)
	wantMetric(t, r, "cpu_allocated", 500/12.0, 500/12.0) // half of two nodes, then of one, until 10 h
	wantMetric(t, r, "pending_time", 0, 0)
	if p := r.Policies[0]; p.Displaced != 1 || p.Placed != 2 {
		t.Errorf("%d pods displaced, %d placed, want 1 and 2", p.Displaced, p.Placed)
	}
}

// TestDisplacedPodsWait: the last node that fits gets the pods, so that those recorded on n0 are on n2 and n1, and the
// others on n0. e waits. When n0 goes at 4 h, b and c have to wait, too, until a and x end with their recorded
// lifetimes a hundredth of an hour later. Then e, which waits longest, gets n2, b gets n1 for the 2 h that it
// has left, and c, for which 6 h are left, waits for them.
func TestDisplacedPodsWait(t *testing.T) {
	s := newScript(t)
	n0, n1, n2 := s.node("n0", 4), s.node("n1", 2), s.node("n2", 2)
	two := s.cores(2)
	a, x, b, c := s.pod("a", two), s.pod("x", two), s.pod("b", two), s.pod("c", two)
	s.bind(a, n0)
	s.bind(x, n0)
	s.bind(b, n1)
	s.bind(c, n2)
	e := s.pod("e", two)
	s.at(4).add(clustertrace.Event{Kind: clustertrace.RemoveNode, Node: n0})
	s.at(4.01).deletePod(a)
	s.deletePod(x)
	s.at(6).finish(b)
	s.bind(e, n1)
	s.at(8).finish(e)
	s.at(10).finish(c)
	r := run(t, s.end(14), shadow.Options{Policies: []shadow.Policy{last}})
	wantMetric(t, r, "pending_time", 3600*6/5.0, 3600*(4.01+0.01+2.01)/5) // each of the five pods counts once
	wantMetric(t, r, "nodes_in_use", (4*3+4*2+2*1)/14.0, (4*3+2.01*2+6*1)/14)
	if got := r.Policies[0].Displaced; got != 2 {
		t.Errorf("%d pods displaced, want 2", got)
	}
}

// TestOverfullGPUs: a DaemonSet's pod comes to the node whose GPU the policy has given away. The node is closed until the
// GPU is free again, though it has CPU left.
func TestOverfullGPUs(t *testing.T) {
	s := newScript(t)
	n0 := s.nodeOf(clustertrace.Node{Name: "n0", MilliCPU: 8000, MemoryBytes: gi, Pods: 110, GPUs: 1, MilliGPU: 1000, GPUModel: "T4"})
	n1 := s.nodeOf(clustertrace.Node{Name: "n1", MilliCPU: 8000, MemoryBytes: gi, Pods: 110, GPUs: 1, MilliGPU: 1000, GPUModel: "T4"})
	job := s.template(clustertrace.Template{MilliCPU: 1000, GPUs: 1, MilliGPU: 1000})
	agent := s.template(clustertrace.Template{MilliCPU: 1000, GPUs: 1, MilliGPU: 500, Owner: "DaemonSet/agent"})
	one := s.cores(1)
	a := s.pod("a", job)
	s.bind(a, n1)
	s.at(1).bind(s.pod("agent", agent), n0)
	s.at(2).bind(s.pod("b", one), n1)
	s.at(3).finish(a)
	s.at(4).bind(s.pod("c", one), n1)
	var chosen []string
	run(t, s.end(8), shadow.Options{Since: 7 * time.Hour, Policies: []shadow.Policy{policyOf("first", func(s *cluster.State, _ envs.Decision, fitting []int32) int32 {
		chosen = append(chosen, s.NodeName(fitting[0]))
		return fitting[0]
	})}})
	if want := []string{"n0", "n1", "n0"}; !slices.Equal(chosen, want) {
		t.Errorf("a, b and c go to %v, want %v", chosen, want)
	}
}

// TestAddedNode: a pod that waits goes to a node as soon as that is there.
func TestAddedNode(t *testing.T) {
	s := newScript(t)
	s.node("n0", 1)
	a := s.pod("a", s.cores(4))
	s.at(2)
	n1 := s.node("n1", 4)
	s.at(6).bind(a, n1)
	r := run(t, s.end(10), withFirst())
	wantMetric(t, r, "pending_time", 6*3600, 2*3600)
	wantMetric(t, r, "cpu_allocated", 4*80/10.0, 8*80/10.0)
}

// TestDeferredResize: a's third core has room on its own node in the recording, at 2 h. On the policy's node it has
// none until b ends at 6 h.
func TestDeferredResize(t *testing.T) {
	s := newScript(t)
	n0, n1 := s.node("n0", 4), s.node("n1", 4)
	two, three := s.cores(2), s.cores(3)
	a, b := s.pod("a", two), s.pod("b", two)
	s.bind(a, n0)
	s.bind(b, n1)
	s.at(2).add(clustertrace.Event{Kind: clustertrace.UpdatePod, Pod: a, Template: three})
	s.at(6).finish(b)
	s.at(8).finish(a)
	r := run(t, s.end(8), withFirst())
	wantMetric(t, r, "cpu_allocated", (2*50+4*62.5+2*37.5)/8, (6*50+2*37.5)/8.0)
	if got := r.Policies[0].Deferred; got != 1 {
		t.Errorf("%d resizes waited, want 1", got)
	}
}

// TestGiven: pods of DaemonSets and of other schedulers, and those that were bound before the recording began, are
// not the policy's to place. They go where they went, whatever it has there: then the node is full.
func TestGiven(t *testing.T) {
	s := newScript(t)
	n0, n1 := s.node("n0", 4), s.node("n1", 8)
	one := s.cores(1)
	daemon := s.template(clustertrace.Template{MilliCPU: 1000, Owner: "DaemonSet/agent"})
	other := s.template(clustertrace.Template{MilliCPU: 1000, Scheduler: "other"})
	four := s.cores(4)
	s.add(clustertrace.Event{Kind: clustertrace.AddPod, Pod: s.pods, Name: "old", Template: one, Ago: time.Hour})
	s.pods++
	s.add(clustertrace.Event{Kind: clustertrace.BindPod, Pod: 0, Node: n1, Ago: time.Hour})
	a := s.pod("a", four)
	s.bind(a, n1)
	s.at(1)
	s.bind(s.pod("d0", daemon), n0)
	s.bind(s.pod("o", other), n1)
	s.at(2)
	s.bind(s.pod("e", one), n0)
	o := withFirst()
	o.Schedulers = []string{"default-scheduler"}
	r := run(t, s.end(10), o)
	if r.Given != 3 || r.Pods != 2 {
		t.Errorf("%d given pods and %d others, want old, d0 and o, and 2", r.Given, r.Pods)
	}
	// As recorded 5 cores of 12 from the beginning, 7 from 1 h, 8 from 2 h; so by the policy, where n0 then has 5 of 4.
	cpu := 100 * (1*5 + 1*7 + 8*8) / 12.0 / 10
	wantMetric(t, r, "cpu_allocated", cpu, cpu)
	// As recorded n1 has pods of no DaemonSet, from 2 h n0 too. By the policy a is on n0, old on n1.
	wantMetric(t, r, "nodes_in_use", (2*1+8*2)/10.0, 2)
	all := run(t, s.end(10), withFirst())
	if all.Given != 2 || all.Pods != 3 {
		t.Errorf("%d given pods and %d others of all schedulers, want old and d0, and 3", all.Given, all.Pods)
	}
}

// TestUnplaced: pods by who placed them.
func TestUnplaced(t *testing.T) {
	s := newScript(t)
	n0, n1 := s.node("n0", 4), s.node("n1", 4)
	two, four, huge := s.cores(2), s.cores(4), s.cores(100)
	a, b := s.pod("a", two), s.pod("b", two)
	s.bind(a, n0)
	s.bind(b, n1)
	s.at(1)
	s.pod("huge", huge)
	c := s.pod("c", four) // only the policy has room
	s.at(3).deletePod(c)
	r := run(t, s.end(8), shadow.Options{Policies: []shadow.Policy{first, last}})
	if len(r.Unplaced) != 1 || r.Unplaced[0].Pod != "default/huge" || r.Unplaced[0].MilliCPU != 100_000 || !r.Unplaced[0].Created.Equal(start.Add(time.Hour)) {
		t.Errorf("placed by nobody: %+v, want huge alone, created at 1 h", r.Unplaced)
	}
	if r.Recorded.Placed != 2 || r.Policies[0].Placed != 3 || r.Policies[1].Placed != 3 {
		t.Errorf("placed %d, %d and %d pods, want 2, 3 and 3", r.Recorded.Placed, r.Policies[0].Placed, r.Policies[1].Placed)
	}
	wantMetric(t, r, "nodes_in_use", 2, (1*1+2*2+5*1)/8.0) // c ran until it was deleted
	wantMetric(t, r, "pending_time", 3600*(2+7)/4.0, 3600*7/4.0)

	// A policy that gives the only large node to small pods leaves the large one waiting.
	s = newScript(t)
	n0, n1 = s.node("n0", 2), s.node("n1", 4)
	two, four = s.cores(2), s.cores(4)
	a = s.pod("a", two)
	s.bind(a, n0)
	b = s.pod("b", four)
	s.bind(b, n1)
	r = run(t, s.end(8), shadow.Options{Policies: []shadow.Policy{last}})
	if only := r.Policies[0].Only; len(only) != 1 || only[0].Pod != "default/b" || len(r.Unplaced) != 0 {
		t.Errorf("not placed by the policy alone: %+v, want b", only)
	}
}

// TestClosedNodes: what keeps a pod off a node keeps the policy's off, too.
func TestClosedNodes(t *testing.T) {
	disk := func(s *script) {
		s.add(clustertrace.Event{Kind: clustertrace.AddClaim, Claim: &clustertrace.Claim{
			Namespace: "default", Name: "disk", Volume: "v",
			Nodes: []clustertrace.Term{{Fields: []clustertrace.Requirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}}}},
		}})
	}
	ports := func(all ...string) clustertrace.Template { return clustertrace.Template{HostPorts: all} }
	web := func(port string) func(s *script) {
		return func(s *script) {
			t := ports(port)
			t.Owner = "DaemonSet/web"
			s.bind(s.pod("web", s.template(t)), 0)
		}
	}
	for _, tc := range []struct {
		name     string
		n0       clustertrace.Node
		template clustertrace.Template
		before   func(s *script)
		claims   []string
		want     float64 // share of n0's CPU, of the two nodes' 8
	}{
		{name: "nothing", want: 12.5},
		{name: "cordoned", n0: clustertrace.Node{Unschedulable: true}},
		{name: "not ready", n0: clustertrace.Node{NotReady: true}},
		{name: "taint", n0: clustertrace.Node{Taints: []clustertrace.Taint{{Key: "gpu", Effect: "NoSchedule"}}}},
		{name: "selector", template: clustertrace.Template{NodeSelector: map[string]string{"disk": "ssd"}}},
		{name: "further resource", template: clustertrace.Template{Other: map[string]int64{"example.com/fpga": 2}}},
		{name: "further resource in use", template: clustertrace.Template{Other: map[string]int64{"example.com/fpga": 1}}, before: func(s *script) {
			agent := s.template(clustertrace.Template{Owner: "DaemonSet/agent", Other: map[string]int64{"example.com/fpga": 1}})
			s.bind(s.pod("agent", agent), 0)
		}},
		{name: "volume", before: disk, claims: []string{"disk"}},
		{name: "volume of another", before: disk, claims: []string{"other"}, want: 12.5},
		{name: "host port", template: ports("TCP/0.0.0.0:80"), before: web("TCP/0.0.0.0:80")},
		// HostPortInfo of kube-scheduler: no address and 0.0.0.0 are every address.
		{name: "host port of every address", template: ports("TCP/10.0.0.1:80"), before: web("TCP/:80")},
		{name: "host port of an address", template: ports("TCP/0.0.0.0:80"), before: web("TCP/fd00::1:80")},
		{name: "host port without an address", template: ports("TCP/:80"), before: web("TCP/0.0.0.0:80")},
		{name: "host port of another address", template: ports("TCP/10.0.0.1:80"), before: web("TCP/10.0.0.2:80"), want: 12.5},
		{name: "host port of another protocol", template: ports("TCP/:80"), before: web("UDP/:80"), want: 12.5},
		{name: "other host port", template: ports("TCP/:80"), before: web("TCP/:8080"), want: 12.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t)
			n0 := tc.n0
			n0.Name, n0.MilliCPU, n0.MemoryBytes, n0.Pods = "n0", 4000, gi, 110
			n0.Other = map[string]int64{"example.com/fpga": 1}
			s.nodeOf(n0)
			n1 := s.nodeOf(clustertrace.Node{
				Name: "n1", MilliCPU: 4000, MemoryBytes: gi, Pods: 110, Labels: map[string]string{"disk": "ssd"}, Other: map[string]int64{"example.com/fpga": 2},
			})
			if tc.before != nil {
				tc.before(s)
			}
			tc.template.MilliCPU = 1000
			s.add(clustertrace.Event{Kind: clustertrace.AddPod, Pod: s.pods, Name: "a", Template: s.template(tc.template), Claims: tc.claims})
			s.bind(s.pods, n1)
			s.pods++
			var chosen []string
			o := shadow.Options{Policies: []shadow.Policy{policyOf("first", func(s *cluster.State, _ envs.Decision, fitting []int32) int32 {
				chosen = append(chosen, s.NodeName(fitting[0]))
				return fitting[0]
			})}}
			run(t, s.end(8), o)
			want := "n1"
			if tc.want > 0 {
				want = "n0"
			}
			if !slices.Equal(chosen, []string{want, want}) { // as vote, and for its own cluster
				t.Errorf("chosen %v, want %s twice", chosen, want)
			}
		})
	}
}

// TestGap: time in which nothing was recorded does not count.
func TestGap(t *testing.T) {
	s := newScript(t)
	n := s.node("n0", 4)
	a := s.pod("a", s.cores(4))
	s.bind(a, n)
	s.at(2).add(clustertrace.Event{Kind: clustertrace.EndOfSegment})
	s.at(6).add(clustertrace.Event{Kind: clustertrace.Gap})
	s.finish(a)
	r := run(t, s.end(8), withFirst())
	wantMetric(t, r, "cpu_allocated", 2*100/4.0, 2*100/4.0)
}

// TestDecisionsShown: what policies see of pods, owners, racks and requests that are not stated.
func TestDecisionsShown(t *testing.T) {
	s := newScript(t)
	for i, rack := range []string{"r7", "r7", "r2"} {
		s.nodeOf(clustertrace.Node{Name: fmt.Sprint("n", i), MilliCPU: 4000, MemoryBytes: gi, Pods: 110, Labels: map[string]string{"rack": rack}})
	}
	web := s.template(clustertrace.Template{Owner: "ReplicaSet/web", ExtraMilliCPU: 100, ExtraMemoryBytes: 200})
	job := s.cores(1)
	for i, template := range []int32{web, job, web} {
		s.at(float64(i))
		s.bind(s.pod(fmt.Sprint("p", i), template), int32(i))
	}
	s.at(3)
	huge := s.pod("huge", s.cores(6)) // until there is a node for it
	s.at(5).nodeOf(clustertrace.Node{Name: "n3", MilliCPU: 8000, MemoryBytes: gi, Pods: 110})
	s.at(6).bind(huge, 3)
	var seen []envs.Decision
	run(t, s.end(8), shadow.Options{Since: 7 * time.Hour, Policies: []shadow.Policy{policyOf("first", func(s *cluster.State, d envs.Decision, fitting []int32) int32 {
		d.Pod = int32(len(s.Pods))
		seen = append(seen, d)
		return fitting[0]
	})}})
	extra := cluster.Resources{MilliCPU: 100, MemoryBytes: 200}
	racks := []int32{0, 0, 1}
	want := []envs.Decision{
		{Pod: 1, Replicas: 1, Racks: racks, PodExtra: extra},
		{Pod: 2, Replicas: 1, Racks: racks, Extra: []cluster.Resources{extra, {}, {}}},
		{Pod: 3, Replicas: 2, Racks: racks, Siblings: []int32{0}, Extra: []cluster.Resources{extra, {}, {}}, PodExtra: extra},
		{Pod: 4, Replicas: 1, Waited: 2 * time.Hour, Extra: []cluster.Resources{{MilliCPU: 200, MemoryBytes: 400}, {}, {}, {}}}, // a node has no rack
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestRunErrors(t *testing.T) {
	empty := newScript(t).end(1)
	if _, err := shadow.Run(t.Context(), empty, withFirst()); err == nil || !strings.Contains(err.Error(), "no node") {
		t.Errorf("recording without nodes: %v", err)
	}
	o := withFirst()
	o.Since = 12 * time.Hour
	if _, err := shadow.Run(t.Context(), spread(t), o); err == nil || !strings.Contains(err.Error(), "since 12h") {
		t.Errorf("since the end: %v", err)
	}
	wrong := policyOf("wrong", func(*cluster.State, envs.Decision, []int32) int32 { return 7 })
	if _, err := shadow.Run(t.Context(), spread(t), shadow.Options{Policies: []shadow.Policy{wrong}}); err == nil || !strings.Contains(err.Error(), "node 7") {
		t.Errorf("a policy that chooses node 7 of 2: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shadow.Run(ctx, spread(t), withFirst()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
