// Package bc implements behavioural cloning from recorded transitions, for actions of every kind, with
// masks. The comments cite these details by number:
//
//	[1] The policy maximizes the likelihood of the recorded actions: Pomerleau, "Efficient Training
//	    of Artificial Neural Networks for Autonomous Navigation", Neural Computation 3(1), 1991.
//	[2] A small entropy bonus keeps the policy stochastic, as in the library imitation (Gleave et
//	    al., arXiv:2211.11972).
//	[3] The standard deviations of Box actions stay as they are: recorded actions without noise would
//	    bring them to 0. The loss of the means is then the squared error.
//	[4] Actions masked out have probability 0: Huang and Ontañón, arXiv:2006.14171.
//
// README.md lists the differences from d3rlpy and imitation.
package bc

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/distribution"
	"github.com/kubernasium/kubernasium/agents/offline"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

// Algo is the name of the algorithm in checkpoints and on the command line.
const Algo = "bc"

// Learner clones the policy of recorded transitions. It is not safe for concurrent use.
type Learner struct {
	cfg    Config
	actor  *onpolicy.Actor // network, optimizer, random numbers, counters
	greedy agents.Policy
	data   *offline.Data // nil before Record
	batch  *offline.Batch
	dOut   []float32
	mode   []float32
}

var _ agents.Learner = (*Learner)(nil)

// New returns a learner for the environments. Its network, made by newNetwork, is that of ppo; its value is not trained.
// All random numbers come from seed, except the network's first parameters.
func New(cfg Config, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (*Learner, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	spec, err := cfg.Network.ActorCritic(env.Obs, env.Act)
	if err != nil {
		return nil, err
	}
	a, err := onpolicy.NewActor(onpolicy.Settings{Algo: Algo, Config: cfg, Env: env, Spec: spec, NewNetwork: newNetwork, Seed: seed})
	if err != nil {
		return nil, err
	}
	a.Optimizer = optim.NewAdam(a.Params, optim.DefaultAdam())
	return &Learner{
		cfg: cfg, actor: a, greedy: a.Greedy(), batch: offline.NewBatch(cfg.BatchSize, env),
		dOut: make([]float32, cfg.BatchSize*spec.Outputs()), mode: make([]float32, env.Act.Size()),
	}, nil
}

// Record sets the transitions to learn from, and returns how many there are.
func (l *Learner) Record(t replay.Transitions) (int, error) {
	d, err := offline.NewData(Algo, t, l.actor.Env)
	if err != nil {
		return 0, err
	}
	l.data = d
	return d.Len(), nil
}

// Act implements [agents.Policy]: it takes the most probable action.
func (l *Learner) Act(b *envs.Batch, actions []float32) error { return l.greedy.Act(b, actions) }

// Observe implements [agents.Learner]. Its error is always [offline.ErrOnline].
func (l *Learner) Observe(*envs.Batch) error { return offline.ErrOnline }

// Update implements [agents.Learner]: it makes one gradient step, which counts as a timestep.
func (l *Learner) Update() (agents.Metrics, error) {
	if l.data == nil {
		return nil, offline.ErrNoData
	}
	a := l.actor
	l.data.Sample(a.Rng, l.batch)
	m, err := l.gradient()
	if err != nil {
		return nil, err
	}
	rate := l.cfg.LearningRate.At(l.cfg.Remaining(a.NumTimesteps()))
	optim.ClipGradNorm(a.Params, l.cfg.MaxGradNorm)
	a.Optimizer.Step(rate)
	a.NUpdates++
	a.Advance(1)
	m["train/learning_rate"], m["train/n_updates"] = rate, float64(a.NUpdates)
	return m, nil
}

// gradient leaves the gradient of the batch's loss −mean log π(a|o) − ent_coef·H [1, 2] in the
// parameters, and returns the loss and its parts.
func (l *Learner) gradient() (agents.Metrics, error) {
	a, b := l.actor, l.batch
	n, k, size := len(b.Reward), a.Spec().Outputs(), len(l.mode)
	out, err := a.Net.Forward(b.Obs, n)
	if err != nil {
		return nil, fmt.Errorf("bc: update: %w", err)
	}
	clear(l.dOut)
	logStd, deviations := a.Spec().Head(distribution.LogStdHead)
	mask, weight := len(b.Mask)/n, 1/float64(n)
	negLogP, entropy, right := 0.0, 0.0, 0.0
	for i := range n {
		d, action := l.dOut[i*k:(i+1)*k], b.Action[i*size:(i+1)*size]
		a.Dist.Condition(out[i*k:(i+1)*k], b.Mask[i*mask:(i+1)*mask]) // [4]
		negLogP -= weight * a.Dist.LogProb(action)
		entropy += weight * a.Dist.Entropy()
		if a.Dist.Mode(l.mode); slices.Equal(l.mode, action) {
			right += weight
		}
		a.Dist.Grad(d, action, -weight, -weight*l.cfg.EntCoef)
		clear(d[logStd : logStd+deviations]) // [3]
	}
	loss := negLogP - l.cfg.EntCoef*entropy
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return nil, fmt.Errorf("bc: loss %v at gradient step %d (−log π %v, entropy %v)", loss, a.NUpdates+1, negLogP, entropy)
	}
	if err := a.Net.Backward(l.dOut); err != nil {
		return nil, fmt.Errorf("bc: update: %w", err)
	}
	return agents.Metrics{"train/loss": loss, "train/neglogp": negLogP, "train/entropy": entropy, "train/accuracy": right}, nil
}

// Greedy implements [agents.Learner].
func (l *Learner) Greedy() agents.Policy { return withoutValues(l.actor.Greedy()) }

// Save implements [agents.Learner]. The checkpoint does not contain the transitions.
func (l *Learner) Save(w io.Writer) error { return l.actor.Save(w) }

// Load implements [agents.Learner] by [onpolicy.Actor.Load]. It keeps the transitions.
func (l *Learner) Load(r io.Reader) error { return l.actor.Load(r) }

// NumTimesteps returns the number of gradient steps.
func (l *Learner) NumTimesteps() int { return l.actor.NumTimesteps() }

// NewPolicy returns the greedy policy of a checkpoint of this package, whose parameters net holds. The
// error wraps [models.ErrMismatch].
func NewPolicy(net models.Network, f models.File) (agents.Policy, error) {
	p, err := onpolicy.NewPolicy(net, f)
	if err != nil {
		return nil, err
	}
	return withoutValues(p), nil
}

// withoutValues hides the method Values: the value head is not trained.
func withoutValues(p agents.Policy) agents.Policy {
	return struct {
		agents.Scorer
		agents.Sampler
	}{p.(agents.Scorer), p.(agents.Sampler)}
}
