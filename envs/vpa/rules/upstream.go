package rules

import (
	"context"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// Upstream recommends as the Kubernetes vertical pod autoscaler does with its defaults.
func Upstream() Rule {
	f := NewFeed()
	return func(ctx context.Context, v *View, first bool) (pods.Recommendation, bool) {
		f.Observe(ctx, v, first)
		return f.Recommend(), true
	}
}

// goldilocks sets requests and limits once a day, like an operator who reads its report.
func goldilocks(from func(upstream.Bounds) upstream.Requests) Rule {
	f := NewFeed()
	return func(ctx context.Context, v *View, first bool) (pods.Recommendation, bool) {
		f.Observe(ctx, v, first)
		if !first && v.Step%v.stepsIn(24*time.Hour) != 0 {
			return pods.Recommendation{}, false
		}
		f.state.Recommend(&f.rec)
		return asSet(from(f.rec.Bounds)), true
	}
}

// asSet returns the recommendation of given requests and limits.
func asSet(r upstream.Requests) pods.Recommendation {
	set := pods.Constant(cluster.Resources(r.Request))
	set.Limits, set.SetLimits = cluster.Resources(r.Limit), true
	return set
}
