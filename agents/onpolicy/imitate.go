package onpolicy

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/distribution"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/agents/rollout"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

// Constants of imitation: learning rate and weight of the entropy bonus are the defaults of the
// library imitation (Gleave et al., arXiv:2211.11972, imitation/algorithms/bc.py), the weight of
// the value loss is that of Stable-Baselines3.
const (
	imitateRate      = 1e-3
	imitateBatch     = 64
	imitateEntropy   = 1e-3
	imitateValueCoef = 0.5
)

// Demonstrated holds the steps of a teacher, normalized.
type Demonstrated struct {
	*rollout.Buffer
	Begins []bool // (T, N): the step is the first of an episode
	Ends   []End  // steps whose returns are bootstrapped
}

// End is a step after which the time limit or the end of the demonstration cut an episode off. Obs
// is the observation after it.
type End struct {
	Row int
	Obs []float32
}

// Watch lets the teacher play and records its steps. Observations are normalized by the
// statistics of all of them, rewards by those up to their step.
func (a *Actor) Watch(ctx context.Context, d imitation.Demonstration) (*Demonstrated, error) {
	buf := rollout.New(d.StepsPerEnv(), a.Env.NumEnvs, a.Env.Obs.Size(), a.Env.Act.Size(), space.MaskSize(a.Env.Act))
	rec := &Demonstrated{Buffer: buf, Begins: make([]bool, buf.T*buf.N)}
	reward := make([]float64, buf.N)
	act := func(b *envs.Batch, actions []float32) {
		a.Norm.Start(b.Obs)
		from, to := buf.Rows()
		copy(buf.Obs[from*buf.ObsSize:], b.Obs)
		copy(buf.Mask[from*buf.MaskSize:to*buf.MaskSize], b.Mask)
		copy(buf.Action[from*buf.ActSize:], actions)
		for i := range buf.N {
			rec.Begins[from+i] = b.Begins(i)
		}
	}
	err := d.Play(ctx, act, func(next *envs.Batch) error {
		if err := a.CheckRewards(next.Reward); err != nil {
			return fmt.Errorf("imitate: %w", err)
		}
		from, _ := buf.Rows()
		copy(reward, next.Reward)
		a.Norm.Seen(next.Obs, reward, next.Terminated, next.Truncated)
		copy(buf.Reward[from:], reward)
		copy(buf.Terminated[from:], next.Terminated)
		copy(buf.Truncated[from:], next.Truncated)
		buf.Advance()
		for i := range buf.N {
			obs := next.Obs
			switch {
			case next.Terminated[i] || !next.Truncated[i] && !buf.Full():
				continue
			case next.Truncated[i]:
				obs = next.FinalObs
			}
			rec.Ends = append(rec.Ends, End{from + i, slices.Clone(obs[i*buf.ObsSize : (i+1)*buf.ObsSize])})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.Norm.Obs(buf.Obs, buf.Obs)
	for _, e := range rec.Ends {
		a.Norm.Obs(e.Obs, e.Obs)
	}
	a.Norm.Restart() // the training uses other environments
	return rec, nil
}

// Returns sets the returns of all steps, discounted by gamma. value has one bootstrap value for
// each End.
func (r *Demonstrated) Returns(gamma float64, value []float32) {
	clear(r.Value)
	clear(r.NextValue)
	for i, e := range r.Ends {
		r.NextValue[e.Row] = value[i]
	}
	r.Estimate(nil, gamma, 1)
}

// Imitate implements [imitation.Learner] by behavioural cloning: the policy maximizes the
// likelihood of the teacher's actions under their masks, with a little entropy, and the value
// learns the teacher's returns by least squares. The standard deviations of Box actions stay as
// they are, since a deterministic teacher would drive them to 0.
//
// Source: Pomerleau, "Efficient Training of Artificial Neural Networks for Autonomous
// Navigation", Neural Computation 3(1), 1991.
func (a *Actor) Imitate(ctx context.Context, d imitation.Demonstration) (agents.Metrics, error) {
	rec, err := a.Watch(ctx, d)
	if err != nil {
		return nil, err
	}
	c := &cloning{actor: a, rec: rec, demo: d, adam: optim.NewAdam(a.Params, optim.DefaultAdam()), after: make([]float32, len(rec.Ends))}
	for _, p := range a.Params {
		if p.Name != distribution.LogStdHead {
			c.decay = append(c.decay, p)
		}
	}
	epoch := c.rowsEpoch
	if a.Memory.Recurrent() {
		epoch = c.sequencesEpoch
	}
	for range d.Epochs {
		c.sums = sums{}
		if err := epoch(ctx); err != nil {
			return nil, err
		}
	}
	return c.sums.metrics(), nil
}

// cloning is the behavioural cloning of a demonstration by an Actor.
type cloning struct {
	actor *Actor
	rec   *Demonstrated
	demo  imitation.Demonstration
	step  int // gradient steps so far
	adam  *optim.Adam
	decay []models.Param // that weight decay shrinks
	after []float32      // values of the observations of rec.Ends
	sums  sums           // over the epoch

	perm      []int
	obs, dOut []float32   // of a minibatch
	state     [][]float32 // of a recurrent network, before each piece
}

// rowsEpoch passes once over all steps, in shuffled minibatches.
func (c *cloning) rowsEpoch(ctx context.Context) error {
	a, outputs := c.actor, c.actor.spec.Outputs()
	size, n := c.rec.ObsSize, min(imitateBatch, len(c.rec.Ret))
	if c.perm == nil {
		c.obs, c.dOut = make([]float32, n*size), make([]float32, n*outputs)
	}
	for from := 0; from < len(c.after); from += n {
		some := c.rec.Ends[from:min(from+n, len(c.after))]
		for i, e := range some {
			copy(c.obs[i*size:(i+1)*size], e.Obs)
		}
		out, err := a.Net.Forward(c.obs, n)
		if err != nil {
			return fmt.Errorf("%s: imitate: %w", a.Algo, err)
		}
		for i := range some {
			c.after[from+i] = out[i*outputs+a.Value]
		}
	}
	c.rec.Returns(a.gamma, c.after)
	c.shuffle(len(c.rec.Ret))
	for from := 0; from+n <= len(c.perm); from += n { // the incomplete last minibatch is dropped
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := c.perm[from : from+n]
		for i, r := range batch {
			copy(c.obs[i*size:(i+1)*size], c.rec.Obs[r*size:])
		}
		out, err := a.Net.Forward(c.obs, n)
		if err := c.learn(batch, out, err); err != nil {
			return err
		}
	}
	return nil
}

// imitateSteps is the number of steps of all environments in a minibatch of a recurrent network.
const imitateSteps = 32

// sequencesEpoch passes once over pieces of all environments, in shuffled order. The state before each
// is that of the network at the start of the epoch.
func (c *cloning) sequencesEpoch(ctx context.Context) error {
	a := c.actor
	steps := min(imitateSteps, c.rec.T)
	rows := steps * c.rec.N
	if c.perm == nil {
		c.dOut, c.obs = make([]float32, rows*a.spec.Outputs()), make([]float32, c.rec.N*c.rec.ObsSize)
		c.state = make([][]float32, c.rec.T/steps)
		for i := range c.state {
			c.state[i] = make([]float32, c.rec.N*a.spec.StateSize())
		}
	}
	if err := c.evaluate(steps); err != nil {
		return err
	}
	c.rec.Returns(a.gamma, c.after)
	c.shuffle(len(c.state))
	batch := make([]int, rows)
	for _, piece := range c.perm {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := piece * rows
		for i := range batch {
			batch[i] = from + i
		}
		out, err := a.Memory.lstm.ForwardSequence(c.rec.Obs[from*c.rec.ObsSize:(from+rows)*c.rec.ObsSize], steps, c.rec.N, c.state[piece], c.rec.Begins[from:from+rows])
		if err := c.learn(batch, out, err); err != nil {
			return err
		}
	}
	return nil
}

// evaluate runs the recurrent network over the demonstration and keeps the state before each piece and
// the values of the observations after the ends.
func (c *cloning) evaluate(steps int) error {
	a := c.actor
	rec, n, size := c.rec, c.rec.N, c.rec.ObsSize
	state := make([]float32, n*a.spec.StateSize())
	beyond, none := make([]float32, len(state)), make([]bool, n)
	ends := 0
	for t := range rec.T {
		if t%steps == 0 && t/steps < len(c.state) {
			copy(c.state[t/steps], state)
		}
		if _, err := a.Memory.lstm.ForwardStep(rec.Obs[t*n*size:(t+1)*n*size], n, state, rec.Begins[t*n:(t+1)*n]); err != nil {
			return fmt.Errorf("%s: imitate: %w", a.Algo, err)
		}
		first := ends
		for ; ends < len(rec.Ends) && rec.Ends[ends].Row < (t+1)*n; ends++ {
			copy(c.obs[rec.Ends[ends].Row%n*size:], rec.Ends[ends].Obs)
		}
		if ends == first {
			continue
		}
		copy(beyond, state)
		out, err := a.Memory.lstm.ForwardStep(c.obs, n, beyond, none)
		if err != nil {
			return fmt.Errorf("%s: imitate: %w", a.Algo, err)
		}
		for k, e := range rec.Ends[first:ends] {
			c.after[first+k] = out[e.Row%n*a.spec.Outputs()+a.Value]
		}
	}
	return nil
}

func (c *cloning) shuffle(n int) {
	if c.perm == nil {
		c.perm = make([]int, n)
		for i := range c.perm {
			c.perm[i] = i
		}
	}
	c.actor.Rng.Shuffle(n, func(i, j int) { c.perm[i], c.perm[j] = c.perm[j], c.perm[i] })
}

// learn makes a gradient step for the given rows; out and err are the results of evaluating them.
func (c *cloning) learn(rows []int, out []float32, err error) error {
	if err == nil {
		err = c.gradient(rows, out)
	}
	if err == nil {
		err = c.actor.Net.Backward(c.dOut)
	}
	if err != nil {
		return fmt.Errorf("%s: imitate: %w", c.actor.Algo, err)
	}
	rate := c.demo.Rate(c.step, c.demo.Epochs*c.stepsPerEpoch(), imitateRate)
	if c.demo.WeightDecay > 0 {
		optim.Decay(c.decay, rate, c.demo.WeightDecay)
	}
	c.adam.Step(rate)
	c.step++
	return nil
}

// stepsPerEpoch returns the gradient steps of an epoch.
func (c *cloning) stepsPerEpoch() int {
	if c.actor.Memory.Recurrent() {
		return len(c.state)
	}
	return len(c.rec.Ret) / min(imitateBatch, len(c.rec.Ret))
}

// sums accumulates over the steps of an epoch.
type sums struct{ negLogP, entropy, value, right, steps float64 }

func (s *sums) metrics() agents.Metrics {
	return agents.Metrics{
		"imitation/neglogp": s.negLogP / s.steps, "imitation/entropy": s.entropy / s.steps,
		"imitation/value_loss": s.value / s.steps, "imitation/accuracy": s.right / s.steps,
	}
}

// gradient sets the gradient of the loss of the given rows with respect to their outputs.
func (c *cloning) gradient(rows []int, out []float32) error {
	a := c.actor
	rec, k, weight := c.rec, a.spec.Outputs(), 1/float64(len(rows))
	logStd, deviations := a.spec.Head(distribution.LogStdHead)
	mode := make([]float32, rec.ActSize)
	s := &c.sums
	clear(c.dOut)
	for i, r := range rows {
		row, d := out[i*k:(i+1)*k], c.dOut[i*k:(i+1)*k]
		action := rec.Action[r*rec.ActSize : (r+1)*rec.ActSize]
		a.Dist.Condition(row, rec.Mask[r*rec.MaskSize:(r+1)*rec.MaskSize])
		s.negLogP -= a.Dist.LogProb(action)
		s.entropy += a.Dist.Entropy()
		if a.Dist.Mode(mode); slices.Equal(mode, action) {
			s.right++
		}
		a.Dist.Grad(d, action, -weight, -weight*imitateEntropy)
		clear(d[logStd : logStd+deviations])
		e := float64(row[a.Value]) - float64(rec.Ret[r])
		s.value += e * e
		d[a.Value] += float32(2 * weight * imitateValueCoef * e)
		s.steps++
	}
	if loss := s.negLogP + s.value; math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("the loss is not finite (%v of actions, %v of values)", s.negLogP, s.value)
	}
	return nil
}
