package envcheck

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Planned is a task of 3 steps with actions 0, 1 and 2, for tests of baselines that plan. A step pays its action, or
// Plan if a baseline has set it.
type Planned struct {
	Plan *float64 // for the next step, set by a baseline; nil if none
	Step int      // steps taken in the episode; the observation
}

// Spaces implements [envs.Task].
func (*Planned) Spaces() (obs, act space.Space) { return space.NewBox(0, 3, 1), space.Discrete{N: 3} }

// Begin implements [envs.Task].
func (p *Planned) Begin(context.Context, cluster.Cluster, *rand.Rand) error { p.Step = 0; return nil }

// Apply implements [envs.Task].
func (p *Planned) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	out := envs.Outcome{Reward: float64(action[0])}
	if p.Plan != nil {
		out.Reward, p.Plan = *p.Plan, nil
	}
	p.Step++
	out.Terminated = p.Step == 3
	return out, nil
}

// Observe implements [envs.Task].
func (p *Planned) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0] = float32(p.Step)
	space.PermitAll(mask)
}

// Clone implements [envs.Cloner].
func (p *Planned) Clone(*rand.Rand) envs.Task {
	return new(*p)
}

// TakePlan implements [envs.Planner].
func (p *Planned) TakePlan() envs.Plan {
	plan := p.Plan
	if p.Plan = nil; plan == nil {
		return nil
	}
	return plan
}

// LeavePlan implements [envs.Planner].
func (p *Planned) LeavePlan(plan envs.Plan) { p.Plan = plan.(*float64) }
