package envs

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs/space"
)

// AutoresetMode says how a [VecEnv] starts the next episode of an environment whose episode
// has ended, as in Gymnasium 1.x.
type AutoresetMode uint8

const (
	// NextStep resets in the step after the last one: that step ignores the action and
	// returns the first observation of the new episode with reward 0.
	NextStep AutoresetMode = iota
	// SameStep resets in the last step itself, which returns the new episode's first
	// observation; the last observation of the old one is in Batch.FinalObs.
	SameStep
	// Disabled leaves it to the caller to Reset with a Mask; stepping before that is an error.
	Disabled
)

func (m AutoresetMode) String() string {
	switch m {
	case NextStep:
		return "NextStep"
	case SameStep:
		return "SameStep"
	case Disabled:
		return "Disabled"
	}
	return fmt.Sprintf("AutoresetMode(%d)", uint8(m))
}

// VecEnv steps copies of one environment together. It is not safe for concurrent use.
type VecEnv interface {
	Spec() *Spec
	NumEnvs() int

	// Spaces returns the observation and the action space of one environment.
	Spaces() (obs, act space.Space)

	// Reset starts an episode in each environment that opts.Mask selects, or in all.
	Reset(ctx context.Context, opts VecResetOptions) (*Batch, error)

	// Step carries out row i of actions in environment i. An action outside the action space
	// is an error that wraps [ErrInvalidAction], and then no environment has been stepped.
	Step(ctx context.Context, actions []float32) (*Batch, error)

	Close() error
}

// VecResetOptions are the arguments of a reset of many environments.
type VecResetOptions struct {
	Seed    *uint64        // environment i gets *Seed+i
	Seeds   []uint64       // instead of Seed: one for each environment
	Options map[string]any // for every environment that is reset
	Mask    []bool         // Gymnasium's reset_mask: the environments to reset; nil resets all
}

// Check returns an error unless o fits n environments.
func (o *VecResetOptions) Check(n int) error {
	switch {
	case o.Seeds != nil && len(o.Seeds) != n:
		return fmt.Errorf("%w: %d seeds for %d environments", ErrInvalidOption, len(o.Seeds), n)
	case o.Seeds != nil && o.Seed != nil:
		return fmt.Errorf("%w: both a seed and a list of seeds", ErrInvalidOption)
	case o.Mask != nil && len(o.Mask) != n:
		return fmt.Errorf("%w: a reset mask of length %d for %d environments", ErrInvalidOption, len(o.Mask), n)
	}
	return nil
}

// Batch holds one row for each of n environments. It belongs to the VecEnv and is overwritten
// by its next Reset or Step.
type Batch struct {
	Obs        []float32 // n × observation size
	Mask       []bool    // n × mask size: the actions permitted at Obs
	Reward     []float64 // n
	Terminated []bool    // n: the episode ended in this step, in a terminal state
	Truncated  []bool    // n: the episode ended in this step, by the time limit
	Invalid    []bool    // n: the action of this step was masked out
	Info       []float64 // n × columns of the spec: diagnostics at Obs

	// In SameStep, rows whose episode ended in this step hold its last observation, the actions
	// permitted there and its last diagnostics; other rows are stale.
	FinalObs  []float32
	FinalMask []bool
	FinalInfo []float64

	// The sum of rewards and the number of steps: of the episode if it ended in this step, else of
	// the running episode so far.
	EpisodeReturn []float64
	EpisodeLength []int64

	// With [VecOptions.Isolate], the error of each environment that failed in this step or reset, and nil for the
	// others; without it the slice is nil. The episode of a failed row ends truncated, with reward 0 and the
	// observation, mask and diagnostics from before the step. A new task takes over and continues the random stream. If
	// the environment failed at the beginning of an episode, the row holds the first observation of the next attempt.
	// An environment that fails three times without a step in between fails the whole call.
	Failed []error
}

// Done reports whether row i's episode ended in this step.
func (b *Batch) Done(i int) bool { return b.Terminated[i] || b.Truncated[i] }

// Begins reports whether row i's observation is the first of an episode.
func (b *Batch) Begins(i int) bool { return b.EpisodeLength[i] == 0 || b.FinalObs != nil && b.Done(i) }

// NewBatch returns the results of n environments with so many numbers of observation, elements of the mask and
// diagnostics each.
func NewBatch(n, obs, mask, info int, mode AutoresetMode) *Batch {
	b := &Batch{
		Obs: make([]float32, n*obs), Mask: make([]bool, n*mask), Info: make([]float64, n*info),
		Reward: make([]float64, n), Terminated: make([]bool, n), Truncated: make([]bool, n), Invalid: make([]bool, n),
		EpisodeReturn: make([]float64, n), EpisodeLength: make([]int64, n),
	}
	if mode == SameStep {
		b.FinalObs, b.FinalMask, b.FinalInfo = make([]float32, n*obs), make([]bool, n*mask), make([]float64, n*info)
	}
	return b
}
