package gpu

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

var _ envs.GainEstimator = (*Task)(nil)

// EstimateGains implements [envs.GainEstimator] for time-free dynamics without option defer. Gains are in GPUs allocated at
// load_end, in futures that WeightedFGD plays, as those of RolloutWeightedFGD are.
func (t *Task) EstimateGains(actions []int32, futures int, seed uint64) (gains []float64, err error) {
	switch {
	case !t.canRollOut():
		return nil, fmt.Errorf("gpu: gains of nodes: want dynamics %s without option defer", DynamicsTimeFree)
	case t.current < 0: // no action matters
		return make([]float64, len(actions)), nil
	}
	if t.estimator == nil {
		if t.estimator, err = t.rollouts(gpushare.DefaultRollouts); err != nil {
			return nil, err
		}
	}
	return t.estimator.Gains(t.class(t.current), actions, futures, rand.New(pcg.New(seed))), nil
}

// canRollOut reports whether the options permit rollouts by WeightedFGD.
func (t *Task) canRollOut() bool { return !t.Timed() && !t.opts.Defer }

// rollouts returns rollouts from the task's state, by default until load_end.
func (t *Task) rollouts(c gpushare.RolloutConfig) (*gpushare.Rollouts, error) {
	c.Until = cmp.Or(c.Until, t.opts.LoadEnd)
	past := func() ([]int32, int64) { return t.in.Past(t.next), t.arrived }
	return gpushare.NewRollouts(&t.inventory, t.in.Outlook.Reserve, t.src.Catalogue, c, past)
}
