// Package ppo is proximal policy optimization with a clipped surrogate objective, for
// Discrete actions with masks.
//
// The implementation follows Stable-Baselines3 2.9 (names, defaults, losses) and the numbered
// details of Huang et al., "The 37 Implementation Details of Proximal Policy Optimization"
// (ICLR Blog Track, 2022), which the comments cite as [n]. Detail [d1] bootstraps truncated
// episodes from their final observation, which that list leaves out.
//
// Source: Schulman et al., "Proximal Policy Optimization Algorithms", arXiv:1707.06347.
package ppo

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/categorical"
	"github.com/kubernasium/kubernasium/agents/rollout"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

// NetworkSpec returns the network that cfg asks for: separate towers for policy and value
// [13], orthogonal initialization with gains √2, 0.01 and 1 [2].
func NetworkSpec(cfg Config, obs, act space.Space) (models.Spec, error) {
	d, ok := act.(space.Discrete)
	if !ok {
		return models.Spec{}, fmt.Errorf("ppo: actions of kind %s, want discrete", act.Describe().Kind)
	}
	spec := models.ActorCritic(obs.Size(), d.N, cfg.NetArch, cfg.ActivationFn)
	return spec, spec.Validate()
}

// Learner is a PPO agent. It is not safe for concurrent use.
type Learner struct {
	cfg     Config
	env     agents.EnvInfo
	seed    uint64
	spec    models.Spec
	net     models.Network
	params  []models.Param
	adam    *optim.Adam
	src     *pcg.Source
	rng     *rand.Rand
	buf     *rollout.Buffer
	actions int // number of actions
	value   int // offset of the value in an output row

	numTimesteps int // environment steps observed
	nUpdates     int // epochs done

	logp  []float64 // of one row
	perm  []int
	batch minibatch
}

// minibatch is the memory into which rows of the rollout are gathered.
type minibatch struct {
	obs, dOut, adv []float32
}

var _ agents.Learner = (*Learner)(nil)

// New returns a learner for the environments, whose network net was built from NetworkSpec.
// Everything random is drawn from seed.
func New(cfg Config, env agents.EnvInfo, net models.Network, seed uint64) (*Learner, error) {
	if err := cfg.validate(env.NumEnvs); err != nil {
		return nil, err
	}
	spec, err := NetworkSpec(cfg, env.Obs, env.Act)
	if err != nil {
		return nil, err
	}
	l := &Learner{cfg: cfg, env: env, seed: seed, spec: spec, net: net, params: net.Params(), src: pcg.New(seed)}
	l.adam = optim.NewAdam(l.params, optim.AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-5}) // [3]
	l.rng = rand.New(l.src)
	_, l.actions = spec.Head("action_net")
	l.value, _ = spec.Head("value_net")
	l.buf = rollout.New(cfg.NSteps, env.NumEnvs, env.Obs.Size(), env.Act.Size(), space.MaskSize(env.Act)) // [1]
	l.logp = make([]float64, l.actions)
	l.perm = make([]int, cfg.NSteps*env.NumEnvs)
	k := cfg.BatchSize
	l.batch = minibatch{make([]float32, k*env.Obs.Size()), make([]float32, k*spec.Outputs()), make([]float32, k)}
	return l, nil
}

// Spec returns the description of the network.
func (l *Learner) Spec() models.Spec { return l.spec }

// NumTimesteps returns the number of environment steps observed.
func (l *Learner) NumTimesteps() int { return l.numTimesteps }

// Act implements [agents.Policy]: it samples from the masked policy and remembers what an
// update needs of the moment.
func (l *Learner) Act(b *envs.Batch, actions []float32) error {
	buf := l.buf
	from, to := buf.Rows()
	out, err := l.net.Forward(b.Obs, buf.N)
	if err != nil {
		return fmt.Errorf("ppo: act: %w", err)
	}
	copy(buf.Obs[from*buf.ObsSize:to*buf.ObsSize], b.Obs)
	copy(buf.Mask[from*buf.MaskSize:to*buf.MaskSize], b.Mask)
	k := l.spec.Outputs()
	for i := range buf.N {
		row := out[i*k : (i+1)*k]
		categorical.LogProbs(l.logp, row[:l.actions], b.Mask[i*buf.MaskSize:(i+1)*buf.MaskSize])
		a := categorical.Sample(l.rng, l.logp)
		actions[i] = float32(a)
		buf.Action[from+i] = float32(a)
		buf.LogProb[from+i] = float32(l.logp[a])
		buf.Value[from+i] = row[l.value]
	}
	return nil
}

