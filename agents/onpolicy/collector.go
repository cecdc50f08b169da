package onpolicy

import (
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents/distribution"
	"github.com/kubernasium/kubernasium/agents/rollout"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models/team"
)

// A Collector lets an Actor act and records rollouts of a fixed number of steps of each
// environment. Once Buf is full, the learner learns and clears Buf.
type Collector struct {
	Buf *rollout.Buffer
	Seq *Sequences // of a recurrent network, else nil

	actor  *Actor
	final  []float32 // normalized final observations
	reward []float64 // normalized rewards

	// The current step, for several workers. Sampling an element of a discrete action consumes one word.
	out, actions []float32
	mask         []bool
	words        []uint64
	dists        []distribution.Distribution
	rows         []*distribution.Rows
	drawn        []*drawn // one for each worker
	samplePart   func(worker, block int)
}

// Sequences cut a rollout into pieces of Steps steps with the state before each, from which a recurrent network
// evaluates them again.
type Sequences struct {
	Steps  int
	Begins []bool      // (T, N): the step is the first of an episode
	State  [][]float32 // of each piece of all environments, (N, StateSize)
}

// NewCollector returns a Collector of rollouts of nSteps steps of each environment. A recurrent
// network evaluates them again in sequences of seqSteps.
func NewCollector(a *Actor, nSteps, seqSteps int) (*Collector, error) {
	n, size := a.Env.NumEnvs, a.Env.Obs.Size()
	c := &Collector{
		Buf: rollout.New(nSteps, n, size, a.Env.Act.Size(), space.MaskSize(a.Env.Act)), actor: a,
		final: make([]float32, n*size), reward: make([]float64, n), words: make([]uint64, n*a.Env.Act.Size()),
	}
	c.samplePart = c.sampleBlock
	if a.Memory.Recurrent() {
		if seqSteps < 1 || nSteps%seqSteps != 0 {
			return nil, fmt.Errorf("%s: rollouts of %d steps in sequences of %d", a.Algo, nSteps, seqSteps)
		}
		c.Seq = &Sequences{Steps: seqSteps, Begins: make([]bool, nSteps*n), State: make([][]float32, nSteps/seqSteps)}
		for i := range c.Seq.State {
			c.Seq.State[i] = make([]float32, n*a.spec.StateSize())
		}
	}
	return c, nil
}

// Act implements [agents.Policy]: it samples from the masked policy and records the step.
//
// Source of the masks: Huang and Ontañón, "A Closer Look at Invalid Action Masking in Policy
// Gradient Algorithms", arXiv:2006.14171.
func (c *Collector) Act(b *envs.Batch, actions []float32) error {
	a, buf := c.actor, c.Buf
	from, to := buf.Rows()
	a.Norm.Start(b.Obs)
	obs := buf.Obs[from*buf.ObsSize : to*buf.ObsSize]
	a.Norm.Obs(obs, b.Obs)
	if q := c.Seq; q != nil {
		for i := range buf.N {
			q.Begins[from+i] = b.Begins(i)
		}
		if t := buf.Step(); t%q.Steps == 0 {
			copy(q.State[t/q.Steps], a.Memory.state)
		}
	}
	defer a.Team.Rest() // the environments step next
	out, err := a.Memory.Step(obs, b)
	if err != nil {
		return fmt.Errorf("%s: act: %w", a.Algo, err)
	}
	copy(buf.Mask[from*buf.MaskSize:to*buf.MaskSize], b.Mask)
	c.out, c.mask, c.actions, c.rows = out, b.Mask, actions, a.Rows()
	least := minSampled
	if a.Team.Stays() {
		least = minSampledAwake
	}
	if a.Team.Workers() == 1 || buf.N < least || a.box != nil {
		for lo := 0; lo < buf.N; lo += BlockRows {
			c.sample(0, a.Dist, a.Rng, lo, min(lo+BlockRows, buf.N))
		}
		return nil
	}
	for i := range c.words {
		c.words[i] = a.src.Uint64()
	}
	for c.dists = a.Dists(); len(c.drawn) < len(c.dists); {
		d := &drawn{}
		d.rng = rand.New(d)
		c.drawn = append(c.drawn, d)
	}
	a.Team.Do(team.Blocks(buf.N, sampleRows), c.samplePart)
	return nil
}

const (
	sampleRows = 16  // rows whose actions a worker samples together
	minSampled = 256 // fewer rows are sampled by one worker

	minSampledAwake = 32 // the same, if the workers stay awake
)

// sampleBlock samples a block of actions from the words drawn for them.
func (c *Collector) sampleBlock(worker, block int) {
	lo, hi := team.Block(block, c.Buf.N, sampleRows)
	d := c.drawn[worker]
	d.words = c.words[lo*c.Buf.ActSize : hi*c.Buf.ActSize]
	c.sample(worker, c.dists[worker], d.rng, lo, hi)
}

// drawn is a [rand.Source] that returns words drawn before.
type drawn struct {
	words []uint64
	rng   *rand.Rand // reads them
}

// Uint64 implements [rand.Source].
func (d *drawn) Uint64() uint64 {
	x := d.words[0]
	d.words = d.words[1:]
	return x
}

