// Package cql implements conservative Q-learning from recorded transitions, for Discrete actions with
// masks. The comments cite these details by number:
//
//	[1] The conservative term α·(log Σ exp Q(o, ·) − Q(o, a)), which lowers the values of actions
//	    that the data lack: Kumar et al., "Conservative Q-Learning for Offline Reinforcement
//	    Learning", arXiv:2006.04779, equation 4, CQL(H).
//	[2] Double Q-learning with a target network: van Hasselt, Guez and Silver, arXiv:1509.06461,
//	    equation 4.
//	[3] The Huber loss with threshold 1, the mean over the batch.
//	[4] A time limit is no terminal state: Pardo et al., arXiv:1712.00378, section 3.
//	[5] The sum and the maximum are over the permitted actions only.
//	[6] Weights and biases start with PyTorch's default.
//
// README.md lists the differences from d3rlpy's DiscreteCQL.
package cql

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/categorical"
	"github.com/kubernasium/kubernasium/agents/offline"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/agents/qlearning"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

// Algo is the name of the algorithm in checkpoints and on the command line.
const Algo = "cql"

// networkSpec returns the network of cfg, that of dqn: one tower with a head of action values.
func (cfg *Config) networkSpec(obs, act space.Space) (models.Spec, error) {
	n := policies.Network{Policy: cfg.Policy, NetArch: cfg.NetArch, ActivationFn: cfg.ActivationFn, LayerNorm: cfg.LayerNorm, Pool: cfg.Pool}
	return qlearning.NetworkSpec(Algo, n, obs, act, false)
}

// Learner is a CQL agent. It is not safe for concurrent use.
type Learner struct {
	cfg     Config
	env     agents.EnvInfo
	seed    uint64
	spec    models.Spec
	nets    *qlearning.Networks
	src     *pcg.Source
	rng     *rand.Rand
	updates int // gradient steps made

	data  *offline.Data // nil before Record
	batch *offline.Batch
	dOut  []float32
	next  []float32 // values of the next observations
	prob  []float64 // softmax of one row
}

var _ agents.Learner = (*Learner)(nil)

