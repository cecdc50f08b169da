package pricing

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
)

// Observe implements [envs.Task].
func (t *Task) Observe(_ *cluster.State, obs []float32, _ []bool) {
	clear(obs)
	of, slots := t.rest, lra.MaxSlots*(len(t.ep.Placement())-t.node)
	share := float32(len(t.ep.Placement())-t.node) / float32(len(t.ep.Placement()))
	if t.ep.Online() {
		of, slots, share = t.ep.Placement().Batch(), t.src.Slots, float32(t.ep.Vacant)/float32(len(t.ep.Placement()))
	}
	if slots == 0 {
		return
	}
	for a, k := range of {
		obs[a] = float32(k) / float32(slots)
	}
	obs[lra.NumApps] = float32(of.Total()) / float32(slots)
	obs[lra.NumApps+1] = share
	if !t.ep.Online() {
		obs[lra.NumApps+2] = lra.MaxSlots / float32(slots)
		t.scale.Features(obs[features:], &t.src.scale.Base)
	} else {
		obs[lra.NumApps+2] = float32(min(max(t.ep.Value/float64(2*slots), 0), 1))
	}
}
