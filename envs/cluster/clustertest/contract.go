package clustertest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// small applies to c a node of 1 core and 1,000 bytes, with two devices, and three pods that
// it has room for; the last runs for ever.
func small(t *testing.T, c cluster.Cluster) {
	t.Helper()
	node := c.State().Intern(cluster.Meta{Name: "node"})
	pod := c.State().Intern(cluster.Meta{Name: "pod"})
	size := cluster.Resources{MilliCPU: 300, MemoryBytes: 300}
	apply(t, c,
		cluster.Op{Kind: cluster.AddNode, Meta: node, Resources: cluster.Resources{MilliCPU: 1000, MemoryBytes: 1000}, GPUs: 2, MilliGPU: 1000},
		cluster.Op{Kind: cluster.AddPod, Meta: pod, Resources: size, Duration: 3 * time.Second},
		cluster.Op{Kind: cluster.AddPod, Meta: pod, Resources: size, Duration: 5 * time.Second, GPUs: 1, MilliGPU: 500},
		cluster.Op{Kind: cluster.AddPod, Meta: pod, Resources: size},
	)
}

func testEmpty(t *testing.T, c cluster.Cluster) {
	want := cluster.NewState()
	if d := cluster.Diff(want, c.State()); d != "" {
		t.Fatalf("a new cluster is not empty (-want +got):\n%s", d)
	}
	reset(t, c)
	apply(t, c)
	if err := c.Advance(context.Background(), 0); err != nil {
		t.Fatalf("Advance(0) = %v, want nil", err)
	}
	if d := cluster.Diff(want, c.State()); d != "" {
		t.Fatalf("no ops changed the cluster (-want +got):\n%s", d)
	}
}

func testStopsAtFirstError(t *testing.T, c cluster.Cluster) {
	small(t, c)
	ops := []cluster.Op{
		{Kind: cluster.Bind, Pod: 0, Node: 0},
		{Kind: cluster.Bind, Pod: 0, Node: 0},
		{Kind: cluster.Bind, Pod: 2, Node: 0},
	}
	err := c.Apply(context.Background(), ops)
	var opErr *cluster.OpError
	if !errors.As(err, &opErr) || opErr.Index != 1 || opErr.Op != ops[1] || !errors.Is(err, cluster.ErrConflict) {
		t.Fatalf("Apply(%v) = %v, want an OpError of op 1 with ErrConflict", ops, err)
	}
	for pod, want := range []cluster.Phase{cluster.Running, cluster.Pending, cluster.Pending} {
		if got := c.State().Pods[pod].Phase; got != want {
			t.Errorf("phase of pod %d = %v, want %v", pod, got, want)
		}
	}
}

func testErrorChangesNothing(t *testing.T, c cluster.Cluster) {
	small(t, c)
	apply(t, c, cluster.Op{Kind: cluster.Bind, Pod: 0, Node: 0})
	before := c.State().Clone()
	for name, tc := range map[string]struct {
		op   cluster.Op
		want error
	}{
		"kind":      {cluster.Op{}, cluster.ErrInvalid},
		"meta":      {cluster.Op{Kind: cluster.AddPod, Meta: -1}, cluster.ErrNotFound},
		"name":      {cluster.Op{Kind: cluster.AddNode, Meta: before.Nodes[0].Meta}, cluster.ErrConflict},
		"node":      {cluster.Op{Kind: cluster.Bind, Pod: 1, Node: 1, Devices: 1}, cluster.ErrNotFound},
		"phase":     {cluster.Op{Kind: cluster.Evict, Pod: 1}, cluster.ErrConflict},
		"devices":   {cluster.Op{Kind: cluster.Bind, Pod: 1, Node: 0}, cluster.ErrInvalid},
		"no device": {cluster.Op{Kind: cluster.Bind, Pod: 2, Node: 0, Devices: 1}, cluster.ErrInvalid},
		"resize":    {cluster.Op{Kind: cluster.Resize, Pod: 0, Resources: cluster.Resources{MilliCPU: 1001}}, cluster.ErrInsufficient},
	} {
		if err := c.Apply(context.Background(), []cluster.Op{tc.op}); !errors.Is(err, tc.want) {
			t.Errorf("%s: Apply(%v) = %v, want %v", name, tc.op, err, tc.want)
		}
		if d := cluster.Diff(before, c.State()); d != "" {
			t.Fatalf("%s: Apply(%v) changed the state (-before +after):\n%s", name, tc.op, d)
		}
	}
}

