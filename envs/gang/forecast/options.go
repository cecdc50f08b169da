package forecast

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang"
)

// Options are the options of k8s/GangForecast-v0, with the defaults of [DefaultOptions].
type Options struct {
	gang.Options  `opt:",squash"`
	Lambda        float64 `opt:"lambda" valid:"0.5,2" doc:"factor per superstep by which the planner distrusts a predicted duration"`
	PenaltyFactor float64 `opt:"penalty_factor" valid:"0.01,100" doc:"penalty that the planner plans with, as a multiple of the true one"`
	Correction    float64 `opt:"correction" valid:"1e-9,1e9" doc:"change of a forecast, in workload sizes, that an action of 1 makes"`
}

// DefaultOptions returns the defaults.
func DefaultOptions() Options {
	return Options{Options: gang.DefaultOptions(), Lambda: 1, PenaltyFactor: 5. / 3, Correction: 10}
}

// maker makes tasks of the same options, which share their instances.
type maker struct {
	opts     Options
	dynamics func() *gang.Task
}

func newMaker(o Options) (m maker, err error) {
	if o.Dynamics == gang.DynamicsCompatible {
		return m, fmt.Errorf("%w: dynamics %s has no history to correct forecasts by; play k8s/GangWindow-v0", envs.ErrInvalidOption, o.Dynamics)
	}
	if err := envs.CheckOptions(&o); err != nil {
		return m, err
	}
	m.opts = o
	m.dynamics, err = gang.Open(o.Options)
	return m, err
}
