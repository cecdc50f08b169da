// Package a2c is advantage actor-critic, the synchronous form of A3C, for Discrete actions with
// masks.
//
// Defaults, losses and the order of events follow Stable-Baselines3 2.9. The comments cite
// these details by number:
//
//	[1] Rollouts of n_steps in each environment, one gradient step for each rollout, the
//	    gradients of policy, entropy and value summed: Mnih et al., "Asynchronous Methods for
//	    Deep Reinforcement Learning", arXiv:1602.01783, algorithm S3.
//	[2] The advantage is the λ-return less the value, with λ = 1 the n-step return: Schulman et
//	    al., arXiv:1506.02438, equation 16.
//	[3] A truncated episode bootstraps from its final observation: Pardo et al.,
//	    arXiv:1712.00378, section 3.
//	[4] Actions masked out have probability 0: Huang and Ontañón, arXiv:2006.14171.
//	[5] RMSprop with ε = 1e-5 outside the root, as PyTorch has it; the original has it inside.
//	[6] The gradient of all parameters together is clipped.
package a2c

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

// NetworkSpec returns the network that cfg asks for: separate towers for policy and value, with
// orthogonal initialization with gains √2, 0.01 and 1.
func NetworkSpec(cfg Config, obs, act space.Space) (models.Spec, error) {
	d, ok := act.(space.Discrete)
	if !ok {
		return models.Spec{}, fmt.Errorf("a2c: actions of kind %s, want discrete", act.Describe().Kind)
	}
	spec := models.ActorCritic(obs.Size(), d.N, cfg.NetArch, cfg.ActivationFn)
	return spec, spec.Validate()
}

// Learner is an A2C agent. It is not safe for concurrent use.
type Learner struct {
	cfg       Config
	env       agents.EnvInfo
	seed      uint64
	spec      models.Spec
	net       models.Network
	params    []models.Param
	optimizer optim.Optimizer
	src       *pcg.Source
	rng       *rand.Rand
	buf       *rollout.Buffer
	actions   int // number of actions
	value     int // offset of the value in an output row

	numTimesteps int // environment steps observed
	nUpdates     int

	logp []float64 // of one row
	dOut []float32
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
	if cfg.UseRMSProp {
		l.optimizer = optim.NewRMSprop(l.params, optim.RMSpropConfig{Alpha: 0.99, Eps: cfg.RMSPropEps}) // [5]
	} else {
		l.optimizer = optim.NewAdam(l.params, optim.AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-5})
	}
	l.rng = rand.New(l.src)
	_, l.actions = spec.Head("action_net")
	l.value, _ = spec.Head("value_net")
	l.buf = rollout.New(cfg.NSteps, env.NumEnvs, env.Obs.Size(), env.Act.Size(), space.MaskSize(env.Act))
	l.logp = make([]float64, l.actions)
	l.dOut = make([]float32, cfg.NSteps*env.NumEnvs*spec.Outputs())
	return l, nil
}

// Spec returns the description of the network.
func (l *Learner) Spec() models.Spec { return l.spec }

// NumTimesteps returns the number of environment steps observed.
func (l *Learner) NumTimesteps() int { return l.numTimesteps }

// Act implements [agents.Policy]: it samples from the masked policy [4] and remembers what
// an update needs of the moment.
func (l *Learner) Act(b *envs.Batch, actions []float32) error {
	buf := l.buf
	from, to := buf.Rows()
	out, err := l.net.Forward(b.Obs, buf.N)
	if err != nil {
		return fmt.Errorf("a2c: act: %w", err)
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
			return fmt.Errorf("a2c: reward %v of environment %d at timestep %d", r, i, l.numTimesteps+i)
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
// where the time limit ended an episode [3], and of the next step's observation elsewhere,
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
		return fmt.Errorf("a2c: value of final observations: %w", err)
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
		return fmt.Errorf("a2c: value of the last observations: %w", err)
	}
	for i := range l.buf.N {
		if !l.buf.Terminated[from+i] && !l.buf.Truncated[from+i] {
			l.buf.NextValue[from+i] = out[i*l.spec.Outputs()+l.value]
		}
	}
	return nil
}

// Update implements [agents.Learner]: once the rollout is full, it makes one gradient step over
// it [1].
func (l *Learner) Update() (agents.Metrics, error) {
	if !l.buf.Full() {
		return nil, nil
	}
	rate := l.cfg.LearningRate.At(1 - float64(l.numTimesteps)/float64(l.cfg.TotalTimesteps))
	l.buf.Estimate(l.cfg.Gamma, l.cfg.GAELambda) // [2]
	explained := rollout.ExplainedVariance(l.buf.Value, l.buf.Ret)
	if l.cfg.NormalizeAdvantage {
		rollout.Normalize(l.buf.Adv)
	}
	s, err := l.gradient()
	if err != nil {
		return nil, err
	}
	optim.ClipGradNorm(l.params, l.cfg.MaxGradNorm) // [6]
	l.optimizer.Step(rate)
	l.nUpdates++
	l.buf.Clear()
	return agents.Metrics{
		"train/policy_loss": s.policy, "train/value_loss": s.value, "train/entropy_loss": s.entropy,
		"train/explained_variance": explained, "train/learning_rate": rate, "train/n_updates": float64(l.nUpdates),
	}, nil
}

// losses are the parts of the loss; entropy is the negative of the entropy's mean.
type losses struct{ policy, value, entropy float64 }

// gradient returns the losses of the rollout and leaves their gradient in the parameters.
func (l *Learner) gradient() (losses, error) {
	n, k := len(l.buf.Adv), l.spec.Outputs()
	out, err := l.net.Forward(l.buf.Obs, n)
	if err != nil {
		return losses{}, fmt.Errorf("a2c: update: %w", err)
	}
	var s losses
	clear(l.dOut)
	for r := range n {
		l.loss(&s, r, out[r*k:(r+1)*k], l.dOut[r*k:(r+1)*k], 1/float64(n))
	}
	if loss := s.policy + l.cfg.EntCoef*s.entropy + l.cfg.VfCoef*s.value; math.IsNaN(loss) || math.IsInf(loss, 0) {
		return s, fmt.Errorf("a2c: loss %v at timestep %d, update %d, from %s (policy %v, value %v, entropy %v)",
			loss, l.numTimesteps, l.nUpdates+1, l.buf.Culprit(), s.policy, s.value, s.entropy)
	}
	if err := l.net.Backward(l.dOut); err != nil {
		return s, fmt.Errorf("a2c: update: %w", err)
	}
	return s, nil
}

// loss adds row r's part of the losses, each row having the given weight, to s, and the
// gradient of their sum with respect to the outputs to dOut. The value loss is the mean square,
// without a half, as Stable-Baselines3's.
func (l *Learner) loss(s *losses, r int, out, dOut []float32, weight float64) {
	action, adv := int(l.buf.Action[r]), float64(l.buf.Adv[r])
	categorical.LogProbs(l.logp, out[:l.actions], l.buf.Mask[r*l.buf.MaskSize:(r+1)*l.buf.MaskSize])
	s.policy -= weight * adv * l.logp[action]
	s.entropy -= weight * categorical.Entropy(l.logp)
	categorical.Grad(dOut[:l.actions], l.logp, action, -weight*adv, -weight*l.cfg.EntCoef)
	d := float64(out[l.value]) - float64(l.buf.Ret[r])
	s.value += weight * d * d
	dOut[l.value] += float32(weight * l.cfg.VfCoef * 2 * d)
}
