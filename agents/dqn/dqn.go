// Package dqn implements deep Q-learning for Discrete actions with masks, with the options double
// Q-learning, dueling heads, n-step returns and prioritized replay.
//
// Defaults, loss and order of events follow Stable-Baselines3 2.9. The comments cite these
// details by number:
//
//	[1] Experience replay and a target network: Mnih et al., "Human-level control through deep
//	    reinforcement learning", Nature 518, 2015, algorithm 1.
//	[2] The Huber loss with threshold 1, the mean over the batch, as torch's smooth_l1_loss.
//	    Mnih et al. clip the gradient of the squared error, which is the same.
//	[3] Double Q-learning: van Hasselt, Guez and Silver, arXiv:1509.06461, equation 4.
//	[4] Dueling heads: Wang et al., arXiv:1511.06581, equation 9.
//	[5] n-step returns: Hessel et al., "Rainbow", arXiv:1710.02298, section "Multi-step learning".
//	[6] Prioritized replay: Schaul et al., arXiv:1511.05952, algorithm 1.
//	[7] A time limit is no terminal state: Pardo et al., arXiv:1712.00378, section 3.
//	[8] Masks apply to random actions, to greedy ones and in the target's maximum. The value of
//	    an action that is never permitted is never trained, so it would be noise.
//	[9] Weights and biases start with PyTorch's default, as Stable-Baselines3 leaves it for DQN,
//	    and not orthogonal. Action values then start near 0.
//
// README.md lists the differences from Stable-Baselines3.
package dqn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/categorical"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/agents/qlearning"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

// networkSpec returns the network of cfg: one tower with a head of action values,
// or, if Dueling, with heads of advantages and of one state value [4].
func (cfg *Config) networkSpec(obs, act space.Space) (models.Spec, error) {
	n := policies.Network{Policy: cfg.Policy, NetArch: cfg.NetArch, ActivationFn: cfg.ActivationFn, LayerNorm: cfg.LayerNorm, Pool: cfg.Pool}
	return qlearning.NetworkSpec(Algo, n, obs, act, cfg.Dueling)
}

// Learner is a DQN agent. It is not safe for concurrent use.
type Learner struct {
	cfg  Config
	env  agents.EnvInfo
	seed uint64
	spec models.Spec
	nets *qlearning.Networks
	head qlearning.Head
	src  *pcg.Source
	rng  *rand.Rand
	buf  *replay.Buffer

	counts counts
	acted  bool // Observe has not followed Act yet

	obs     []float32 // of the last Act
	mask    []bool
	actions []float32
	explore []bool
	q       []float32 // of one row
	batch   *replay.Batch
	sample  func(beta float64) // fills batch from buf; tests replace it
	dOut    []float32
	next    []float32 // values of the next states
	td      []float64
	margin  float64 // of the teacher's actions, in Imitate only
	right   float64 // in Imitate only: share of the batch in which the teacher's action has the highest value
}

var _ agents.Learner = (*Learner)(nil)

