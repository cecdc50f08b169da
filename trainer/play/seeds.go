package play

// Seeds of episodes. Training seeds are the user's, from 0 up. The evaluations during a training,
// which choose the best model, have others, and so have comparisons: no reported figure is selected
// on the episodes that it is measured on.
const (
	EvalSeed    = 1_000_000_000
	CompareSeed = 2_000_000_000
)
