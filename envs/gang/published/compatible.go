package published

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// Compatible is the environment of Kube_Gang_Scheduling (E. Wang, 2021) without its state. An agent decides at each
// step whether to keep the configuration, action 0, or to change to Instance.Config(t, action). Unlike in a sound
// environment, observations can leave their declared box [0, 1].
type Compatible struct {
	Actions       int     // number of actions: the longest window and one more; default 4
	Columns       int     // predicted supersteps in an observation; default 6
	Low, High     float64 // durations in seconds that map to 0 and 1; default 75 and 150
	DefaultReward float64 // seconds added to each step's reward; default 0
	Penalty       float64 // seconds that a reconfiguration costs, also in the first step; default 15
	First         int     // step of the trace that an episode begins at; default 200
	Steps         int     // steps of an episode; default 400
}

// Validate returns an error if an instance lacks something that an episode needs: the table for its windows and
// columns, and a step after the last, which is observed but not executed.
func (c *Compatible) Validate(in *planner.Instance) error {
	switch {
	case c.Actions < 1 || c.Actions-1 > in.Windows():
		return fmt.Errorf("gang: %d actions, want 1 to %d for an instance with %d windows", c.Actions, in.Windows()+1, in.Windows())
	case c.Columns < 1 || c.Columns > in.Columns():
		return fmt.Errorf("gang: %d columns, want 1 to the instance's %d", c.Columns, in.Columns())
	case !(c.High > c.Low):
		return fmt.Errorf("gang: High %v, want more than Low %v", c.High, c.Low)
	}
	ep := planner.Episode{First: c.First, Steps: c.Steps, Penalty: c.Penalty}
	if err := ep.Validate(in.Trace()); err != nil {
		return err
	}
	if c.First+c.Steps >= in.Trace().Steps {
		return fmt.Errorf("gang: episode of %d steps from %d, want one that ends before the trace's %d", c.Steps, c.First, in.Trace().Steps)
	}
	return nil
}

// ObserveCompatible writes to obs, row-major of shape (Actions, Columns), the observation
// at step t with levels in force. Row a holds the predicted durations of supersteps t, t+1,
// … if action a is taken now and its configuration stays, mapped so that Low is 0 and High
// is 1, without clipping.
func ObserveCompatible[F float32 | float64](c *Compatible, in *planner.Instance, t int, levels []uint16, obs []F) {
	n, planned := in.Trace().Tasks, in.Planned(t)
	span := c.High - c.Low
	for h := range c.Columns {
		d, _ := in.Model().Superstep(planned[h*n:(h+1)*n], levels)
		obs[h] = F((d - c.Low) / span)
	}
	for a := 1; a < c.Actions; a++ {
		row := obs[a*c.Columns : (a+1)*c.Columns]
		for h, d := range in.Predicted(t, a)[:c.Columns] {
			row[h] = F((d - c.Low) / span)
		}
	}
}

// Step applies an action, 0 ≤ action < Actions, at step t to levels and executes the step.
// It returns the step's true duration in seconds and the reward (High + DefaultReward −
// penalty − duration) / (High − Low).
func (c *Compatible) Step(in *planner.Instance, t int, levels []uint16, action int) (duration, reward float64) {
	reward = c.DefaultReward
	if action != 0 {
		copy(levels, in.Config(t, action))
		reward -= c.Penalty
	}
	duration, _ = in.Execute(t, levels)
	reward -= duration
	return duration, (reward + c.High) / (c.High - c.Low)
}
