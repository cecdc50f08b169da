// Package ppo implements proximal policy optimization with a clipped surrogate objective, for
// actions of every kind, with masks.
//
// The implementation follows Stable-Baselines3 2.9 (names, defaults, losses) and the numbered
// details of Huang et al., "The 37 Implementation Details of Proximal Policy Optimization"
// (ICLR Blog Track, 2022), which the comments cite as [n].
//
// Source: Schulman et al., "Proximal Policy Optimization Algorithms", arXiv:1707.06347.
package ppo

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/distribution"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/rollout"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
	"github.com/kubernasium/kubernasium/models/team"
	"github.com/kubernasium/kubernasium/models/vmath"
)

// Algo is the name of the algorithm in checkpoints and on the command line.
const Algo = "ppo"

// Learner is a PPO agent. Act and Observe fill the collector's rollout, Update learns from it and
// clears it. It is not safe for concurrent use.
type Learner struct {
	cfg       Config
	actor     *onpolicy.Actor     // network, optimizer, normalization, random numbers, counters
	collector *onpolicy.Collector // fills the rollout
	perm      []int               // of rows; of sequences for a recurrent policy
	rows      []int               // of a minibatch of sequences
	batch     minibatch

	// Called for each block of the minibatch.
	gather, losses func(worker, block int)
}

// minibatch is the memory into which rows of the rollout are gathered.
type minibatch struct {
	obs, dOut, adv []float32
	mask           []bool
	state          []float32 // of a recurrent policy, before each sequence
	begins         []bool

	rows         []int     // of the rollout
	out          []float32 // outputs
	stats        []stats   // of each row
	dists        []distribution.Distribution
	blocks       []blockMemory // of each worker
	clip, clipVf float64
}

// blockMemory is the memory for the losses of a block.
type blockMemory struct {
	rows            *distribution.Rows // nil if the distributions are computed one by one
	logRatio, ratio [blockRows]float64
}

const (
	blockRows   = onpolicy.BlockRows // rows that one worker handles at a time
	minGathered = 1 << 14            // numbers of observations above which workers share the copying
	ahead       = 2                  // rows between the one copied and the one prefetched
	wideObs     = 64                 // numbers of an observation from which prefetching pays
)

var _ imitation.Learner = (*Learner)(nil)

// New returns a learner for the environments. Its network, made by newNetwork, has separate towers for
// policy and value [13], initialized orthogonally with gains √2, 0.01 and 1 [2]. All random
// numbers come from seed, except the network's first parameters.
func New(cfg Config, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (*Learner, error) {
	if err := cfg.validate(env.NumEnvs); err != nil {
		return nil, err
	}
	spec, err := cfg.Network.ActorCritic(env.Obs, env.Act)
	if err != nil {
		return nil, err
	}
	return newLearner(cfg, 0, onpolicy.Settings{
		Algo: Algo, Config: cfg, Normalize: cfg.Normalization, Gamma: cfg.Gamma, Env: env, Spec: spec, NewNetwork: newNetwork, Seed: seed,
	})
}

// newLearner returns a learner. With a recurrent policy, sequences have seqSteps steps.
func newLearner(cfg Config, seqSteps int, s onpolicy.Settings) (*Learner, error) {
	a, err := onpolicy.NewActor(s)
	if err != nil {
		return nil, err
	}
	adam := optim.NewAdam(a.Params, optim.AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-5}) // [3]
	adam.Share(a.Team)
	a.Optimizer = adam
	c, err := onpolicy.NewCollector(a, cfg.NSteps, seqSteps) // [1]
	if err != nil {
		return nil, err
	}
	rows, k := cfg.NSteps*s.Env.NumEnvs, cfg.BatchSize
	l := &Learner{cfg: cfg, actor: a, collector: c, perm: make([]int, rows)}
	l.batch = minibatch{obs: make([]float32, k*s.Env.Obs.Size()), dOut: make([]float32, k*s.Spec.Outputs()), adv: make([]float32, k), stats: make([]stats, k), mask: make([]bool, k*c.Buf.MaskSize)}
	l.gather, l.losses = l.gatherBlock, l.blockLosses
	if c.Seq != nil {
		l.perm, l.rows = make([]int, rows/c.Seq.Steps), make([]int, k)
		l.batch.state, l.batch.begins = make([]float32, k/c.Seq.Steps*s.Spec.StateSize()), make([]bool, k)
	}
	return l, nil
}

