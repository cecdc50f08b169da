package rules

import (
	"context"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// krrHistory is the length of the history that KRR uses.
const krrHistory = 14 * 24 * time.Hour

// krr follows a strategy of KRR with its defaults. It applies the report each hour if it differs by more than the band
// of [pods.Banded]; applying every change would evict a pod each hour. It recommends nothing with fewer points than KRR
// needs.
func krr(strategy func(upstream.KRRConfig, *upstream.History) (upstream.Requests, error)) Rule {
	config := upstream.DefaultKRRConfig()
	var h upstream.History
	push := func(i int, u cluster.Resources) {
		h.MilliCPU[i] = append(h.MilliCPU[i], float64(u.MilliCPU))
		h.MemoryBytes[i] = append(h.MemoryBytes[i], float64(u.MemoryBytes))
	}
	return func(ctx context.Context, v *View, first bool) (pods.Recommendation, bool) {
		if first {
			h = upstream.History{MilliCPU: make([][]float64, len(v.Pods)), MemoryBytes: make([][]float64, len(v.Pods))}
		}
		for len(h.MilliCPU) < len(v.Pods) { // the pods of a live task may change
			h.MilliCPU, h.MemoryBytes = append(h.MilliCPU, nil), append(h.MemoryBytes, nil)
		}
		h.MilliCPU, h.MemoryBytes = h.MilliCPU[:len(v.Pods)], h.MemoryBytes[:len(v.Pods)]
		for i := range v.Pods {
			p := &v.Pods[i]
			switch {
			case first && v.Running == nil:
				for k, u := range v.Past {
					if k%checkEvery == 0 && ctx.Err() != nil {
						return pods.Recommendation{}, false
					}
					push(i, metrics.Scale(u, v.Shares[i]))
				}
			case p.Sampled:
				push(i, p.Used)
			}
			if !first && p.OOM {
				h.OOMLimit = max(h.OOMLimit, float64(p.Limits.MemoryBytes))
			}
			if old := len(h.MilliCPU[i]) - v.stepsIn(krrHistory); old > 0 {
				h.MilliCPU[i], h.MemoryBytes[i] = h.MilliCPU[i][old:], h.MemoryBytes[i][old:]
			}
		}
		if !first && v.Step%v.stepsIn(time.Hour) != 0 {
			return pods.Recommendation{}, false
		}
		set, err := strategy(config, &h)
		if err != nil {
			return pods.Recommendation{}, false // too few points
		}
		r := pods.Banded(float64(set.Request.MilliCPU), float64(set.Request.MemoryBytes))
		r.Limits, r.SetLimits = cluster.Resources(set.Limit), true
		return r, true
	}
}
