package client

import "github.com/kubernasium/kubernasium/envs"

// rows is the state of the environments that the client derives itself, so that it is not sent.
type rows struct {
	seeded  []bool // reset at least once
	running []bool // may be stepped
	ended   []bool // the episode has ended; in SameStep, the next has started
	ret     []float64
	length  []int64 // of the running episode
}

func newRows(n int) rows {
	return rows{make([]bool, n), make([]bool, n), make([]bool, n), make([]float64, n), make([]int64, n)}
}

// firstSeeds returns seed 0 for environments that were never reset, as in [envs.Env], and none for
// the others; nil if no environment needs one.
func (r *rows) firstSeeds() any {
	var seeds []any
	for i, s := range r.seeded {
		if !s {
			if seeds == nil {
				seeds = make([]any, len(r.seeded))
			}
			seeds[i] = uint64(0)
		}
	}
	if seeds == nil {
		return nil
	}
	return seeds
}

// stepped updates r after a step. It sums rewards in the server's order, so that returns are equal
// bit for bit.
func (r *rows) stepped(b *envs.Batch, mode envs.AutoresetMode) {
	for i := range r.ret {
		b.EpisodeReturn[i], b.EpisodeLength[i] = r.step(i, b.Reward[i], b.Done(i), mode)
	}
}

// step updates row i after a step, and returns the sums of its episode.
func (r *rows) step(i int, reward float64, done bool, mode envs.AutoresetMode) (ret float64, length int64) {
	switch {
	case r.ended[i] && mode == envs.NextStep: // the step that resets
		r.ret[i], r.length[i] = 0, 0
	default:
		if r.ended[i] {
			r.ret[i], r.length[i] = 0, 0
		}
		r.ret[i] += reward
		r.length[i]++
	}
	r.ended[i] = done
	r.running[i] = !done || mode == envs.SameStep
	return r.ret[i], r.length[i]
}

// rolledOut updates r after a rollout, whose reply has the returns and lengths.
func (r *rows) rolledOut(b *envs.Batch, mode envs.AutoresetMode) {
	copy(r.ret, b.EpisodeReturn)
	copy(r.length, b.EpisodeLength)
	for i := range r.ended {
		r.ended[i] = b.Done(i)
		r.running[i] = !r.ended[i] || mode == envs.SameStep
	}
}

// reset updates r after a reset of the rows that mask selects.
func (r *rows) reset(b *envs.Batch, mask []bool) {
	for i := range r.ret {
		if mask != nil && !mask[i] {
			continue
		}
		r.seeded[i], r.running[i], r.ended[i] = true, true, false
		r.ret[i], r.length[i] = 0, 0
		b.EpisodeReturn[i], b.EpisodeLength[i] = 0, 0
	}
}

// invalidate updates r after a request that was executed partly.
func (r *rows) invalidate() {
	clear(r.running)
	clear(r.ended)
}

// keep clears the flags of b for a reset that selects no rows.
func (r *rows) keep(b *envs.Batch) {
	clear(b.Reward)
	clear(b.Terminated)
	clear(b.Truncated)
	clear(b.Invalid)
}
