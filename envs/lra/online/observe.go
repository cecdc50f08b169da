package online

import (
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
	"github.com/kubernasium/kubernasium/envs/lra/world"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Observe implements [envs.Task].
func (t *Task) Observe(_ *cluster.State, obs []float32, mask []bool) {
	x := t.ep.Placement()
	copy(mask, t.ep.Mask())
	if !slices.Contains(mask, true) { // after the last container
		space.PermitAll(mask)
	}
	largest := t.src.index.Largest(x)
	for i, s := range x {
		t.observeNode(obs[i*nodeFeatures:][:nodeFeatures], s, &largest)
	}
	t.observeCluster(obs[len(x)*nodeFeatures:], &largest)
}

// observeNode writes the features of a node in state s.
func (t *Task) observeNode(row []float32, s lra.State, largest *prices.Largest) {
	for a, k := range s.Counts() {
		row[a] = float32(k) / lra.MaxSlots
	}
	row[lra.NumApps] = float32(lra.MaxSlots-s.Total()) / lra.MaxSlots
	before, after := t.src.index.Of(s), t.src.index.Of(s)
	row[indexFeature] = 0
	if app := t.ep.App(); app != world.NoApp {
		row[indexFeature] = before[app]
		if next := s.Add(app); next != lra.NoState {
			after = t.src.index.Of(next)
		}
	}
	for a, v := range before {
		others := largest.Others(a, v)
		row[beforeFeatures+a], row[afterFeatures+a] = v-others, after[a]-others
	}
}

// observeCluster writes the features of the cluster.
func (t *Task) observeCluster(dst []float32, largest *prices.Largest) {
	clear(dst[:lra.NumApps])
	if app := t.ep.App(); app != world.NoApp {
		dst[app] = 1
	}
	for a, k := range t.ep.Placement().Batch() {
		dst[lra.NumApps+a] = float32(k) / float32(t.src.Slots)
	}
	dst[2*lra.NumApps] = float32(t.ep.Used) / float32(t.src.Slots)
	for k, rank := range ranks {
		for a := range largest {
			dst[largestFeatures+k*lra.NumApps+a] = largest[a][rank-1]
		}
	}
}
