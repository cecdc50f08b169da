// Package corrections holds the recommendation of a baseline that an agent's actions correct, and shows it to the agent.
package corrections

import (
	"context"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/actions"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/rules"
)

// Names of the baselines that actions correct, as the option encoding gives them.
const (
	Residual  = "residual"   // quantile_tuned: requests and guards
	NodeAware = "node_aware" // node_aware: requests, limits, when they change, and evictions
)

// Base is the recommendation that actions correct.
type Base struct {
	Latest pods.Recommendation
	rule   rules.Base
	aware  bool             // of encoding NodeAware
	jumps  [2]metrics.Jumps // of CPU and memory, if aware
}

// New returns the base of an encoding, or nil if its actions correct none.
func New(encoding string) *Base {
	switch encoding {
	case Residual:
		return &Base{rule: &rules.QuantileRule{Quantile: rules.TunedShared}}
	case NodeAware:
		return &Base{rule: &rules.NodeAwareRule{NodeAware: rules.DefaultNodeAware}, aware: true}
	}
	return nil
}

// Clone returns a copy that continues independently.
func (b *Base) Clone() *Base {
	c := *b
	c.rule = b.rule.Copy()
	return &c
}

// Ask updates the recommendation from the last step or, with first, from the history.
func (b *Base) Ask(ctx context.Context, v *rules.View, first bool) {
	if b.aware {
		from := len(v.Seen) - 1
		if first {
			b.jumps, from = [2]metrics.Jumps{}, 0
		}
		for _, u := range v.Seen[from:] {
			b.jumps[0].Observe(float64(u.MilliCPU))
			b.jumps[1].Observe(float64(u.MemoryBytes))
		}
	}
	if r, ok := b.rule.Recommend(ctx, v, first); ok {
		b.Latest = r
	}
}

// ActionSize returns the number of elements of an action.
func (b *Base) ActionSize() int {
	if b.aware {
		return actions.ScaledSize
	}
	return actions.SeparateSize
}

// Decode returns the recommendation that an action encodes for the k-th step that it holds, for pods like p.
func (b *Base) Decode(action []float32, k int, p *pods.Pod) pods.Recommendation {
	if !b.aware {
		return actions.Correct(&b.Latest, action)
	}
	r := actions.Scaled(&b.Latest, action)
	switch {
	case k == 0 && actions.Restarts(action):
		r.Limits.MilliCPU = 0 // the updater has to evict a pod to remove a limit; a later step restores it
	case p.Scheduled && actions.Keeps(&r, p.Requests, p.Limits, action):
		r = pods.Constant(p.Requests)
		r.Limits, r.SetLimits = p.Limits, true
	}
	return r
}

// Encode writes the action nearest to the target of r with the given limits.
func (b *Base) Encode(r *pods.Recommendation, limits cluster.Resources, action []float32) {
	if b.aware {
		actions.EncodeScaled(r, limits, &b.Latest, action)
	} else {
		actions.EncodeCorrection(r, limits, &b.Latest, action)
	}
}
