// Package replay stores transitions for off-policy learning and samples them, uniformly or by
// priority, with n-step returns.
//
// Each environment has a ring of slots. A slot holds one observation with its action mask and, once
// the action is known, the action and its results. The next observation is in the next slot, so
// each is stored once. Where an episode is truncated, a slot in between holds the final observation
// with its mask. The newest slot of a ring is open: its action is not known yet.
package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

// Config configures a [Buffer] and its sampling.
type Config struct {
	Size              int // transitions of all environments together; a truncated one counts twice
	NumEnvs           int
	ObsSize, MaskSize int
	NSteps            int     // rewards in a return, at least 1
	Gamma             float64 // discount, in [0, 1]
	Prioritized       bool
	Alpha             float64 // exponent of the priorities, at least 0: 0 is uniform
	Eps               float64 // added to the size of a TD error for its priority, above 0
}

// The kinds of slots.
const (
	kindOpen       uint8 = iota // the newest observation, or a slot not in use
	kindStep                    // a transition after which the episode continued
	kindTerminated              // a transition into a terminal state
	kindTruncated               // a truncated transition; its final observation is in the next slot
	kindFinal                   // a final observation, no transition
)

// Buffer is a replay buffer. Add and Sample allocate nothing. It is not safe for concurrent use.
type Buffer struct {
	cfg  Config
	ring int // slots of each environment

	obs    []float32 // of all slots; those of an environment are adjacent
	mask   []bool
	action []float32
	reward []float32
	kind   []uint8
	head   []int // the open slot of each environment
	size   []int // used slots before the open one, of each environment

	transitions int

	tree    sumTree // if Prioritized; priorities of transitions to the power of Alpha
	highest float64 // greatest priority so far, before the power
}

// New returns an empty buffer. It panics if cfg has room for less than one transition per
// environment or a number out of its range.
func New(cfg Config) *Buffer {
	if cfg.NumEnvs < 1 || cfg.Size < cfg.NumEnvs || cfg.ObsSize < 1 || cfg.MaskSize < 0 || cfg.NSteps < 1 ||
		!(cfg.Gamma >= 0 && cfg.Gamma <= 1) || cfg.Prioritized && !(cfg.Alpha >= 0 && cfg.Eps > 0) {
		panic(fmt.Sprintf("replay: configuration out of range: %+v", cfg))
	}
	ring := cfg.slots()
	n := ring * cfg.NumEnvs
	b := &Buffer{
		cfg: cfg, ring: ring,
		obs: make([]float32, n*cfg.ObsSize), mask: make([]bool, n*cfg.MaskSize),
		action: make([]float32, n), reward: make([]float32, n), kind: make([]uint8, n),
		head: make([]int, cfg.NumEnvs), size: make([]int, cfg.NumEnvs),
		highest: 1,
	}
	if cfg.Prioritized {
		b.tree = newSumTree(n)
	}
	return b
}

// slots returns the slots of an environment: one more than its transitions, for the open slot, and
// enough for a truncated transition.
func (c Config) slots() int { return max(c.Size/c.NumEnvs+1, 3) }

// Bytes returns the memory that a buffer of this configuration takes.
func (c Config) Bytes() int64 {
	slots := int64(c.slots()) * int64(c.NumEnvs)
	size := slots * int64(4*c.ObsSize+c.MaskSize+4+4+1) // observation, mask, action, reward and kind
	if c.Prioritized {
		size += 8 * 4 * slots // the tree, whose leaves are a power of two
	}
	return size
}

// Empty returns an empty buffer of the configuration of b.
func (b *Buffer) Empty() *Buffer { return New(b.cfg) }

// Bytes returns the memory that the buffer takes.
func (b *Buffer) Bytes() int64 { return b.cfg.Bytes() }

// Room returns how many transitions of one environment fit; a truncated one counts twice.
func (b *Buffer) Room() int { return b.ring - 1 }

