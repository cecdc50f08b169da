package world

// A Reward pays the earnings of steps: after each step, or as a sum at the end of the episode.
type Reward struct {
	terminal bool
	earned   float64
}

// NewReward returns the Reward of an episode.
func (o *Options) NewReward() Reward { return Reward{terminal: o.Reward == RewardTerminal} }

// Pay returns the reward of a step that earned the given amount.
func (r *Reward) Pay(earned float64, end bool) float64 {
	if !r.terminal {
		return earned
	}
	r.earned += earned
	if !end {
		return 0
	}
	return r.earned
}
