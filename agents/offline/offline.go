// Package offline holds the common parts of learners from recorded transitions, which play no
// environment while they learn.
package offline

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs/space"
)

var (
	// ErrNoData is returned by Update of a learner that was given no transitions.
	ErrNoData = errors.New("offline: no transitions to learn from: Record gives them")

	// ErrOnline is returned by Observe of a learner from recorded transitions.
	ErrOnline = errors.New("offline: the learner takes no further transitions than those of Record")
)

// Data are transitions to learn from. A learner draws minibatches uniformly, with replacement, so
// that its random generator alone determines them.
type Data struct {
	replay.Transitions
	obs, act, mask int // lengths of a row
}

// NewData checks transitions for a learner of algo in environments like env.
func NewData(algo string, t replay.Transitions, env agents.EnvInfo) (*Data, error) {
	d := &Data{Transitions: t, obs: env.Obs.Size(), act: env.Act.Size(), mask: space.MaskSize(env.Act)}
	if err := t.Check(algo, d.obs, env.Act); err != nil {
		return nil, err
	}
	if err := agents.CheckRewards(algo, t.Reward, 0); err != nil {
		return nil, fmt.Errorf("recorded transitions: %w", err)
	}
	return d, nil
}

// A Batch holds transitions. Arrays have a row for each.
type Batch struct {
	Obs, NextObs   []float32
	Action         []float32
	Reward         []float64
	Terminated     []bool
	Mask, NextMask []bool // all true where the data have no masks; NextMask also after a terminal state, which may permit none
}

// NewBatch returns memory for n transitions.
func NewBatch(n int, env agents.EnvInfo) *Batch {
	obs, mask := n*env.Obs.Size(), n*space.MaskSize(env.Act)
	return &Batch{
		Obs: make([]float32, obs), NextObs: make([]float32, obs), Action: make([]float32, n*env.Act.Size()), Reward: make([]float64, n),
		Terminated: make([]bool, n), Mask: make([]bool, mask), NextMask: make([]bool, mask),
	}
}

// Sample fills b with transitions drawn by rng.
func (d *Data) Sample(rng *rand.Rand, b *Batch) {
	for i := range b.Reward {
		k := rng.IntN(d.Len())
		copy(b.Obs[i*d.obs:(i+1)*d.obs], d.Obs[k*d.obs:])
		copy(b.NextObs[i*d.obs:(i+1)*d.obs], d.NextObs[k*d.obs:])
		copy(b.Action[i*d.act:(i+1)*d.act], d.Action[k*d.act:])
		b.Reward[i], b.Terminated[i] = d.Reward[k], d.Terminated[k]
		replay.CopyMask(b.Mask[i*d.mask:(i+1)*d.mask], d.Mask, k)
		next := d.NextMask
		if d.Terminated[k] {
			next = nil
		}
		replay.CopyMask(b.NextMask[i*d.mask:(i+1)*d.mask], next, k)
	}
}