// Len returns the number of transitions that can be sampled.
func (b *Buffer) Len() int { return b.transitions }

// Add records one step of each environment: actions were taken at obs under mask, and next is the
// result, from environments that reset in the mode [envs.SameStep]. If obs is not the result of the
// step before, the caller has reset the environment, and Add truncates the recorded episode there.
func (b *Buffer) Add(obs []float32, mask []bool, actions []float32, next *envs.Batch) {
	n, m := b.cfg.ObsSize, b.cfg.MaskSize
	for env := range b.cfg.NumEnvs {
		o, k := obs[env*n:(env+1)*n], mask[env*m:(env+1)*m]
		s := b.slot(env, b.head[env])
		if prev := b.slot(env, b.back(b.head[env])); b.size[env] > 0 && !slices.Equal(b.obsAt(s), o) {
			if b.kind[prev] == kindStep {
				b.kind[prev] = kindTruncated
				b.kind[s] = kindFinal
				s = b.advance(env)
			}
		}
		copy(b.obsAt(s), o)
		copy(b.maskAt(s), k)
		b.action[s], b.reward[s] = actions[env], float32(next.Reward[env])
		b.transitions++
		switch {
		case next.Terminated[env]:
			b.kind[s] = kindTerminated
		case next.Truncated[env]:
			b.kind[s] = kindTruncated
		default:
			b.kind[s] = kindStep
		}
		if b.cfg.Prioritized {
			b.tree.set(s, math.Pow(b.highest, b.cfg.Alpha))
		}
		if b.kind[s] == kindTruncated {
			final := b.advance(env)
			b.kind[final] = kindFinal
			copy(b.obsAt(final), next.FinalObs[env*n:(env+1)*n])
			copy(b.maskAt(final), next.FinalMask[env*m:(env+1)*m])
		}
		open := b.advance(env)
		copy(b.obsAt(open), next.Obs[env*n:(env+1)*n])
		copy(b.maskAt(open), next.Mask[env*m:(env+1)*m])
	}
}

// advance opens the next slot of the ring, discards its contents and returns it.
func (b *Buffer) advance(env int) int {
	b.head[env] = (b.head[env] + 1) % b.ring
	s := b.slot(env, b.head[env])
	if b.size[env] < b.ring-1 {
		b.size[env]++
	}
	if isTransition(b.kind[s]) {
		b.transitions--
		if b.cfg.Prioritized {
			b.tree.set(s, 0)
		}
	}
	b.kind[s] = kindOpen
	return s
}

func isTransition(kind uint8) bool { return kind != kindOpen && kind != kindFinal }

func (b *Buffer) slot(env, i int) int { return env*b.ring + i }

func (b *Buffer) back(i int) int { return (i + b.ring - 1) % b.ring }

func (b *Buffer) obsAt(slot int) []float32 { return b.obs[slot*b.cfg.ObsSize:][:b.cfg.ObsSize] }

func (b *Buffer) maskAt(slot int) []bool { return b.mask[slot*b.cfg.MaskSize:][:b.cfg.MaskSize] }

// Batch holds sampled transitions, one in each row. The target of a row's action value is Return +
// Discount·V(NextObs), where V considers only actions that NextMask permits.
type Batch struct {
	Obs      []float32
	Mask     []bool // the actions permitted at Obs
	Action   []float32
	Return   []float32 // sum of up to NSteps discounted rewards
	Discount []float32 // of the value of NextObs; 0 after a terminal state
	NextObs  []float32
	NextMask []bool
	Weight   []float64 // of importance sampling, at most 1; 1 if sampling is uniform

	slot []int
}

// NewBatch returns a batch for n transitions.
func (b *Buffer) NewBatch(n int) *Batch {
	return &Batch{
		Obs: make([]float32, n*b.cfg.ObsSize), Mask: make([]bool, n*b.cfg.MaskSize), Action: make([]float32, n),
		Return: make([]float32, n), Discount: make([]float32, n),
		NextObs: make([]float32, n*b.cfg.ObsSize), NextMask: make([]bool, n*b.cfg.MaskSize),
		Weight: make([]float64, n), slot: make([]int, n),
	}
}