// New returns a learner for the environments. It makes two networks with
// newNetwork, the one that learns and then the target network, and gives both the same first
// parameters [6]. All other random numbers come from seed.
func New(cfg Config, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (*Learner, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	spec, err := cfg.networkSpec(env.Obs, env.Act)
	if err != nil {
		return nil, err
	}
	n, k := cfg.BatchSize, spec.Outputs()
	l := &Learner{
		cfg: cfg, env: env, seed: seed, spec: spec, src: pcg.New(seed), batch: offline.NewBatch(n, env),
		dOut: make([]float32, n*k), next: make([]float32, n), prob: make([]float64, k),
	}
	l.rng = rand.New(l.src)
	if l.nets, err = qlearning.New(Algo, spec, newNetwork, n, l.rng); err != nil { // [6]
		return nil, err
	}
	return l, nil
}

// Record sets the transitions to learn from, and returns how many there are.
func (l *Learner) Record(t replay.Transitions) (int, error) {
	d, err := offline.NewData(Algo, t, l.env)
	if err != nil {
		return 0, err
	}
	if err := t.CheckNext(Algo, len(l.prob)); err != nil {
		return 0, err
	}
	l.data = d
	return d.Len(), nil
}

// Act implements [agents.Policy]: it takes the permitted action of the highest value.
func (l *Learner) Act(b *envs.Batch, actions []float32) error { return l.Greedy().Act(b, actions) }

// Observe implements [agents.Learner]. Its error is always [offline.ErrOnline].
func (l *Learner) Observe(*envs.Batch) error { return offline.ErrOnline }

// Update implements [agents.Learner]: it makes one gradient step, which counts as a timestep.
func (l *Learner) Update() (agents.Metrics, error) {
	if l.data == nil {
		return nil, offline.ErrNoData
	}
	l.data.Sample(l.rng, l.batch)
	td, conservative, err := l.gradient()
	if err != nil {
		return nil, err
	}
	rate := l.cfg.LearningRate.At(l.cfg.Remaining(l.updates))
	optim.ClipGradNorm(l.nets.Params, l.cfg.MaxGradNorm)
	l.nets.Adam.Step(rate)
	l.updates++
	if l.updates%l.cfg.TargetUpdateInterval == 0 {
		l.nets.CopyToTarget()
	}
	return agents.Metrics{
		"train/loss": td + l.cfg.Alpha*conservative, "train/td_loss": td, "train/conservative_loss": conservative,
		"train/learning_rate": rate, "train/n_updates": float64(l.updates),
	}, nil
}

// gradient leaves the gradient of the batch's loss in the parameters, and returns the means of the two
// parts of the loss: the Huber loss of Q-learning [3] and the conservative term without α [1].
func (l *Learner) gradient() (td, conservative float64, err error) {
	b, n, k := l.batch, len(l.next), len(l.prob)
	if err := l.nets.NextValues(l.next, b.NextObs, b.NextMask, l.cfg.DoubleQ); err != nil { // [2], [5]
		return 0, 0, err
	}
	out, err := l.nets.Online.Forward(b.Obs, n)
	if err != nil {
		return 0, 0, fmt.Errorf("cql: update: %w", err)
	}
	clear(l.dOut)
	weight := 1 / float64(n)
	for i := range n {
		q, d, action := out[i*k:(i+1)*k], l.dOut[i*k:(i+1)*k], int(b.Action[i])
		target := b.Reward[i]
		if !b.Terminated[i] { // [4]
			target += l.cfg.Gamma * float64(l.next[i])
		}
		loss, slope := qlearning.Huber(float64(q[action]) - target)
		td += weight * loss
		conservative += weight * (l.logSumExp(q, b.Mask[i*k:(i+1)*k]) - float64(q[action]))
		for a, p := range l.prob { // the gradient of log Σ exp is the softmax
			d[a] = float32(weight * l.cfg.Alpha * p)
		}
		d[action] += float32(weight * (slope - l.cfg.Alpha))
	}
	if loss := td + conservative; math.IsNaN(loss) || math.IsInf(loss, 0) {
		return td, conservative, fmt.Errorf("cql: loss %v and conservative loss %v at gradient step %d", td, conservative, l.updates+1)
	}
	if err := l.nets.Online.Backward(l.dOut); err != nil {
		return td, conservative, fmt.Errorf("cql: update: %w", err)
	}
	return td, conservative, nil
}

// logSumExp returns log Σ exp q over the permitted actions [5], and sets prob to their softmax.
func (l *Learner) logSumExp(q []float32, mask []bool) float64 {
	most, sum := float64(q[categorical.Mode(q, mask)]), 0.0
	for a := range q {
		l.prob[a] = 0
		if mask[a] {
			l.prob[a] = math.Exp(float64(q[a]) - most)
			sum += l.prob[a]
		}
	}
	for a := range l.prob {
		l.prob[a] /= sum
	}
	return most + math.Log(sum)
}

// NumTimesteps returns the number of gradient steps.
func (l *Learner) NumTimesteps() int { return l.updates }

// state holds the numbers of a learner's state.
type state struct {
	Updates int `json:"n_updates"`
}

// Save implements [agents.Learner]. The checkpoint does not contain the transitions.
func (l *Learner) Save(w io.Writer) error {
	f, err := l.env.NewFile(agents.Record{
		Algo: Algo, Spec: l.spec, Config: l.cfg, State: state{l.updates}, Seed: l.seed, Timesteps: l.updates,
	}, l.nets.Params)
	if err != nil {
		return err
	}
	l.nets.Save(&f)
	if err := agents.PutSource(&f, l.src); err != nil {
		return err
	}
	return models.Write(w, f)
}

// Load implements [agents.Learner]. The checkpoint must be of the same environment, spaces and
// network; hyperparameters are those given to New, and the transitions stay. The learner is unchanged
// after an error.
func (l *Learner) Load(r io.Reader) error {
	var s state
	f, err := l.env.ReadFile(r, Algo, l.spec, &s)
	if err != nil {
		return err
	}
	if s.Updates < 0 {
		return fmt.Errorf("cql: load: %w: state: n_updates is %d, want at least 0", models.ErrMismatch, s.Updates)
	}
	restored, err := agents.Source(f)
	if err != nil {
		return err
	}
	if err := l.nets.Load(f); err != nil {
		return err
	}
	*l.src = restored
	l.updates = s.Updates
	return nil
}

// Greedy implements [agents.Learner].
func (l *Learner) Greedy() agents.Policy { return qlearning.NewGreedy(Algo, l.nets.Online, l.spec) }

// NewPolicy returns the greedy policy of a checkpoint of this package, whose parameters net holds.
// The error wraps [models.ErrMismatch].
func NewPolicy(net models.Network, f models.File) (agents.Policy, error) {
	return qlearning.NewPolicy(Algo, net, f)
}
