//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok"
)

// Sizes and repetitions of the measurements.
const (
	bulkPods   = 1000
	bulkNodes  = 100
	manyNodes  = 1000
	placements = 1000
	repeats    = 3
	mega       = 1e6
)

// startSeconds returns the median start time of a control plane, by the caller's clock.
func startSeconds(ctx context.Context, flags []string) (float64, error) {
	var all []float64
	for range repeats {
		begin := time.Now()
		p, err := startPlane(ctx, flags)
		if err != nil {
			return 0, err
		}
		all = append(all, time.Since(begin).Seconds())
		if err := p.Stop(); err != nil {
			return 0, err
		}
	}
	slices.Sort(all)
	return all[repeats/2], nil
}

// speed measures memory, nodes, and pods one at a time and in bulk.
func (b *bench) speed(ctx context.Context, p *plane) error {
	ready, err := p.residentBytes()
	if err != nil {
		return err
	}
	b.atMost("resident memory when ready", "%.0f MB", ready/mega, 700)
	c, err := kwok.Open(p.options())
	if err != nil {
		return err
	}
	for _, measure := range []func(context.Context, *plane, *kwok.Cluster) error{b.oneByOne, b.bulk, b.nodes} {
		if err := measure(ctx, p, c); err != nil {
			return err
		}
		if err := c.Reset(ctx); err != nil {
			return err
		}
	}
	return c.Close()
}

// oneByOne places pods one after another: it creates and binds each, and waits until it runs.
func (b *bench) oneByOne(ctx context.Context, p *plane, c *kwok.Cluster) error {
	s := c.State()
	if err := c.Apply(ctx, nodeOps(s, 10)); err != nil {
		return err
	}
	web := s.Intern(cluster.Meta{Name: "web"})
	t := p.time()
	for i := range int32(placements) {
		for _, op := range []cluster.Op{{Kind: cluster.AddPod, Meta: web}, {Kind: cluster.Bind, Pod: i, Node: i % 10}} {
			if err := c.Apply(ctx, []cluster.Op{op}); err != nil {
				return err
			}
		}
	}
	seconds, err := t.stop()
	if err != nil {
		return err
	}
	b.atLeast(fmt.Sprintf("placements one at a time, of %d: create, bind, Running seen", placements), "%.0f/s", placements/seconds, 200).spent(t)
	return nil
}

// bulk places many pods at once, and deletes them by a reset.
func (b *bench) bulk(ctx context.Context, p *plane, c *kwok.Cluster) error {
	var placing, resetting stopwatch
	var resident float64
	for range repeats {
		if err := c.Reset(ctx); err != nil {
			return err
		}
		if err := c.Apply(ctx, nodeOps(c.State(), bulkNodes)); err != nil {
			return err
		}
		ops := podOps(c.State())
		t := p.time()
		if err := c.Apply(ctx, ops); err != nil {
			return err
		}
		if _, err := t.stop(); err != nil {
			return err
		}
		placing.add(t)
		r, err := p.residentBytes()
		if err != nil {
			return err
		}
		resident = max(resident, r)
		t = p.time()
		if err := c.Reset(ctx); err != nil {
			return err
		}
		if _, err := t.stop(); err != nil {
			return err
		}
		resetting.add(t)
	}
	b.atLeast(fmt.Sprintf("pods in bulk: %d on %d nodes, mean of %d", bulkPods, bulkNodes, repeats), "%.0f/s", bulkPods*repeats/placing.wall, 400).spent(placing)
	b.atMost("reset of these pods and nodes, mean", "%.2f s", resetting.wall/repeats, 2).spent(resetting)
	b.atMost(fmt.Sprintf("resident memory with %d pods, the most", bulkPods), "%.0f MB", resident/mega, 1300)
	return nil
}

// nodes registers many nodes and waits until they are ready.
func (b *bench) nodes(ctx context.Context, p *plane, c *kwok.Cluster) error {
	t := p.time()
	if err := c.Apply(ctx, nodeOps(c.State(), manyNodes)); err != nil {
		return err
	}
	seconds, err := t.stop()
	if err != nil {
		return err
	}
	b.atMost(fmt.Sprintf("%d nodes registered and ready", manyNodes), "%.2f s", seconds, 5).spent(t)
	return nil
}

func nodeOps(s *cluster.State, n int) []cluster.Op {
	ops := make([]cluster.Op, n)
	for i := range ops {
		ops[i] = cluster.Op{
			Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: fmt.Sprintf("node-%d", i)}),
			Resources: cluster.Resources{MilliCPU: 64000, MemoryBytes: 1 << 38},
		}
	}
	return ops
}