// Observe implements [agents.Learner].
func (l *Learner) Observe(next *envs.Batch) error {
	buf := l.buf
	from, to := buf.Rows()
	for i := range buf.N {
		if r := next.Reward[i]; math.IsNaN(r) || math.IsInf(r, 0) {
			return fmt.Errorf("ppo: reward %v of environment %d at timestep %d", r, i, l.numTimesteps+i)
		}
	}
	copy(buf.Reward[from:to], next.Reward)
	copy(buf.Terminated[from:to], next.Terminated)
	copy(buf.Truncated[from:to], next.Truncated)
	if err := l.bootstrap(next, from); err != nil {
		return err
	}
	l.numTimesteps += buf.N
	buf.Advance()
	if buf.Full() {
		return l.valueOfNext(next.Obs, to-buf.N)
	}
	return nil
}

// bootstrap sets the value of what followed the step at rows from …: of the final observation
// where the time limit ended an episode [d1], and of the next step's observation elsewhere,
// which is known when that step is recorded, so that only truncated rows are filled in here.
func (l *Learner) bootstrap(next *envs.Batch, from int) error {
	any := false
	for i := range l.buf.N {
		any = any || (next.Truncated[i] && !next.Terminated[i])
	}
	if from > 0 { // the values of this step's observations, for the step before
		for i := range l.buf.N {
			if prev := from - l.buf.N + i; !l.buf.Terminated[prev] && !l.buf.Truncated[prev] {
				l.buf.NextValue[prev] = l.buf.Value[from+i]
			}
		}
	}
	if !any {
		return nil
	}
	out, err := l.net.Forward(next.FinalObs, l.buf.N)
	if err != nil {
		return fmt.Errorf("ppo: value of final observations: %w", err)
	}
	for i := range l.buf.N {
		if next.Truncated[i] && !next.Terminated[i] {
			l.buf.NextValue[from+i] = out[i*l.spec.Outputs()+l.value]
		}
	}
	return nil
}

// valueOfNext sets the values that follow the last step of the rollout.
func (l *Learner) valueOfNext(obs []float32, from int) error {
	out, err := l.net.Forward(obs, l.buf.N)
	if err != nil {
		return fmt.Errorf("ppo: value of the last observations: %w", err)
	}
	for i := range l.buf.N {
		if !l.buf.Terminated[from+i] && !l.buf.Truncated[from+i] {
			l.buf.NextValue[from+i] = out[i*l.spec.Outputs()+l.value]
		}
	}
	return nil
}

// Update implements [agents.Learner]: once the rollout is full, it makes NEpochs passes over
// it in shuffled minibatches [6].
func (l *Learner) Update() (agents.Metrics, error) {
	if !l.buf.Full() {
		return nil, nil
	}
	progress := 1 - float64(l.numTimesteps)/float64(l.cfg.TotalTimesteps)                                               // this rollout counted, as in SB3
	rate, clip, clipVf := l.cfg.LearningRate.At(progress), l.cfg.ClipRange.At(progress), l.cfg.ClipRangeVf.At(progress) // [4]
	l.buf.Estimate(l.cfg.Gamma, l.cfg.GAELambda)                                                                        // [5]
	for i := range l.perm {
		l.perm[i] = i
	}
	var sum, epoch, last stats
epochs:
	for range l.cfg.NEpochs {
		l.nUpdates++
		epoch = stats{}
		l.rng.Shuffle(len(l.perm), func(i, j int) { l.perm[i], l.perm[j] = l.perm[j], l.perm[i] })
		for i := 0; i < len(l.perm); i += l.cfg.BatchSize {
			s, err := l.gradient(l.perm[i:i+l.cfg.BatchSize], clip, clipVf)
			if err != nil {
				return nil, err
			}
			sum.add(s)
			epoch.add(s)
			last = s
			if l.cfg.TargetKL > 0 && s.approxKL > 1.5*l.cfg.TargetKL { // as SB3, before the step
				break epochs
			}
			optim.ClipGradNorm(l.params, l.cfg.MaxGradNorm) // [11]
			l.adam.Step(rate)
		}
	}
	m := sum.metrics()
	m["train/approx_kl"] = epoch.approxKL / epoch.minibatches // as SB3, of the last epoch
	m["train/loss"] = last.loss                               // as SB3, of the last minibatch
	m["train/learning_rate"], m["train/clip_range"] = rate, clip
	if l.cfg.ClipRangeVf.Initial > 0 {
		m["train/clip_range_vf"] = clipVf
	}
	m["train/n_updates"] = float64(l.nUpdates)
	m["train/explained_variance"] = rollout.ExplainedVariance(l.buf.Value, l.buf.Ret)
	l.buf.Clear()
	return m, nil
}

