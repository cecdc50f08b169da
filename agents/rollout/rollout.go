// Package rollout stores the steps of an on-policy learner and estimates advantages.
package rollout

import "github.com/kubernasium/kubernasium/models/team"

// gaeEnvs is the number of environments whose advantages are estimated together, so that memory is read sequentially.
const gaeEnvs = 64

// estimate is Estimate for a block of environments.
func (b *Buffer) estimate(block int, gamma, lambda float64) {
	lo, hi := team.Block(block, b.N, gaeEnvs)
	var following [gaeEnvs]float64 // the advantages of the next step of the same episode
	for from := len(b.Adv) - b.N; from >= 0; from -= b.N {
		for env := lo; env < hi; env++ {
			i, f := from+env, &following[env-lo]
			next := float64(b.NextValue[i])
			if b.Terminated[i] {
				next = 0
			}
			if b.Terminated[i] || b.Truncated[i] {
				*f = 0
			}
			delta := b.Reward[i] + gamma*next - float64(b.Value[i])
			*f = delta + gamma*lambda**f
			b.Adv[i] = float32(*f)
			b.Ret[i] = b.Adv[i] + b.Value[i]
		}
	}
}

// Buffer holds T steps of N environments, in arrays of shape (T, N, …).
type Buffer struct {
	T, N                  int
	ObsSize, ActSize      int
	MaskSize              int
	Obs                   []float32
	Mask                  []bool
	Action                []float32
	LogProb               []float32
	Value, NextValue      []float32
	Reward                []float64
	Terminated, Truncated []bool
	Adv, Ret              []float32

	t int // steps recorded
}

// New returns an empty buffer.
func New(t, n, obsSize, actSize, maskSize int) *Buffer {
	f := func(k int) []float32 { return make([]float32, t*n*k) }
	return &Buffer{
		T: t, N: n, ObsSize: obsSize, ActSize: actSize, MaskSize: maskSize,
		Obs: f(obsSize), Mask: make([]bool, t*n*maskSize), Action: f(actSize),
		LogProb: f(1), Value: f(1), NextValue: f(1), Reward: make([]float64, t*n), Adv: f(1), Ret: f(1),
		Terminated: make([]bool, t*n), Truncated: make([]bool, t*n),
	}
}

// Full reports whether T steps have been recorded.
func (b *Buffer) Full() bool { return b.t == b.T }

// Step returns the number of steps recorded since the last Clear.
func (b *Buffer) Step() int { return b.t }

// Clear removes all steps.
func (b *Buffer) Clear() { b.t = 0 }

// Rows returns the range of rows of the step being recorded.
func (b *Buffer) Rows() (from, to int) { return b.t * b.N, (b.t + 1) * b.N }

// Advance ends the recording of a step.
func (b *Buffer) Advance() { b.t++ }

// Estimate fills Adv of a full buffer with the generalized advantage estimates and Ret with the λ-returns Adv+Value.
// NextValue[t,n] is the value of the observation that step t led to, before any reset. A terminated step does not
// bootstrap; a truncated one does. The workers of t share the environments.
//
// Source: Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage
// Estimation", arXiv:1506.02438, section 3; for truncation: Pardo et al., "Time Limits in
// Reinforcement Learning", arXiv:1712.00378.
func (b *Buffer) Estimate(t *team.Team, gamma, lambda float64) {
	t.Do(team.Blocks(b.N, gaeEnvs), func(_, block int) { b.estimate(block, gamma, lambda) })
}