// New returns a learner for the environments. It makes two networks with
// newNetwork, the one that learns and then the target network, and gives both the same first
// parameters [9]. All other random numbers come from seed.
func New(cfg Config, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (*Learner, error) {
	if err := cfg.validate(env.NumEnvs); err != nil {
		return nil, err
	}
	spec, err := cfg.networkSpec(env.Obs, env.Act)
	if err != nil {
		return nil, err
	}
	l := &Learner{cfg: cfg, env: env, seed: seed, spec: spec, head: qlearning.NewHead(spec), src: pcg.New(seed)}
	memory := replay.Config{
		Size: cfg.BufferSize, NumEnvs: env.NumEnvs, ObsSize: env.Obs.Size(), MaskSize: l.head.Actions, NSteps: cfg.NSteps, Gamma: cfg.Gamma,
		Prioritized: cfg.PrioritizedReplay, Alpha: cfg.PrioritizedReplayAlpha, Eps: cfg.PrioritizedReplayEps,
	}
	if size := memory.Bytes(); size > MaxReplayBytes {
		return nil, fmt.Errorf("dqn: buffer_size %d of observations of %d numbers and %d actions takes %.1f GiB, want at most %d GiB: a buffer_size of at most %d",
			cfg.BufferSize, memory.ObsSize, memory.MaskSize, float64(size)/(1<<30), MaxReplayBytes>>30, int64(cfg.BufferSize)*MaxReplayBytes/size)
	}
	n, k, actions := env.NumEnvs, cfg.BatchSize, l.head.Actions
	l.rng = rand.New(l.src)
	if l.nets, err = qlearning.New(Algo, spec, newNetwork, k, l.rng); err != nil { // [9]
		return nil, err
	}
	l.buf = replay.New(memory)
	l.obs, l.mask = make([]float32, n*env.Obs.Size()), make([]bool, n*actions)
	l.actions, l.explore, l.q = make([]float32, n), make([]bool, n), make([]float32, actions)
	l.batch, l.dOut = l.buf.NewBatch(k), make([]float32, k*spec.Outputs())
	l.sample = func(beta float64) { l.buf.Sample(l.rng, beta, l.batch) } // [5], [6]
	l.next, l.td = make([]float32, k), make([]float64, k)
	return l, nil
}

// MaxReplayBytes is the most memory that a replay buffer may take.
const MaxReplayBytes = 4 << 30

// Spec returns the description of the network.
func (l *Learner) Spec() models.Spec { return l.spec }

// NumTimesteps returns the number of environment steps observed.
func (l *Learner) NumTimesteps() int { return l.counts.Timesteps }

// Collected reports whether Update has handled the last TrainFreq steps of the environments. The
// learner can then be saved as after an update, even before LearningStarts is over.
func (l *Learner) Collected() bool { return !l.acted && l.counts.SinceUpdate == 0 }

// progressRemaining returns the remaining share of the training.
func (l *Learner) progressRemaining() float64 {
	return l.cfg.Remaining(l.counts.Timesteps)
}

// Act implements [agents.Policy]: with probability ε, and always before LearningStarts, it chooses a
// permitted action at random, and otherwise the permitted action of the highest value [8].
func (l *Learner) Act(b *envs.Batch, actions []float32) error {
	eps, n, any := l.cfg.explorationRate(l.progressRemaining()), l.head.Actions, false
	if l.counts.Timesteps < l.cfg.LearningStarts {
		eps = 1
	}
	for i := range l.explore {
		l.explore[i] = l.rng.Float64() < eps
		any = any || !l.explore[i]
	}
	var out []float32
	if any {
		var err error
		if out, err = l.nets.Online.Forward(b.Obs, len(l.explore)); err != nil {
			return fmt.Errorf("dqn: act: %w", err)
		}
	}
	for i, explore := range l.explore {
		mask := b.Mask[i*n : (i+1)*n]
		if explore {
			actions[i] = float32(randomAction(l.rng, mask))
		} else {
			actions[i] = float32(categorical.Mode(l.head.Values(l.q, out, i), mask))
		}
	}
	l.Take(b, actions)
	return nil
}

// Take records that another policy took the given permitted actions at b. It replaces Act and draws no random number;
// Observe follows. Q-learning is off-policy, and so learns from them as from its own actions.
func (l *Learner) Take(b *envs.Batch, actions []float32) {
	copy(l.obs, b.Obs)
	copy(l.mask, b.Mask)
	copy(l.actions, actions)
	l.acted = true
}

// randomAction returns a permitted action; all have the same probability.
func randomAction(rng *rand.Rand, mask []bool) int {
	permitted := 0
	for _, ok := range mask {
		if ok {
			permitted++
		}
	}
	if permitted == 0 {
		panic("dqn: the mask permits no action")
	}
	k := rng.IntN(permitted)
	for a, ok := range mask {
		if !ok {
			continue
		}
		if k == 0 {
			return a
		}
		k--
	}
	panic("unreachable")
}

// Observe implements [agents.Learner]. It stores the transitions [1], and every
// TargetUpdateInterval steps it updates the target network.
func (l *Learner) Observe(next *envs.Batch) error {
	if !l.acted {
		return fmt.Errorf("dqn: observe at timestep %d without an Act before it", l.counts.Timesteps)
	}
	if err := agents.CheckRewards(Algo, next.Reward, l.counts.Timesteps); err != nil {
		return err
	}
	l.buf.Add(l.obs, l.mask, l.actions, next)
	l.acted = false
	l.counts.Timesteps += len(l.actions)
	l.counts.Steps++
	l.counts.SinceUpdate++
	if l.counts.Steps%max(l.cfg.TargetUpdateInterval/len(l.actions), 1) == 0 {
		l.updateTarget()
	}
	return nil
}

// updateTarget moves the target network towards the online network by Tau.
func (l *Learner) updateTarget() {
	tau, rest := float32(l.cfg.Tau), float32(1-l.cfg.Tau)
	for i, p := range l.nets.Params {
		t := l.nets.TargetParams[i].Value
		for j, v := range p.Value {
			t[j] = float32(rest*t[j]) + float32(tau*v)
		}
	}
}

// Update implements [agents.Learner]: after each TrainFreq steps of the environments, and once
// LearningStarts is over, it makes GradientSteps gradient steps.
func (l *Learner) Update() (agents.Metrics, error) {
	if l.counts.SinceUpdate < l.cfg.TrainFreq {
		return nil, nil
	}
	steps := l.cfg.GradientSteps
	if steps < 0 {
		steps = l.counts.SinceUpdate * len(l.actions)
	}
	l.counts.SinceUpdate = 0
	if l.counts.Timesteps-l.counts.BufferFrom <= l.cfg.LearningStarts || l.buf.Len() == 0 {
		return nil, nil
	}
	progress := l.progressRemaining()
	rate, loss := l.cfg.LearningRate.At(progress), 0.0
	for range steps {
		x, err := l.gradient(l.cfg.beta(progress))
		if err != nil {
			return nil, err
		}
		loss += x / float64(steps)
		optim.ClipGradNorm(l.nets.Params, l.cfg.MaxGradNorm)
		l.nets.Adam.Step(rate)
		l.counts.NUpdates++
	}
	return agents.Metrics{
		"train/loss": loss, "train/n_updates": float64(l.counts.NUpdates), "train/learning_rate": rate,
		"rollout/exploration_rate": l.cfg.explorationRate(progress),
	}, nil
}

// gradient samples a batch, leaves the gradient of its loss in the parameters and returns the
// loss.
func (l *Learner) gradient(beta float64) (float64, error) {
	l.sample(beta)
	loss, err := l.learn()
	if err != nil {
		return 0, err
	}
	l.buf.SetPriorities(l.batch, l.td)
	return loss, nil
}

// learn leaves the gradient of the batch's loss in the parameters, and the errors in td.
func (l *Learner) learn() (float64, error) {
	if err := l.nets.NextValues(l.next, l.batch.NextObs, l.batch.NextMask, l.cfg.DoubleQ); err != nil { // [3], [8]
		return 0, err
	}
	n, k := len(l.td), l.spec.Outputs()
	out, err := l.nets.Online.Forward(l.batch.Obs, n)
	if err != nil {
		return 0, fmt.Errorf("dqn: update: %w", err)
	}
	clear(l.dOut)
	loss := 0.0
	l.right = 0
	for i := range l.td {
		action := int(l.batch.Action[i])
		target := float64(l.batch.Return[i]) + float64(l.batch.Discount[i])*float64(l.next[i])
		q := l.head.Values(l.q, out, i)
		l.td[i] = float64(q[action]) - target
		weight := l.batch.Weight[i] / float64(n)
		x, slope := qlearning.Huber(l.td[i]) // [2]
		loss += weight * x
		l.head.Backward(l.dOut[i*k:(i+1)*k], action, weight*slope)
		if l.margin > 0 {
			loss += l.marginLoss(i, q, l.dOut[i*k:(i+1)*k], weight)
		}
	}
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		bad := max(0, slices.IndexFunc(l.td, func(x float64) bool { return x-x != 0 }))
		return 0, fmt.Errorf("dqn: loss %v at timestep %d, gradient step %d, first at row %d of the batch (return %v, next value %v)",
			loss, l.counts.Timesteps, l.counts.NUpdates+1, bad, l.batch.Return[bad], l.next[bad])
	}
	if err := l.nets.Online.Backward(l.dOut); err != nil {
		return 0, fmt.Errorf("dqn: update: %w", err)
	}
	return loss, nil
}
