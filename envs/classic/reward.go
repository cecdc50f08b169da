package classic

// reward returns the reward of a step: 1, or by Sutton and Barto 0, and -1 for the last.
func (p *CartPole) reward(terminated bool) float64 {
	switch {
	case !p.opts.SuttonBartoReward:
		return 1
	case terminated:
		return -1
	}
	return 0
}