// Act implements [agents.Policy]: it samples from the masked policy and records the step.
func (l *Learner) Act(b *envs.Batch, actions []float32) error { return l.collector.Act(b, actions) }

// Observe implements [agents.Learner]: it records the results, with the values that bootstrap it.
func (l *Learner) Observe(next *envs.Batch) error { return l.collector.Observe(next) }

// Update implements [agents.Learner]: once the rollout is full, it makes NEpochs passes over
// it in shuffled minibatches [6].
func (l *Learner) Update() (agents.Metrics, error) {
	a, buf := l.actor, l.collector.Buf
	if !buf.Full() {
		return nil, nil
	}
	defer a.Team.Rest()
	progress := l.cfg.Remaining(a.NumTimesteps())                                                                       // after this rollout, as in SB3
	rate, clip, clipVf := l.cfg.LearningRate.At(progress), l.cfg.ClipRange.At(progress), l.cfg.ClipRangeVf.At(progress) // [4]
	buf.Estimate(a.Team, l.cfg.Gamma, l.cfg.GAELambda)                                                                  // [5]
	var explained float64
	a.Team.Do(2, func(_, part int) { // neither can be divided
		if part == 0 {
			for i := range l.perm {
				l.perm[i] = i
			}
			a.Shuffle(l.perm)
		} else {
			explained = rollout.ExplainedVariance(buf.Value, buf.Ret)
		}
	})
	var sum, epoch, last stats
epochs:
	for e := range l.cfg.NEpochs {
		a.NUpdates++
		epoch = stats{}
		if e > 0 {
			a.Shuffle(l.perm)
		}
		for i, k := 0, len(l.perm)*l.cfg.BatchSize/len(buf.Ret); i < len(l.perm); i += k {
			s, err := l.gradient(l.perm[i:i+k], clip, clipVf)
			if err != nil {
				return nil, err
			}
			sum.add(s)
			epoch.add(s)
			last = s
			if l.cfg.TargetKL > 0 && s.approxKL > 1.5*l.cfg.TargetKL { // as SB3, before the step
				break epochs
			}
			optim.ClipGradNorm(a.Params, l.cfg.MaxGradNorm) // [11]
			a.Optimizer.Step(rate)
		}
	}
	m := sum.metrics()
	m["train/approx_kl"] = epoch.approxKL / epoch.minibatches // as SB3, of the last epoch
	m["train/loss"] = last.loss                               // as SB3, of the last minibatch
	m["train/learning_rate"], m["train/clip_range"] = rate, clip
	if l.cfg.ClipRangeVf.Initial > 0 {
		m["train/clip_range_vf"] = clipVf
	}
	m["train/n_updates"] = float64(a.NUpdates)
	m["train/explained_variance"] = explained
	buf.Clear()
	return m, nil
}

// gradient computes the loss of a minibatch and leaves its gradient in the parameters. A minibatch
// lists rows of the rollout or, for a recurrent policy, sequences.
func (l *Learner) gradient(rows []int, clip, clipVf float64) (stats, error) {
	a, buf := l.actor, l.collector.Buf
	if l.collector.Seq != nil {
		rows = l.gatherSequences(rows)
	}
	n := len(rows)
	l.batch.rows = rows
	if n*buf.ObsSize >= minGathered {
		a.Team.Do(team.Blocks(n, blockRows), l.gather)
	} else {
		for block := range team.Blocks(n, blockRows) {
			l.gather(0, block)
		}
	}
	if l.cfg.NormalizeAdvantage {
		rollout.Normalize(l.batch.adv[:n]) // [7]
	}
	out, err := l.forward(n)
	if err != nil {
		return stats{}, fmt.Errorf("%s: update: %w", a.Algo, err)
	}
	l.computeLosses(out, clip, clipVf)
	var s stats
	for i := range rows {
		s.add(l.batch.stats[i])
	}
	s.minibatches = 1
	s.loss = s.policy + l.cfg.EntCoef*s.entropyLoss + l.cfg.VfCoef*s.value
	if math.IsNaN(s.loss) || math.IsInf(s.loss, 0) {
		return s, fmt.Errorf("%s: loss %v at timestep %d, epoch %d, from %s (policy %v, value %v, entropy %v)",
			a.Algo, s.loss, a.NumTimesteps(), a.NUpdates, buf.NonFiniteSource(), s.policy, s.value, s.entropyLoss)
	}
	if err := a.Net.Backward(l.batch.dOut[:n*a.Spec().Outputs()]); err != nil {
		return s, fmt.Errorf("%s: update: %w", a.Algo, err)
	}
	return s, nil
}

