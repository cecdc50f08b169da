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

	records []rowRecord // of the rollout's rows
	adv     []float32   // advantages in the order of perm, normalized within minibatches

	// Called for parts of the work, by several workers.
	pack, advantages, sum func(worker, part int)
	gather                func(worker, lo, hi int)
	losses                func(worker, lo, hi int, out []float32)
}

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
	l.records, l.adv = make([]rowRecord, rows), make([]float32, rows)
	l.batch = minibatch{
		obs: make([]float32, k*s.Env.Obs.Size()), dOut: make([]float32, k*s.Spec.Outputs()),
		mask: make([]bool, k*c.Buf.MaskSize), records: make([]rowRecord, k), stats: make([]stats, k),
	}
	l.pack, l.advantages, l.sum, l.gather, l.losses = l.packRecords, l.gatherAdvantages, l.sumStats, l.gatherRows, l.rowLosses
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
	a.Team.Do(team.Blocks(len(l.records), packedRows), l.pack)
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
	l.begin(clip, clipVf)
	var sum, epoch, last stats
epochs:
	for e := range l.cfg.NEpochs {
		a.NUpdates++
		epoch = stats{}
		if e > 0 {
			a.Shuffle(l.perm)
		}
		a.Team.Do(len(buf.Ret)/l.cfg.BatchSize, l.advantages)
		for i := range len(buf.Ret) / l.cfg.BatchSize {
			s, err := l.gradient(i)
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

// begin prepares for the losses of a rollout.
func (l *Learner) begin(clip, clipVf float64) {
	b := &l.batch
	b.clip, b.clipVf, b.dists = clip, clipVf, l.actor.Dists()
	for i, rows := range l.actor.Rows() {
		if i == len(b.blocks) {
			b.blocks = append(b.blocks, blockMemory{rows: rows})
		}
	}
}

// gradient computes the loss of minibatch i and leaves its gradient in the parameters.
func (l *Learner) gradient(i int) (stats, error) {
	a, buf, b := l.actor, l.collector.Buf, &l.batch
	part, lo, hi := l.minibatch(i)
	b.rows, b.next, b.adv = part, nil, l.adv[lo:hi]
	if l.collector.Seq != nil {
		b.rows = l.gatherSequences(part)
	} else {
		b.next = l.perm[hi:min(hi+blockRows, len(l.perm))]
	}
	n := len(b.rows)
	if err := l.pass(b.obs[:n*buf.ObsSize], b.dOut[:n*a.Spec().Outputs()], n); err != nil {
		return stats{}, fmt.Errorf("%s: update: %w", a.Algo, err)
	}
	s := b.sums
	s.minibatches = 1
	s.loss = s.policy + l.cfg.EntCoef*s.entropyLoss + l.cfg.VfCoef*s.value
	if math.IsNaN(s.loss) || math.IsInf(s.loss, 0) {
		return s, fmt.Errorf("%s: loss %v at timestep %d, epoch %d, from %s (policy %v, value %v, entropy %v)",
			a.Algo, s.loss, a.NumTimesteps(), a.NUpdates, buf.NonFiniteSource(), s.policy, s.value, s.entropyLoss)
	}
	return s, nil
}

// pass evaluates the n rows of the minibatch, sums their losses and leaves the gradient in the parameters.
func (l *Learner) pass(obs, dOut []float32, n int) error {
	if p, ok := l.actor.Net.(models.Parter); ok && l.collector.Seq == nil {
		return p.ForwardBackward(obs, dOut, n, l.gather, l.losses, sums, l.sum)
	}
	if err := l.forward(obs, n); err != nil {
		return err
	}
	return l.backward(dOut)
}

// forward evaluates the n rows of the minibatch and sets their losses.
func (l *Learner) forward(obs []float32, n int) error {
	a, b, seq := l.actor, &l.batch, l.collector.Seq
	each := func(f func(worker, lo, hi int)) {
		a.Team.Do(team.Blocks(n, blockRows), func(worker, block int) {
			lo, hi := team.Block(block, n, blockRows)
			f(worker, lo, hi)
		})
	}
	each(l.gather)
	var out []float32
	var err error
	if seq != nil {
		out, err = a.Net.(models.Recurrent).ForwardSequence(obs, seq.Steps, n/seq.Steps, b.state, b.begins)
	} else {
		out, err = a.Net.Forward(obs, n)
	}
	if err != nil {
		return err
	}
	k := a.Spec().Outputs()
	each(func(worker, lo, hi int) { l.rowLosses(worker, lo, hi, out[lo*k:hi*k]) })
	return nil
}

// backward leaves the gradient of the minibatch in the parameters and sums the losses.
func (l *Learner) backward(dOut []float32) error {
	if p, ok := l.actor.Net.(models.Parter); ok {
		return p.BackwardBeside(dOut, sums, l.sum)
	}
	for part := range sums {
		l.sumStats(0, part)
	}
	return l.actor.Net.Backward(dOut)
}

// sums is the number of parts of sumStats.
const sums = 5

// sumStats adds up one quantity of the minibatch's rows. The order of rows matters, so that a sum cannot be divided.
func (l *Learner) sumStats(_, part int) {
	b := &l.batch
	rows := b.stats[:len(b.rows)]
	total := func(of func(*stats) *float64) {
		sum := 0.0
		for i := range rows {
			sum += *of(&rows[i])
		}
		*of(&b.sums) = sum
	}
	switch part {
	case 0:
		total(func(s *stats) *float64 { return &s.policy })
	case 1:
		total(func(s *stats) *float64 { return &s.value })
	case 2:
		total(func(s *stats) *float64 { return &s.entropyLoss })
	case 3:
		total(func(s *stats) *float64 { return &s.approxKL })
	case 4:
		total(func(s *stats) *float64 { return &s.clipFraction })
	}
}

// rowLosses sets the losses of the minibatch's rows lo to hi, at most blockRows, and their gradients. out holds the
// outputs of these rows.
func (l *Learner) rowLosses(worker, lo, hi int, out []float32) {
	b, k := &l.batch, l.actor.Spec().Outputs()
	dOut := b.dOut[lo*k : hi*k]
	clear(dOut)
	if l.together(&b.blocks[worker], lo, hi, out, dOut) {
		return
	}
	d := b.dists[worker]
	for i := lo; i < hi; i++ {
		row, dRow := out[(i-lo)*k:(i-lo+1)*k], dOut[(i-lo)*k:(i-lo+1)*k]
		action, mask := l.collector.Row(b.rows[i])
		d.Condition(row, mask)
		logRatio := d.LogProb(action) - float64(b.records[i].logProb)
		dLogProb := l.loss(i, row, dRow, logRatio, math.Exp(logRatio), d.Entropy())
		d.Grad(dRow, action, dLogProb, -l.weight()*l.cfg.EntCoef)
	}
}

// together is rowLosses for distributions that are computed together. It does nothing and returns false if they are not.
func (l *Learner) together(m *blockMemory, lo, hi int, out, dOut []float32) bool {
	b, size, k, count := &l.batch, l.collector.Buf.MaskSize, l.actor.Spec().Outputs(), hi-lo
	if m.rows == nil || !m.rows.Condition(out, count, b.mask[lo*size:hi*size]) {
		return false
	}
	records := b.records[lo:hi]
	for i := range records {
		m.logRatio[i] = m.rows.LogProb(i, int(records[i].action)) - float64(records[i].logProb)
	}
	vmath.ShiftedExp(m.ratio[:count], m.logRatio[:count], 0)
	dEntropy := -l.weight() * l.cfg.EntCoef
	for i := range records {
		row, dRow := out[i*k:(i+1)*k], dOut[i*k:(i+1)*k]
		dLogProb := l.loss(lo+i, row, dRow, m.logRatio[i], m.ratio[i], m.rows.Entropy(i))
		m.rows.Grad(i, dRow, int(records[i].action), dLogProb, dEntropy)
	}
	return true
}

// weight returns the weight of each row in the loss.
func (l *Learner) weight() float64 { return 1 / float64(len(l.batch.rows)) }

// loss sets the stats of row i of the minibatch, its part in the loss, from the row of outputs. It adds the gradient
// with respect to the value to dOut, and returns that with respect to the logarithm of the action's probability. ratio
// is the exponential of logRatio.
func (l *Learner) loss(i int, out, dOut []float32, logRatio, ratio, entropy float64) (dLogProb float64) {
	a, b := l.actor, &l.batch
	weight, adv, clip, rec := l.weight(), float64(b.adv[i]), b.clip, &b.records[i]
	s := &b.stats[i]

	// Clipped surrogate objective [8]. Where the clipped term is the smaller, the gradient is 0.
	clipped := min(max(ratio, 1-clip), 1+clip)
	s.policy = -weight * min(ratio*adv, clipped*adv)
	if ratio*adv <= clipped*adv {
		dLogProb = -weight * ratio * adv
	}
	s.entropyLoss = -weight * entropy // [10]

	// Value loss, clipped only if configured [9]. It is the mean square, without a half, as in SB3.
	value, old, ret := float64(out[a.Value]), float64(rec.value), float64(rec.ret)
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
		dOut[a.Value] += float32(weight * l.cfg.VfCoef * 2 * (value - ret))
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
