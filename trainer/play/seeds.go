package play

// Seeds of episodes. Training seeds are the user's, from 0 up; those of the evaluations during
// a training, which choose the best model, and those of comparisons are others, so that no
// reported figure was selected on the episodes that it is measured on.
const (
	EvalSeed    = 1_000_000_000
	CompareSeed = 2_000_000_000
)