// gatherBlock copies the observations and advantages of a block of the minibatch's rows.
func (l *Learner) gatherBlock(_, block int) {
	b, buf := &l.batch, l.collector.Buf
	lo, hi := team.Block(block, len(b.rows), blockRows)
	for i, r := range b.rows[lo:hi] {
		if next := lo + i + ahead; next < hi {
			l.prefetch(b.rows[next])
		}
		copy(b.obs[(lo+i)*buf.ObsSize:(lo+i+1)*buf.ObsSize], buf.Obs[r*buf.ObsSize:])
		b.adv[lo+i] = buf.Adv[r]
	}
}

// prefetch prefetches the observation and the mask of row r. Shuffled rows of wide observations come from main memory,
// whose latency would dominate the copy.
func (l *Learner) prefetch(r int) {
	buf := l.collector.Buf
	if buf.ObsSize < wideObs {
		return
	}
	vmath.Prefetch(buf.Obs[r*buf.ObsSize : (r+1)*buf.ObsSize])
	_, mask := l.collector.Row(r)
	vmath.Prefetch(mask)
}

// computeLosses sets the losses of the minibatch's rows and their gradients.
func (l *Learner) computeLosses(out []float32, clip, clipVf float64) {
	a, b := l.actor, &l.batch
	b.out, b.clip, b.clipVf, b.dists = out, clip, clipVf, a.Dists()
	for i, rows := range a.Rows() {
		if i == len(b.blocks) {
			b.blocks = append(b.blocks, blockMemory{rows: rows})
		}
	}
	a.Team.Do(team.Blocks(len(b.rows), blockRows), l.losses)
}

// blockLosses sets the losses of a block of the minibatch's rows and their gradients.
func (l *Learner) blockLosses(worker, block int) {
	b, k, n := &l.batch, l.actor.Spec().Outputs(), len(l.batch.rows)
	lo, hi := team.Block(block, n, blockRows)
	clear(b.dOut[lo*k : hi*k])
	if l.together(&b.blocks[worker], lo, hi) {
		return
	}
	d, buf := b.dists[worker], l.collector.Buf
	for i := lo; i < hi; i++ {
		r, out, dOut := b.rows[i], b.out[i*k:(i+1)*k], b.dOut[i*k:(i+1)*k]
		action, mask := l.collector.Row(r)
		d.Condition(out, mask)
		logRatio := d.LogProb(action) - float64(buf.LogProb[r])
		dLogProb := l.loss(i, logRatio, math.Exp(logRatio), d.Entropy())
		d.Grad(dOut, action, dLogProb, -l.weight()*l.cfg.EntCoef)
	}
}

// together is blockLosses for distributions that are computed together. It does nothing and returns false if they are
// not.
func (l *Learner) together(m *blockMemory, lo, hi int) bool {
	b, buf, k, count := &l.batch, l.collector.Buf, l.actor.Spec().Outputs(), hi-lo
	if m.rows == nil {
		return false
	}
	var mask []bool
	if buf.MaskSize > 0 {
		mask = b.mask[lo*buf.MaskSize : hi*buf.MaskSize]
		for i, r := range b.rows[lo:hi] {
			_, row := l.collector.Row(r)
			copy(mask[i*buf.MaskSize:], row)
		}
	}
	if !m.rows.Condition(b.out[lo*k:hi*k], count, mask) {
		return false
	}
	for i, r := range b.rows[lo:hi] {
		m.logRatio[i] = m.rows.LogProb(i, int(buf.Action[r])) - float64(buf.LogProb[r])
	}
	vmath.ShiftedExp(m.ratio[:count], m.logRatio[:count], 0)
	dEntropy := -l.weight() * l.cfg.EntCoef
	for i, r := range b.rows[lo:hi] {
		dLogProb := l.loss(lo+i, m.logRatio[i], m.ratio[i], m.rows.Entropy(i))
		m.rows.Grad(i, b.dOut[(lo+i)*k:(lo+i+1)*k], int(buf.Action[r]), dLogProb, dEntropy)
	}
	return true
}