func testAdvanceRange(t *testing.T, c cluster.Cluster) {
	small(t, c)
	apply(t, c, cluster.Op{Kind: cluster.Bind, Pod: 0, Node: 0})
	if err := c.Advance(context.Background(), time.Second); err != nil {
		t.Fatalf("Advance(1s) = %v, want nil", err)
	}
	before := c.State().Clone()
	for _, d := range []time.Duration{-1, math.MinInt64, cluster.MaxTime, math.MaxInt64} {
		if err := c.Advance(context.Background(), d); !errors.Is(err, cluster.ErrInvalid) {
			t.Errorf("Advance(%v) = %v, want ErrInvalid", d, err)
		}
		if diff := cluster.Diff(before, c.State()); diff != "" {
			t.Fatalf("Advance(%v) changed the state (-before +after):\n%s", d, diff)
		}
	}
}

// testAdvanceSplit checks that many small advances lead where one large advance leads.
func testAdvanceSplit(t *testing.T, c cluster.Cluster) {
	var states []*cluster.State
	for _, parts := range []int{1, 10} {
		reset(t, c)
		small(t, c)
		apply(t, c, cluster.Op{Kind: cluster.Bind, Pod: 0}, cluster.Op{Kind: cluster.Bind, Pod: 1, Devices: 2}, cluster.Op{Kind: cluster.Bind, Pod: 2})
		for range parts {
			if err := c.Advance(context.Background(), 10*time.Second/time.Duration(parts)); err != nil {
				t.Fatalf("Advance = %v, want nil", err)
			}
		}
		states = append(states, c.State().Clone())
	}
	if d := cluster.Diff(states[0], states[1]); d != "" {
		t.Errorf("ten advances of 1s (+) differ from one of 10s (-):\n%s", d)
	}
	if p := states[0].Pods; p[0].Ended != 3*time.Second || p[1].Ended != 5*time.Second || p[2].Phase != cluster.Running {
		t.Errorf("pods end at %v and %v, the last is %v; want 3s, 5s, Running", p[0].Ended, p[1].Ended, p[2].Phase)
	}
}

func testReset(t *testing.T, c cluster.Cluster) {
	small(t, c)
	apply(t, c, cluster.Op{Kind: cluster.Bind, Pod: 0})
	if err := c.Advance(context.Background(), time.Second); err != nil {
		t.Fatalf("Advance(1s) = %v, want nil", err)
	}
	first := c.State().Clone()
	reset(t, c)
	if d := cluster.Diff(cluster.NewState(), c.State()); d != "" {
		t.Fatalf("Reset left something (-want +got):\n%s", d)
	}
	if got, want := c.State().NumMetas(), 2; got != want {
		t.Errorf("after Reset NumMetas() = %d, want %d", got, want)
	}
	// A completion that Reset forgot to drop would end this second, longer pod 0 at 3s.
	size := cluster.Resources{MilliCPU: 300, MemoryBytes: 300}
	apply(t, c,
		cluster.Op{Kind: cluster.AddNode, Meta: first.Nodes[0].Meta, Resources: cluster.Resources{MilliCPU: 1000, MemoryBytes: 1000}},
		cluster.Op{Kind: cluster.AddPod, Meta: first.Pods[0].Meta, Resources: size, Duration: 9 * time.Second},
		cluster.Op{Kind: cluster.Bind})
	if err := c.Advance(context.Background(), 8*time.Second); err != nil {
		t.Fatalf("Advance(8s) = %v, want nil", err)
	}
	if got := c.State().Pods[0].Phase; got != cluster.Running {
		t.Errorf("phase after 8s of 9s = %v, want Running", got)
	}
}

// testDeterministic checks that equal ops give equal states.
func testDeterministic(t *testing.T, c cluster.Cluster, cfg config) {
	var states []*cluster.State
	for range 2 {
		reset(t, c)
		m := newModel()
		for _, meta := range metaPool {
			c.State().Intern(meta)
			m.metas = append(m.metas, meta)
		}
		g := &generator{rand.New(rand.NewPCG(1, 2)), m}
		for range cfg.ops {
			op := g.op()
			wantErr := m.apply(op)
			if err := c.Apply(context.Background(), []cluster.Op{op}); !errors.Is(err, wantErr) {
				t.Fatalf("Apply(%v) = %v, want %v", op, err, wantErr)
			}
			if g.one(6) {
				playAdvance(t, c, g)
			}
		}
		states = append(states, c.State().Clone())
	}
	if d := cluster.Diff(states[0], states[1]); d != "" {
		t.Errorf("equal ops gave different states (-first +second):\n%s", d)
	}
}
