package kwok

import (
	"fmt"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// nodesOps adds n nodes.
func nodesOps(s *cluster.State, n int) []cluster.Op {
	var ops []cluster.Op
	for i := range n {
		ops = append(ops, cluster.Op{
			Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: fmt.Sprintf("node-%d", i)}),
			Resources: cluster.Resources{MilliCPU: 64000, MemoryBytes: 1 << 38},
		})
	}
	return ops
}

func mustApply(b *testing.B, c *Cluster, ops []cluster.Op) {
	b.Helper()
	if err := c.Apply(ctx, ops); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPlacement places pods one at a time: create, bind, Running seen.
func BenchmarkPlacement(b *testing.B) {
	c := open(b)
	defer c.Close()
	s := c.State()
	mustApply(b, c, nodesOps(s, 10))
	web := s.Intern(cluster.Meta{Name: "web"})
	i := int32(0)
	for b.Loop() {
		mustApply(b, c, []cluster.Op{{Kind: cluster.AddPod, Meta: web}})
		mustApply(b, c, []cluster.Op{{Kind: cluster.Bind, Pod: i, Node: i % 10}})
		i++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "placements/s")
}

// BenchmarkBulk creates and binds 1000 pods on 100 nodes at once, and deletes them by Reset.
func BenchmarkBulk(b *testing.B) {
	c := open(b)
	defer c.Close()
	s := c.State()
	web := s.Intern(cluster.Meta{Name: "web"})
	var placing, resetting time.Duration
	for b.Loop() {
		mustApply(b, c, nodesOps(s, 100))
		var ops []cluster.Op
		for i := range int32(1000) {
			ops = append(ops, cluster.Op{Kind: cluster.AddPod, Meta: web}, cluster.Op{Kind: cluster.Bind, Pod: i, Node: i % 100})
		}
		begin := time.Now()
		mustApply(b, c, ops)
		placing += time.Since(begin)
		begin = time.Now()
		if err := c.Reset(ctx); err != nil {
			b.Fatal(err)
		}
		resetting += time.Since(begin)
	}
	b.ReportMetric(1000*float64(b.N)/placing.Seconds(), "pods/s")
	b.ReportMetric(resetting.Seconds()/float64(b.N), "s/reset")
}

// BenchmarkNodes registers 1000 nodes and waits until they are ready.
func BenchmarkNodes(b *testing.B) {
	c := open(b)
	defer c.Close()
	var registering time.Duration
	for b.Loop() {
		begin := time.Now()
		mustApply(b, c, nodesOps(c.State(), 1000))
		registering += time.Since(begin)
		if err := c.Reset(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(registering.Seconds()/float64(b.N), "s/1000-nodes")
}