// gradient computes the loss of the given rows of the rollout and leaves its gradient in the
// parameters.
func (l *Learner) gradient(rows []int, clip, clipVf float64) (stats, error) {
	n, k := len(rows), l.spec.Outputs()
	for i, r := range rows {
		copy(l.batch.obs[i*l.buf.ObsSize:(i+1)*l.buf.ObsSize], l.buf.Obs[r*l.buf.ObsSize:])
		l.batch.adv[i] = l.buf.Adv[r]
	}
	if l.cfg.NormalizeAdvantage {
		rollout.Normalize(l.batch.adv[:n]) // [7]
	}
	out, err := l.net.Forward(l.batch.obs[:n*l.buf.ObsSize], n)
	if err != nil {
		return stats{}, fmt.Errorf("ppo: update: %w", err)
	}
	var s stats
	dOut := l.batch.dOut[:n*k]
	clear(dOut)
	for i, r := range rows {
		s.add(l.loss(r, out[i*k:(i+1)*k], dOut[i*k:(i+1)*k], float64(l.batch.adv[i]), clip, clipVf, 1/float64(n)))
	}
	s.minibatches = 1
	s.loss = s.policy + l.cfg.EntCoef*s.entropyLoss + l.cfg.VfCoef*s.value
	if math.IsNaN(s.loss) || math.IsInf(s.loss, 0) {
		return s, fmt.Errorf("ppo: loss %v at timestep %d, epoch %d (policy %v, value %v, entropy %v)",
			s.loss, l.numTimesteps, l.nUpdates, s.policy, s.value, s.entropyLoss)
	}
	if err := l.net.Backward(dOut); err != nil {
		return s, fmt.Errorf("ppo: update: %w", err)
	}
	return s, nil
}

// loss returns row r's part of the loss of a minibatch, each row having the given weight, and
// adds its gradient with respect to the outputs to dOut.
func (l *Learner) loss(r int, out, dOut []float32, adv, clip, clipVf, weight float64) stats {
	var s stats
	action := int(l.buf.Action[r])
	mask := l.buf.Mask[r*l.buf.MaskSize : (r+1)*l.buf.MaskSize]
	categorical.LogProbs(l.logp, out[:l.actions], mask)
	logRatio := l.logp[action] - float64(l.buf.LogProb[r])
	ratio := math.Exp(logRatio)

	// Clipped surrogate objective [8]. Where the clipped term is the smaller, the gradient is 0.
	clipped := min(max(ratio, 1-clip), 1+clip)
	s.policy = -weight * min(ratio*adv, clipped*adv)
	dLogProb := 0.0
	if ratio*adv <= clipped*adv {
		dLogProb = -weight * ratio * adv
	}
	entropy := categorical.Entropy(l.logp)
	s.entropyLoss = -weight * entropy // [10]
	categorical.Grad(dOut[:l.actions], l.logp, action, dLogProb, -weight*l.cfg.EntCoef)

	// Value loss, clipped only if asked for [9]. It is the mean square, without a half, as SB3's.
	value, old, ret := float64(out[l.value]), float64(l.buf.Value[r]), float64(l.buf.Ret[r])
	moves := true
	if l.cfg.ClipRangeVf.Initial > 0 { // a linear range that has fallen to 0 clips all change
		if d := value - old; math.Abs(d) > clipVf {
			clipped := old + math.Copysign(clipVf, d)
			// A value that has moved away from its return is pulled back [9].
			if !l.cfg.ClipVLoss || math.Abs(clipped-ret) >= math.Abs(value-ret) {
				value, moves = clipped, false
			}
		}
	}
	s.value = weight * (value - ret) * (value - ret)
	if moves {
		dOut[l.value] += float32(weight * l.cfg.VfCoef * 2 * (value - ret))
	}

	s.approxKL = weight * (ratio - 1 - logRatio) // [12]: the estimator k3 of http://joschu.net/blog/kl-approx.html
	if math.Abs(ratio-1) > clip {
		s.clipFraction = weight
	}
	return s
}

// stats are sums over rows, and then over minibatches.
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
