package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/clustertest"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
)

func TestCluster(t *testing.T) {
	clustertest.Run(t, func(*testing.T) cluster.Cluster { return sim.New() })
}

// opsOf returns ops that add the given numbers of nodes of 64 cores and of pods of 100m that
// run for duration.
func opsOf(c *sim.Cluster, nodes, pods int, duration time.Duration) []cluster.Op {
	var ops []cluster.Op
	for i := range nodes {
		ops = append(ops, cluster.Op{Kind: cluster.AddNode, Meta: c.State().Intern(cluster.Meta{Name: fmt.Sprint("n", i)}),
			Resources: cluster.Resources{MilliCPU: 64000, MemoryBytes: 1 << 38}})
	}
	for range pods {
		ops = append(ops, cluster.Op{Kind: cluster.AddPod, Meta: c.State().Intern(cluster.Meta{Name: "p"}),
			Resources: cluster.Resources{MilliCPU: 100, MemoryBytes: 1 << 20}, Duration: duration})
	}
	return ops
}

// add applies opsOf to c.
func add(t testing.TB, c *sim.Cluster, nodes, pods int, duration time.Duration) {
	t.Helper()
	must(t, c.Apply(context.Background(), opsOf(c, nodes, pods, duration)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestClone(t *testing.T) {
	ctx := context.Background()
	c := sim.New()
	add(t, c, 1, 2, 5*time.Second)
	must(t, c.Apply(ctx, []cluster.Op{{Kind: cluster.Bind, Pod: 0}}))
	must(t, c.Advance(ctx, time.Second))

	reused := sim.New()
	add(t, reused, 2, 3, time.Second)
	must(t, reused.Apply(ctx, []cluster.Op{{Kind: cluster.Bind, Pod: 2}}))
	c.CloneInto(reused)
	c.CloneInto(c)
	for name, clone := range map[string]*sim.Cluster{"Clone": c.Clone(), "CloneInto": reused} {
		// The clone has the completion at 5s, and binds another that c does not have.
		must(t, clone.Apply(ctx, []cluster.Op{{Kind: cluster.Bind, Pod: 1}}))
		must(t, clone.Advance(ctx, 10*time.Second))
		for pod, want := range []time.Duration{5 * time.Second, 6 * time.Second} {
			if p := clone.State().Pods[pod]; p.Phase != cluster.Succeeded || p.Ended != want {
				t.Errorf("%s: pod %d is %v, ended %v, want Succeeded, %v", name, pod, p.Phase, p.Ended, want)
			}
		}
		if p := c.State().Pods; p[0].Phase != cluster.Running || p[1].Phase != cluster.Pending || c.State().Now != time.Second {
			t.Errorf("%s: a change to the clone changed the original:\n%v", name, c.State())
		}
	}
}

// episode binds every pod, advances by a nanosecond after each, and resets.
func episode(t testing.TB, c *sim.Cluster, ops []cluster.Op, one []cluster.Op) {
	ctx := context.Background()
	must(t, c.Reset(ctx))
	must(t, c.Apply(ctx, ops))
	s := c.State()
	for p := range s.Pods {
		one[0] = cluster.Op{Kind: cluster.Bind, Pod: int32(p), Node: int32(p % len(s.Nodes))}
		if err := c.Apply(ctx, one); err != nil {
			t.Fatal(err)
		}
		if err := c.Advance(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClusterAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not counted under -race; run without it")
	}
	c := sim.New()
	ops, one := opsOf(c, 81, 500, 50), make([]cluster.Op, 1)
	episode(t, c, ops, one)
	dst := c.Clone()
	if n := testing.AllocsPerRun(10, func() {
		episode(t, c, ops, one)
		c.CloneInto(dst)
	}); n != 0 {
		t.Errorf("allocations of an episode = %v, want 0", n)
	}
}

// BenchmarkBind is a Bind and an Advance that completes an earlier pod, with 50 running on 81
// nodes.
func BenchmarkBind(b *testing.B) {
	ctx := context.Background()
	c := sim.New()
	const pods = 10000
	ops, one := opsOf(c, 81, pods, 50), make([]cluster.Op, 1)
	b.ReportAllocs()
	p := pods
	for b.Loop() {
		if p == pods {
			b.StopTimer()
			must(b, c.Reset(ctx))
			must(b, c.Apply(ctx, ops))
			p = 0
			b.StartTimer()
		}
		one[0] = cluster.Op{Kind: cluster.Bind, Pod: int32(p), Node: int32(p % 81)}
		if err := c.Apply(ctx, one); err != nil {
			b.Fatal(err)
		}
		if err := c.Advance(ctx, 1); err != nil {
			b.Fatal(err)
		}
		p++
	}
}

// BenchmarkEpisode is a Reset, 81 nodes and 1,000 pods that are added, bound and completed.
func BenchmarkEpisode(b *testing.B) {
	c := sim.New()
	ops, one := opsOf(c, 81, 1000, 50), make([]cluster.Op, 1)
	b.ReportAllocs()
	for b.Loop() {
		episode(b, c, ops, one)
	}
}

// TestOf: in the copy a running pod completes at its own time, and one that has completed does so no more. The original
// state does not change.
func TestOf(t *testing.T) {
	c := sim.New()
	ops := append(opsOf(c, 1, 2, 3*time.Second), cluster.Op{Kind: cluster.Bind, Pod: 0})
	if err := c.Apply(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
	if err := c.Advance(t.Context(), 2*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), []cluster.Op{{Kind: cluster.Bind, Pod: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		after       time.Duration // since the copy, at 2 s
		first, next cluster.Phase
	}{{999 * time.Millisecond, cluster.Running, cluster.Running}, {time.Second, cluster.Succeeded, cluster.Running}, {3 * time.Second, cluster.Succeeded, cluster.Succeeded}} {
		of := sim.Of(c.State())
		if err := of.Advance(t.Context(), tc.after); err != nil {
			t.Fatal(err)
		}
		if p := of.State().Pods; p[0].Phase != tc.first || p[1].Phase != tc.next {
			t.Errorf("after %v the pods are %v and %v, want %v and %v", tc.after, p[0].Phase, p[1].Phase, tc.first, tc.next)
		}
	}
	if p := c.State().Pods; p[0].Phase != cluster.Running || c.State().Now != 2*time.Second {
		t.Errorf("the original's first pod is %v at %v, want it to run at 2 s", p[0].Phase, c.State().Now)
	}
	if err := c.Advance(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if err := sim.Of(c.State()).Advance(t.Context(), 5*time.Second); err != nil { // pod 0 has completed
		t.Error(err)
	}
}
