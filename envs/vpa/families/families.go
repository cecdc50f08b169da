// Package families compares learned policies of vertical pod autoscaling with a recommender, by type of workload:
// policies should cost less at no higher risk of OOM kills.
package families

import (
	"fmt"

	"gonum.org/v1/gonum/stat/distuv"
)

// Figures are means over the episodes of a policy.
type Figures struct {
	Cost      float64 `json:"cost"`
	Slack     float64 `json:"slack_pct"`
	Throttled float64 `json:"throttled_pct"`
	OOMs      float64 `json:"ooms"`
	Evictions float64 `json:"evictions"`
}

// Plays are the episodes of a policy.
type Plays struct {
	Figures
	Costs []float64 // of each episode
}

// NewPlays returns the plays of a policy from its costs, their mean, and the means of the environment's metrics. A
// missing metric is an error.
func NewPlays(costs []float64, mean float64, metrics map[string]float64) (Plays, error) {
	p := Plays{Costs: costs}
	p.Cost = mean
	for name, to := range map[string]*float64{"slack_pct": &p.Slack, "throttled_pct": &p.Throttled, "ooms": &p.OOMs, "evictions": &p.Evictions} {
		v, ok := metrics[name]
		if !ok {
			return p, fmt.Errorf("no metric %s, want an environment of vertical pod autoscaling", name)
		}
		*to = v
	}
	return p, nil
}

func (f *Figures) add(o *Figures, weight float64) {
	f.Cost += weight * o.Cost
	f.Slack += weight * o.Slack
	f.Throttled += weight * o.Throttled
	f.OOMs += weight * o.OOMs
	f.Evictions += weight * o.Evictions
}

// Mean returns the means over the policies, which must have played the same episodes.
func Mean(policies []Plays) Plays {
	m := Plays{Costs: make([]float64, len(policies[0].Costs))}
	n := float64(len(policies))
	for i := range policies {
		m.add(&policies[i].Figures, 1/n)
		for k, v := range policies[i].Costs {
			m.Costs[k] += v / n
		}
	}
	return m
}

// Kills returns the OOM kills in all episodes.
func (p *Plays) Kills() float64 { return float64(len(p.Costs)) * p.OOMs }

// KillsUpper returns the upper end of the exact 95 % interval of the OOM kills in an episode.
func (p *Plays) KillsUpper() float64 { return poissonUpper(p.Kills()) / float64(len(p.Costs)) }

// poissonUpper returns the upper end of the exact 95 % interval of a Poisson distribution's mean after k observed
// events.
//
// Source: F. Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28, 1936.
func poissonUpper(k float64) float64 {
	return distuv.ChiSquared{K: 2*k + 2}.Quantile(0.975) / 2
}
