package envs

// A GainEstimator is a task that plays rollouts itself, by its heuristic and faster than copies of its environment do.
type GainEstimator interface {
	Task

	// EstimateGains returns by how much each of some permitted actions is better than the first, in the mean of futures
	// that the seed draws from what an agent may know. Equal pasts and seeds give equal gains. Their unit is that of the
	// gains that a network learns for the environment (package agents/advantage). The slice is valid until the next call.
	// The error is of options that permit no rollouts.
	EstimateGains(actions []int32, futures int, seed uint64) ([]float64, error)
}