// podOps creates and binds bulkPods pods on bulkNodes nodes.
func podOps(s *cluster.State) []cluster.Op {
	web := s.Intern(cluster.Meta{Name: "web"})
	var ops []cluster.Op
	for i := range int32(bulkPods) {
		ops = append(ops, cluster.Op{Kind: cluster.AddPod, Meta: web}, cluster.Op{Kind: cluster.Bind, Pod: i, Node: i % bulkNodes})
	}
	return ops
}

// A round of the soak.
type round struct {
	pods     int     // number of pods so far
	resident float64 // bytes, with the round's pods
	live     float64 // bytes of the heap in use after the reset and a garbage collection
	database float64 // bytes of etcd's database
	folder   float64 // bytes of the data folder: database, log and snapshots
	seconds  float64 // of the round
}

// minRounds is the minimum number of rounds of the soak. The API server compacts etcd every minute, so that a
// soak of minutes shows what it retains.
const minRounds = 12

// growth limits the ratio of the last third of the rounds to the middle third.
const growth = 1.25

// soak plays rounds of pods and resets in one control plane, and measures what the control plane retains.
func (b *bench) soak(ctx context.Context, p *plane) ([]round, error) {
	c, err := kwok.Open(p.options())
	if err != nil {
		return nil, err
	}
	profiled := make(chan error, 1)
	if b.profile != "" {
		go func() { profiled <- p.saveProfile(ctx, b.profile) }()
	} else {
		profiled <- nil
	}
	var rounds []round
	for begin := time.Now(); len(rounds) < minRounds || time.Since(begin) < b.soaking; {
		r, err := soakRound(ctx, p, c)
		if err != nil {
			return nil, err
		}
		r.pods = (len(rounds) + 1) * bulkPods
		rounds = append(rounds, r)
		fmt.Fprintf(os.Stderr, "soak: %d pods, %.0f s\n", r.pods, time.Since(begin).Seconds())
	}
	pods := rounds[len(rounds)-1].pods
	for _, kept := range []struct {
		what  string
		bytes func(round) float64
	}{
		{"resident memory", func(r round) float64 { return r.resident }},
		{"live heap", func(r round) float64 { return r.live }},
		{"etcd's database", func(r round) float64 { return r.database }},
	} {
		middle, last := most(rounds[len(rounds)/3:2*len(rounds)/3], kept.bytes), most(rounds[2*len(rounds)/3:], kept.bytes)
		b.atMost(fmt.Sprintf("soak of %d pods: %s in the last third of the rounds to that in the middle one, the most in each", pods, kept.what),
			"%.2f", last/middle, growth)
	}
	b.atMost("resident memory in the soak, the most", "%.0f MB", most(rounds, func(r round) float64 { return r.resident })/mega, 1300)
	if err := <-profiled; err != nil {
		return nil, err
	}
	return rounds, c.Close()
}

// soakRound places pods, resets, and returns the measurements.
func soakRound(ctx context.Context, p *plane, c *kwok.Cluster) (r round, err error) {
	begin := time.Now()
	if err := c.Apply(ctx, nodeOps(c.State(), bulkNodes)); err != nil {
		return r, err
	}
	if err := c.Apply(ctx, podOps(c.State())); err != nil {
		return r, err
	}
	if r.resident, err = p.residentBytes(); err != nil {
		return r, err
	}
	if err := c.Reset(ctx); err != nil {
		return r, err
	}
	r.seconds = time.Since(begin).Seconds()
	if r.live, r.database, err = p.live(ctx); err != nil {
		return r, err
	}
	r.folder, err = p.folderBytes()
	return r, err
}

func most(rounds []round, bytes func(round) float64) float64 {
	m := 0.0
	for _, r := range rounds {
		m = max(m, bytes(r))
	}
	return m
}

// printRounds writes a table of about ten rounds.
func printRounds(w io.Writer, rounds []round) {
	if len(rounds) == 0 {
		return
	}
	fmt.Fprintln(w, "\n| pods so far | resident MB, with 1,000 pods | live heap MB, after the reset | etcd's database MB | data folder MB | s |\n|--:|--:|--:|--:|--:|--:|")
	every := int(math.Ceil(float64(len(rounds)) / 10))
	for i, r := range rounds {
		if i == 0 || (i+1)%every == 0 || i == len(rounds)-1 {
			fmt.Fprintf(w, "| %d | %.0f | %.0f | %.0f | %.0f | %.1f |\n", r.pods, r.resident/mega, r.live/mega, r.database/mega, r.folder/mega, r.seconds)
		}
	}
}