// Sample fills out with transitions, drawn with replacement. If the buffer is prioritized,
// transition i is drawn with probability P(i) = p_i^α / Σ p_j^α, one from each of len equal
// parts of the cumulative sum, and weighs (N·P(i))^-beta over the greatest weight of the batch.
// Sample panics if Len is 0.
//
// Source: Schaul et al., "Prioritized Experience Replay", arXiv:1511.05952, section 3.3 and
// algorithm 1.
func (b *Buffer) Sample(rng *rand.Rand, beta float64, out *Batch) {
	if b.Len() == 0 {
		panic("replay: sample of an empty buffer")
	}
	greatest := 0.0
	for i := range out.slot {
		if b.cfg.Prioritized {
			out.slot[i] = b.drawPriority(rng, i, len(out.slot))
			p := b.tree.at(out.slot[i]) / b.tree.total()
			out.Weight[i] = math.Pow(float64(b.Len())*p, -beta)
		} else {
			out.slot[i], out.Weight[i] = b.drawUniform(rng), 1
		}
		greatest = max(greatest, out.Weight[i])
		b.gather(i, out)
	}
	for i := range out.Weight {
		out.Weight[i] /= greatest
	}
}

// drawUniform returns a transition's slot, all with the same probability. It draws again if a slot
// is unused or holds no transition.
func (b *Buffer) drawUniform(rng *rand.Rand) int {
	longest := slices.Max(b.size)
	for {
		env, age := rng.IntN(b.cfg.NumEnvs), 1+rng.IntN(longest)
		if age > b.size[env] {
			continue
		}
		if s := b.slot(env, (b.head[env]-age+b.ring)%b.ring); isTransition(b.kind[s]) {
			return s
		}
	}
}

// drawPriority returns a slot from part i of n of the cumulative sum.
func (b *Buffer) drawPriority(rng *rand.Rand, i, n int) int {
	return b.tree.find((float64(i) + rng.Float64()) / float64(n) * b.tree.total())
}

// gather fills row i of out from its slot and those after it. The return ends after NSteps rewards,
// with the episode, or with the newest step.
func (b *Buffer) gather(i int, out *Batch) {
	n, m := b.cfg.ObsSize, b.cfg.MaskSize
	first := out.slot[i]
	env := first / b.ring
	s, sum, discount := first, 0.0, 1.0
	for range b.cfg.NSteps {
		if !isTransition(b.kind[s]) {
			break
		}
		sum += discount * float64(b.reward[s])
		discount *= b.cfg.Gamma
		if b.kind[s] == kindTerminated {
			discount = 0
			break
		}
		last := b.kind[s] != kindStep
		s = b.slot(env, (s-env*b.ring+1)%b.ring)
		if last {
			break
		}
	}
	copy(out.Obs[i*n:(i+1)*n], b.obsAt(first))
	copy(out.Mask[i*m:(i+1)*m], b.maskAt(first))
	copy(out.NextObs[i*n:(i+1)*n], b.obsAt(s))
	copy(out.NextMask[i*m:(i+1)*m], b.maskAt(s))
	out.Action[i], out.Return[i], out.Discount[i] = b.action[first], float32(sum), float32(discount)
}

// SetPriorities gives the transitions of a batch that Sample filled the priorities |td|+Eps of
// their errors. It does nothing if the buffer is not prioritized.
func (b *Buffer) SetPriorities(batch *Batch, td []float64) {
	if !b.cfg.Prioritized {
		return
	}
	for i, s := range batch.slot {
		p := math.Abs(td[i]) + b.cfg.Eps
		b.highest = max(b.highest, p)
		b.tree.set(s, math.Pow(p, b.cfg.Alpha))
	}
}
