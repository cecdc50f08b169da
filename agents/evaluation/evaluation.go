// Package evaluation plays policies on given episodes.
package evaluation

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
)

// Result holds a policy's results, one entry for each episode in the order of the seeds.
type Result struct {
	Returns []float64
	Lengths []int64
	Info    [][]float64 // the diagnostics of each episode's last step, by column of the spec
}

// Column returns the values of column i of Info.
func (r *Result) Column(i int) []float64 {
	values := make([]float64, len(r.Info))
	for k, row := range r.Info {
		values[k] = row[i]
	}
	return values
}

// Seeds returns n seeds from first on.
func Seeds(first uint64, n int) []uint64 {
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}

// Play lets policy play one episode in each environment of v from the given seeds, one for each.
// The autoreset mode of v must be SameStep. Environments whose episodes end before others play on
// in episodes that do not count. Equal seeds give different policies equal episodes, so that
// results can be compared in pairs.
func Play(ctx context.Context, v envs.VecEnv, policy agents.Policy, seeds []uint64) (*Result, error) {
	n := v.NumEnvs()
	if len(seeds) != n {
		return nil, fmt.Errorf("evaluation: %d seeds for %d environments", len(seeds), n)
	}
	b, err := v.Reset(ctx, envs.VecResetOptions{Seeds: seeds})
	if err != nil {
		return nil, err
	}
	return play(ctx, v, policy, b)
}

// Episodes are started episodes, which several policies play from there.
type Episodes struct {
	v     *envs.Vec
	seeds []uint64
	saved *envs.Saved // nil: Play resets to the seeds
}

// Begin starts the episodes of the seeds, one in each environment of v, and saves the environments with the results
// that baselines cache. If environments cannot be copied, it saves only the seeds.
func Begin(ctx context.Context, v *envs.Vec, seeds []uint64) (*Episodes, error) {
	e := &Episodes{v: v, seeds: seeds}
	if v.CanClone() != nil {
		return e, nil
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seeds: seeds}); err != nil {
		return nil, err
	}
	v.CacheBaselines()
	var err error
	e.saved, err = v.Save(ctx)
	return e, err
}

// Play returns what the function Play returns for these seeds.
func (e *Episodes) Play(ctx context.Context, policy agents.Policy) (*Result, error) {
	if e.saved == nil {
		return Play(ctx, e.v, policy, e.seeds)
	}
	b, err := e.v.Load(e.saved)
	if err != nil {
		return nil, err
	}
	return play(ctx, e.v, policy, b)
}

// play plays the episodes whose first batch is b.
func play(ctx context.Context, v envs.VecEnv, policy agents.Policy, b *envs.Batch) (*Result, error) {
	if b.FinalObs == nil {
		return nil, errors.New("evaluation: the environments do not reset in the mode SameStep")
	}
	n := v.NumEnvs()
	r := &Result{Returns: make([]float64, n), Lengths: make([]int64, n), Info: make([][]float64, n)}
	_, act := v.Spaces()
	actions := make([]float32, n*act.Size())
	columns := len(b.Info) / n
	for left := n; left > 0; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := policy.Act(b, actions); err != nil {
			return nil, err
		}
		var err error
		if b, err = v.Step(ctx, actions); err != nil {
			return nil, err
		}
		for i := range n {
			if b.Done(i) && r.Info[i] == nil {
				r.Returns[i], r.Lengths[i] = b.EpisodeReturn[i], b.EpisodeLength[i]
				r.Info[i] = append([]float64{}, b.FinalInfo[i*columns:(i+1)*columns]...)
				left--
			}
		}
	}
	return r, nil
}
