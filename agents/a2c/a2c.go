// Package a2c is advantage actor-critic, the synchronous form of A3C, for actions of every kind,
// with masks.
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

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/rollout"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

// Algo is the name of the algorithm in checkpoints and on the command line.
const Algo = "a2c"

// NetworkSpec returns the network that cfg asks for: separate towers for policy and value, with
// orthogonal initialization with gains √2, 0.01 and 1.
func NetworkSpec(cfg Config, obs, act space.Space) (models.Spec, error) {
	return cfg.Network.ActorCritic(obs, act)
}

// Learner is an A2C agent. It is not safe for concurrent use.
type Learner struct {
	*onpolicy.Collector
	cfg  Config
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
	c, err := onpolicy.NewCollector(cfg.NSteps, onpolicy.Settings{
		Algo: Algo, Config: cfg, Normalize: cfg.Normalization, Gamma: cfg.Gamma, Env: env, Spec: spec, Net: net, Seed: seed,
	})
	if err != nil {
		return nil, err
	}
	if cfg.UseRMSProp {
		c.Optimizer = optim.NewRMSprop(c.Params, optim.RMSpropConfig{Alpha: 0.99, Eps: cfg.RMSPropEps}) // [5]
	} else {
		c.Optimizer = optim.NewAdam(c.Params, optim.AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-5})
	}
	return &Learner{Collector: c, cfg: cfg, dOut: make([]float32, cfg.NSteps*env.NumEnvs*spec.Outputs())}, nil
}

// Update implements [agents.Learner]: once the rollout is full, it makes one gradient step over
// it [1].
func (l *Learner) Update() (agents.Metrics, error) {
	if !l.Buf.Full() {
		return nil, nil
	}
	rate := l.cfg.LearningRate.At(1 - float64(l.NumTimesteps())/float64(l.cfg.TotalTimesteps))
	l.Buf.Estimate(l.cfg.Gamma, l.cfg.GAELambda) // [2]
	explained := rollout.ExplainedVariance(l.Buf.Value, l.Buf.Ret)
	if l.cfg.NormalizeAdvantage {
		rollout.Normalize(l.Buf.Adv)
	}
	s, err := l.gradient()
	if err != nil {
		return nil, err
	}
	optim.ClipGradNorm(l.Params, l.cfg.MaxGradNorm) // [6]
	l.Optimizer.Step(rate)
	l.NUpdates++
	l.Buf.Clear()
	return s.Metrics(rate, explained, l.NUpdates), nil
}

// gradient returns the losses of the rollout and leaves their gradient in the parameters.
func (l *Learner) gradient() (onpolicy.Losses, error) {
	n, k := len(l.Buf.Adv), l.Spec().Outputs()
	var s onpolicy.Losses
	out, err := l.Net.Forward(l.Buf.Obs, n)
	if err != nil {
		return s, fmt.Errorf("a2c: update: %w", err)
	}
	clear(l.dOut)
	for r := range n {
		action, mask := l.Row(r) // [4]
		taken := onpolicy.Taken{Action: action, Mask: mask, Adv: float64(l.Buf.Adv[r]), Ret: l.Buf.Ret[r]}
		l.AddLoss(&s, taken, out[r*k:(r+1)*k], l.dOut[r*k:(r+1)*k], 1/float64(n), l.cfg.EntCoef, l.cfg.VfCoef)
	}
	if err := s.Check(Algo, l.cfg.EntCoef, l.cfg.VfCoef, func() string {
		return fmt.Sprintf("timestep %d, update %d, from %s", l.NumTimesteps(), l.NUpdates+1, l.Buf.Culprit())
	}); err != nil {
		return s, err
	}
	if err := l.Net.Backward(l.dOut); err != nil {
		return s, fmt.Errorf("a2c: update: %w", err)
	}
	return s, nil
}