// weight returns the weight of each row in the loss.
func (l *Learner) weight() float64 { return 1 / float64(len(l.batch.rows)) }

// loss sets the stats of row i of the minibatch: its part in the loss. It adds the gradient with respect to the value to
// dOut, and returns that with respect to the logarithm of the action's probability. ratio is the exponential of
// logRatio.
func (l *Learner) loss(i int, logRatio, ratio, entropy float64) (dLogProb float64) {
	a, buf, b := l.actor, l.collector.Buf, &l.batch
	r, at, weight, adv, clip := b.rows[i], i*a.Spec().Outputs()+a.Value, l.weight(), float64(b.adv[i]), b.clip
	s := &b.stats[i]

	// Clipped surrogate objective [8]. Where the clipped term is the smaller, the gradient is 0.
	clipped := min(max(ratio, 1-clip), 1+clip)
	s.policy = -weight * min(ratio*adv, clipped*adv)
	if ratio*adv <= clipped*adv {
		dLogProb = -weight * ratio * adv
	}
	s.entropyLoss = -weight * entropy // [10]

	// Value loss, clipped only if configured [9]. It is the mean square, without a half, as in SB3.
	value, old, ret := float64(b.out[at]), float64(buf.Value[r]), float64(buf.Ret[r])
	unclipped := true
	if l.cfg.ClipRangeVf.Initial > 0 { // a linear range that has reached 0 clips every change
		if change := value - old; math.Abs(change) > b.clipVf {
			clipped := old + math.Copysign(b.clipVf, change)
			// With ClipVLoss the greater of both losses counts [9].
			if !l.cfg.ClipVLoss || math.Abs(clipped-ret) >= math.Abs(value-ret) {
				value, unclipped = clipped, false
			}
		}
	}
	s.value = weight * (value - ret) * (value - ret)
	if unclipped {
		b.dOut[at] += float32(weight * l.cfg.VfCoef * 2 * (value - ret))
	}

	s.approxKL = weight * (ratio - 1 - logRatio) // [12]: the estimator k3 of http://joschu.net/blog/kl-approx.html
	s.clipFraction = 0
	if math.Abs(ratio-1) > clip {
		s.clipFraction = weight
	}
	return dLogProb
}

// stats holds sums over rows, later over minibatches.
type stats struct {
	policy, value, entropyLoss, loss, approxKL, clipFraction float64
	minibatches                                              float64
}

func (s *stats) add(x stats) {
	s.policy += x.policy
	s.value += x.value
	s.entropyLoss += x.entropyLoss
	s.loss += x.loss
	s.approxKL += x.approxKL
	s.clipFraction += x.clipFraction
	s.minibatches += x.minibatches
}

func (s *stats) metrics() agents.Metrics {
	n := s.minibatches
	return agents.Metrics{
		"train/policy_gradient_loss": s.policy / n,
		"train/value_loss":           s.value / n,
		"train/entropy_loss":         s.entropyLoss / n,
		"train/clip_fraction":        s.clipFraction / n,
	}
}

// Greedy implements [agents.Learner].
func (l *Learner) Greedy() agents.Policy { return l.actor.Greedy() }

// Imitate implements [imitation.Learner] by behavioural cloning.
func (l *Learner) Imitate(ctx context.Context, d imitation.Demonstration) (agents.Metrics, error) {
	return l.actor.Imitate(ctx, d)
}

// Save implements [agents.Learner]. It is an error in the middle of a rollout.
func (l *Learner) Save(w io.Writer) error { return l.collector.Save(w) }

// Load implements [agents.Learner] by [onpolicy.Actor.Load] and clears the rollout.
func (l *Learner) Load(r io.Reader) error { return l.collector.Load(r) }

// Spec returns the description of the network.
func (l *Learner) Spec() models.Spec { return l.actor.Spec() }

// NumTimesteps returns the number of environment steps observed.
func (l *Learner) NumTimesteps() int { return l.actor.NumTimesteps() }
