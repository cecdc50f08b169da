// Package clustertest tests any [cluster.Cluster] against the contract of the interface: with scripts whose outcomes
// were worked by hand, with random ops that it compares with a naive model, and with general properties.
package clustertest

import (
	"context"
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Option changes how [Run] tests.
type Option func(*config)

type config struct {
	episodes, ops int
}

// Episodes sets the number of random episodes; the default is 300. With -short, Run plays a tenth of them.
func Episodes(n int) Option { return func(c *config) { c.episodes = n } }

// Ops sets the number of random ops of an episode; the default is 80.
func Ops(n int) Option { return func(c *config) { c.ops = n } }

// Run tests the clusters that newCluster returns. Each must be empty and at time zero. Run calls
// newCluster in each subtest, closes the cluster at the subtest's end, and makes a second one only
// after it has closed the first.
func Run(t *testing.T, newCluster func(t *testing.T) cluster.Cluster, opts ...Option) {
	t.Helper()
	cfg := config{episodes: 300, ops: 80}
	for _, o := range opts {
		o(&cfg)
	}
	if testing.Short() {
		cfg.episodes = (cfg.episodes + 9) / 10
	}
	with := func(name string, f func(t *testing.T, c cluster.Cluster)) {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			defer func() {
				if err := c.Close(); err != nil {
					t.Errorf("Close() = %v, want nil", err)
				}
			}()
			f(t, c)
		})
	}
	for _, s := range scripts() {
		with("Script/"+s.name, s.play)
	}
	with("Random", func(t *testing.T, c cluster.Cluster) { testRandom(t, c, cfg) })
	with("Empty", testEmpty)
	with("StopsAtFirstError", testStopsAtFirstError)
	with("ErrorChangesNothing", testErrorChangesNothing)
	with("AdvanceRange", testAdvanceRange)
	with("AdvanceSplit", testAdvanceSplit)
	with("Reset", testReset)
	with("Deterministic", func(t *testing.T, c cluster.Cluster) { testDeterministic(t, c, cfg) })
}

// reset resets c or ends the test.
func reset(t *testing.T, c cluster.Cluster) {
	t.Helper()
	if err := c.Reset(context.Background()); err != nil {
		t.Fatalf("Reset() = %v, want nil", err)
	}
}

// apply applies legal ops or ends the test.
func apply(t *testing.T, c cluster.Cluster, ops ...cluster.Op) {
	t.Helper()
	if err := c.Apply(context.Background(), ops); err != nil {
		t.Fatalf("Apply(%v) = %v, want nil", ops, err)
	}
}
