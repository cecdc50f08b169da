// Package a2c implements advantage actor-critic, the synchronous form of A3C, for actions of every kind,
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
	"context"
	"fmt"
	"io"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/distribution"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/rollout"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
	"github.com/kubernasium/kubernasium/models/team"
)

// Algo is the name of the algorithm in checkpoints and on the command line.
const Algo = "a2c"

// Learner is an A2C agent. Act and Observe fill the collector's rollout, Update learns from it and
// clears it. It is not safe for concurrent use.
type Learner struct {
	cfg       Config
	actor     *onpolicy.Actor     // network, optimizer, normalization, random numbers, counters
	collector *onpolicy.Collector // fills the rollout
	dOut      []float32
	out       []float32 // the network's outputs for the rollout's rows
	losses    []onpolicy.Losses
	dists     []distribution.Distribution
	block     func(worker, block int) // blockLosses
}

// blockRows is the number of rows whose losses a worker computes at a time.
const blockRows = 64

var _ imitation.Learner = (*Learner)(nil)

// New returns a learner for the environments. Its network, made by newNetwork, has separate towers for policy and
// value, initialized orthogonally with gains √2, 0.01 and 1. All random numbers come from seed, except the network's
// first parameters.
func New(cfg Config, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (*Learner, error) {
	if err := cfg.validate(env.NumEnvs); err != nil {
		return nil, err
	}
	spec, err := cfg.Network.ActorCritic(env.Obs, env.Act)
	if err != nil {
		return nil, err
	}
	a, err := onpolicy.NewActor(onpolicy.Settings{
		Algo: Algo, Config: cfg, Normalize: cfg.Normalization, Gamma: cfg.Gamma, Env: env, Spec: spec, NewNetwork: newNetwork, Seed: seed,
	})
	if err != nil {
		return nil, err
	}
	if cfg.UseRMSProp {
		a.Optimizer = optim.NewRMSprop(a.Params, optim.RMSpropConfig{Alpha: 0.99, Eps: cfg.RMSPropEps}) // [5]
	} else {
		a.Optimizer = optim.NewAdam(a.Params, optim.AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-5})
	}
	c, err := onpolicy.NewCollector(a, cfg.NSteps, 0)
	if err != nil {
		return nil, err
	}
	rows := cfg.NSteps * env.NumEnvs
	l := &Learner{cfg: cfg, actor: a, collector: c, dOut: make([]float32, rows*spec.Outputs()), losses: make([]onpolicy.Losses, rows)}
	l.block = l.blockLosses
	return l, nil
}

// Act implements [agents.Policy]: it samples from the masked policy and records the step.
func (l *Learner) Act(b *envs.Batch, actions []float32) error { return l.collector.Act(b, actions) }

// Observe implements [agents.Learner]: it records the results, with the values that bootstrap
// it [3].
func (l *Learner) Observe(next *envs.Batch) error { return l.collector.Observe(next) }

// Update implements [agents.Learner]: once the rollout is full, it makes one gradient step over
// it [1].
func (l *Learner) Update() (agents.Metrics, error) {
	a, buf := l.actor, l.collector.Buf
	if !buf.Full() {
		return nil, nil
	}
	defer a.Team.Rest()
	rate := l.cfg.LearningRate.At(l.cfg.Remaining(a.NumTimesteps()))
	buf.Estimate(a.Team, l.cfg.Gamma, l.cfg.GAELambda) // [2]
	explained := rollout.ExplainedVariance(buf.Value, buf.Ret)
	if l.cfg.NormalizeAdvantage {
		rollout.Normalize(buf.Adv)
	}
	s, err := l.gradient()
	if err != nil {
		return nil, err
	}
	optim.ClipGradNorm(a.Params, l.cfg.MaxGradNorm) // [6]
	a.Optimizer.Step(rate)
	a.NUpdates++
	buf.Clear()
	return s.Metrics(rate, explained, a.NUpdates), nil
}

// gradient returns the losses of the rollout and leaves their gradient in the parameters.
func (l *Learner) gradient() (onpolicy.Losses, error) {
	a, buf := l.actor, l.collector.Buf
	n := len(buf.Adv)
	var s onpolicy.Losses
	out, err := a.Net.Forward(buf.Obs, n)
	if err != nil {
		return s, fmt.Errorf("a2c: update: %w", err)
	}
	l.out, l.dists = out, a.Dists()
	a.Team.Do(team.Blocks(n, blockRows), l.block)
	for _, x := range l.losses {
		s.Add(x)
	}
	if err := s.Check(Algo, l.cfg.EntCoef, l.cfg.VfCoef, func() string {
		return fmt.Sprintf("timestep %d, update %d, from %s", a.NumTimesteps(), a.NUpdates+1, buf.NonFiniteSource())
	}); err != nil {
		return s, err
	}
	if err := a.Net.Backward(l.dOut); err != nil {
		return s, fmt.Errorf("a2c: update: %w", err)
	}
	return s, nil
}

// blockLosses sets the losses of a block of the rollout's rows and their gradients.
func (l *Learner) blockLosses(worker, block int) {
	a, buf, k := l.actor, l.collector.Buf, l.actor.Spec().Outputs()
	lo, hi := team.Block(block, len(buf.Adv), blockRows)
	clear(l.dOut[lo*k : hi*k])
	for r := lo; r < hi; r++ {
		action, mask := l.collector.Row(r) // [4]
		taken := onpolicy.Taken{Action: action, Mask: mask, Adv: float64(buf.Adv[r]), Ret: buf.Ret[r]}
		l.losses[r] = a.Loss(l.dists[worker], taken, l.out[r*k:(r+1)*k], l.dOut[r*k:(r+1)*k], 1/float64(len(buf.Adv)), l.cfg.EntCoef, l.cfg.VfCoef)
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