// sample samples and records the actions of at most BlockRows rows, lo to hi, of the step.
func (c *Collector) sample(worker int, d distribution.Distribution, rng *rand.Rand, lo, hi int) {
	a, buf, k := c.actor, c.Buf, c.actor.spec.Outputs()
	from, _ := buf.Rows()
	if q := c.rows[worker]; q != nil && q.Condition(c.out[lo*k:hi*k], hi-lo, c.mask[lo*buf.MaskSize:hi*buf.MaskSize]) {
		for i := lo; i < hi; i++ {
			action := q.Sample(i-lo, rng.Float64())
			c.actions[i], buf.Action[from+i] = float32(action), float32(action)
			buf.LogProb[from+i] = float32(q.LogProb(i-lo, action))
			buf.Value[from+i] = c.out[i*k+a.Value]
		}
		return
	}
	for i := lo; i < hi; i++ {
		row, r := c.out[i*k:(i+1)*k], from+i
		d.Condition(row, c.mask[i*buf.MaskSize:(i+1)*buf.MaskSize])
		sampled := buf.Action[r*buf.ActSize : (r+1)*buf.ActSize]
		d.Sample(rng, sampled)
		buf.LogProb[r] = float32(d.LogProb(sampled))
		buf.Value[r] = row[a.Value]
		played := c.actions[i*buf.ActSize : (i+1)*buf.ActSize]
		copy(played, sampled)
		a.Clip(played)
	}
}

// Observe records the rewards, the ends of episodes and the values that bootstrap them.
func (c *Collector) Observe(next *envs.Batch) error {
	a, buf := c.actor, c.Buf
	if err := a.CheckRewards(next.Reward); err != nil {
		return err
	}
	from, to := buf.Rows()
	copy(c.reward, next.Reward)
	a.Norm.Seen(next.Obs, c.reward, next.Terminated, next.Truncated)
	copy(buf.Reward[from:to], c.reward)
	copy(buf.Terminated[from:to], next.Terminated)
	copy(buf.Truncated[from:to], next.Truncated)
	if err := c.bootstrap(next, from); err != nil {
		return err
	}
	a.Advance(buf.N)
	buf.Advance()
	if buf.Full() {
		return c.valueOfNext(next.Obs, to-buf.N)
	}
	return nil
}

// bootstrap sets next values. For the step whose rows begin at from, it sets truncated rows to the
// value of the final observation. For the step before, it sets all other rows to the values of the
// next observations, which Act has just computed.
//
// Source: Pardo et al., "Time Limits in Reinforcement Learning", arXiv:1712.00378, section 3.
func (c *Collector) bootstrap(next *envs.Batch, from int) error {
	a, buf, any := c.actor, c.Buf, false
	for i := range buf.N {
		any = any || (next.Truncated[i] && !next.Terminated[i])
	}
	if from > 0 { // this step's values are the next values of the step before
		for i := range buf.N {
			if prev := from - buf.N + i; !buf.Terminated[prev] && !buf.Truncated[prev] {
				buf.NextValue[prev] = buf.Value[from+i]
			}
		}
	}
	if !any {
		return nil
	}
	a.Norm.Obs(c.final, next.FinalObs)
	out, err := a.Memory.Peek(c.final, buf.N)
	if err != nil {
		return fmt.Errorf("%s: value of final observations: %w", a.Algo, err)
	}
	for i := range buf.N {
		if next.Truncated[i] && !next.Terminated[i] {
			buf.NextValue[from+i] = out[i*a.spec.Outputs()+a.Value]
		}
	}
	return nil
}

// valueOfNext sets the values that follow the last step of the rollout.
func (c *Collector) valueOfNext(obs []float32, from int) error {
	a, buf := c.actor, c.Buf
	a.Norm.Obs(c.final, obs)
	out, err := a.Memory.Peek(c.final, buf.N)
	if err != nil {
		return fmt.Errorf("%s: value of the last observations: %w", a.Algo, err)
	}
	for i := range buf.N {
		if !buf.Terminated[from+i] && !buf.Truncated[from+i] {
			buf.NextValue[from+i] = out[i*a.spec.Outputs()+a.Value]
		}
	}
	return nil
}

// Row returns the action and the mask of row r of the rollout.
func (c *Collector) Row(r int) (action []float32, mask []bool) {
	b := c.Buf
	return b.Action[r*b.ActSize : (r+1)*b.ActSize], b.Mask[r*b.MaskSize : (r+1)*b.MaskSize]
}

// Save is Actor.Save. It is an error in the middle of a rollout.
func (c *Collector) Save(w io.Writer) error {
	if c.Buf.Step() != 0 {
		return fmt.Errorf("%s: save %d steps into a rollout, want before its first step", c.actor.Algo, c.Buf.Step())
	}
	return c.actor.Save(w)
}

// Load is Actor.Load, and clears the rollout.
func (c *Collector) Load(r io.Reader) error {
	if err := c.actor.Load(r); err != nil {
		return err
	}
	c.Buf.Clear()
	return nil
}
