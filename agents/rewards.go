package agents

import "fmt"

// CheckRewards returns an error for the first reward of a batch that is not finite. It names algo
// and the timesteps.
func CheckRewards(algo string, reward []float64, timesteps int) error {
	for i, r := range reward {
		if r-r != 0 {
			return fmt.Errorf("%s: reward %v of environment %d at timestep %d", algo, r, i, timesteps+i)
		}
	}
	return nil
}
