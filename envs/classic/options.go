package classic

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs"
)

// CartPoleOptions are the options of classic/CartPole-v1.
type CartPoleOptions struct {
	SuttonBartoReward bool `opt:"sutton_barto_reward" doc:"reward 0 for each step and -1 for the one that terminates, as Sutton and Barto have it, in place of 1 for each step"`
	InfiniteBounds    bool `opt:"infinite_bounds" doc:"bounds of the velocities: infinite, as Gymnasium has them since 1.0, in place of the largest float32, as it had them before"`
}

// defaultBounds are those of the uniform law of the initial state's elements.
var defaultBounds = resetBounds{Low: -0.05, High: 0.05}

// resetBounds are the options of a reset.
type resetBounds struct {
	Low  float64 `opt:"low" doc:"lower bound of each element of the initial state"`
	High float64 `opt:"high" doc:"upper bound of each element of the initial state"`
}

// ResetOptions implements [envs.ResetOptioner]: "low" and "high" bound the initial state of
// the next episode only.
func (p *CartPole) ResetOptions(opts map[string]any) error {
	b := defaultBounds
	if err := envs.DecodeOptions(opts, &b); err != nil {
		return err
	}
	if !(b.Low <= b.High) || math.IsInf(b.High-b.Low, 0) {
		return fmt.Errorf("%w: low %v and high %v, want finite numbers and low <= high", envs.ErrInvalidOption, b.Low, b.High)
	}
	p.bounds = b
	return nil
}
