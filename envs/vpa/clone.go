package vpa

import (
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Clone implements [envs.Cloner], but for what a baseline has set for the next action.
func (t *Task) Clone(*rand.Rand) envs.Task {
	c := *t
	c.source = new(pcg.Source)
	*c.source = *t.source
	c.rng = rand.New(c.source)
	c.demand, c.seen = slices.Clone(t.demand), slices.Clone(t.seen)
	c.pods, c.record = slices.Clone(t.pods), slices.Clone(t.record)
	c.use, c.follow = false, nil
	for r := range t.hour {
		c.hour[r], c.all[r] = t.hour[r].clone(), t.all[r].clone()
	}
	if t.feed != nil {
		c.feed = t.feed.clone()
	}
	c.candidates, c.ops = nil, nil
	return &c
}

func (w *window) clone() window {
	c := *w
	c.ring, c.peaks = slices.Clone(w.ring), slices.Clone(w.peaks)
	return c
}

// clone shares the recommender, which does not change.
func (f *upstreamFeed) clone() *upstreamFeed {
	c, state := *f, *f.state
	c.state = &state
	c.containers, c.pods = slices.Clone(f.containers), slices.Clone(f.pods)
	return &c
}
