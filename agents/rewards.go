package agents

import "fmt"

// CheckRewards reports the first reward of a batch that is not finite, for the learner algo
// after the given timesteps.
func CheckRewards(algo string, reward []float64, timesteps int) error {
	for i, r := range reward {
		if r-r != 0 {
			return fmt.Errorf("%s: reward %v of environment %d at timestep %d", algo, r, i, timesteps+i)
		}
	}
	return nil
}
