// Package reinforce implements REINFORCE with a baseline: Monte Carlo policy gradient, for actions
// of every kind, with masks. It is the simplest learner, and the only unbiased one, since it
// bootstraps only truncated episodes.
//
// The comments cite these details by number:
//
//	[1] The return of a step sums the rewards that follow it in its episode, discounted from it:
//	    Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist
//	    Reinforcement Learning" (1992); Sutton and Barto, "Reinforcement Learning: An
//	    Introduction" (2nd ed., 2018), section 13.3. As is usual, the factor γ^t of the
//	    latter is left out.
//	[2] The value of the state, learned by least squares, is subtracted as a baseline: section
//	    13.4 there.
//	[3] Every environment contributes the same number of whole episodes to an update. Taking
//	    the episodes that end first would favour short ones.
//	[4] A truncated episode bootstraps from its final observation: Pardo et al.,
//	    arXiv:1712.00378, section 3.
//	[5] One step of Adam for an update, the gradient of all parameters together clipped.
package reinforce

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/rollout"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// Algo is the name of the algorithm in checkpoints and on the command line.
const Algo = "reinforce"

// Learner is a REINFORCE agent. Act and Observe record whole episodes, Update learns from them. It
// is not safe for concurrent use.
type Learner struct {
	cfg      Config
	actor    *onpolicy.Actor // network, optimizer, normalization, random numbers, counters
	quota    int             // episodes of each environment in an update
	runs     []run
	steps    steps     // of the completed episodes, one after another
	obs      []float32 // normalized, of the current step
	final    []float32 // normalized final observations
	reward   []float64 // normalized
	chunk    chunk
	gradient *onpolicy.GradientSum // over chunks
}

// run is one environment's part of the current update.
type run struct {
	start     bool // an episode starts with the next step
	recording bool // the current episode counts
	episodes  int  // recorded completely
	episode   steps
}

// steps are columns of equal length.
type steps struct {
	obs, action []float32
	mask        []bool
	value, ret  []float32
	reward      []float64
	origin      []origin
}

// origin is the environment of a step and the step's index in its episode.
type origin struct{ env, step int }

func (s *steps) clear() {
	*s = steps{s.obs[:0], s.action[:0], s.mask[:0], s.value[:0], s.ret[:0], s.reward[:0], s.origin[:0]}
}

func (s *steps) append(t steps) {
	s.obs, s.action, s.mask = append(s.obs, t.obs...), append(s.action, t.action...), append(s.mask, t.mask...)
	s.value, s.ret, s.reward = append(s.value, t.value...), append(s.ret, t.ret...), append(s.reward, t.reward...)
	s.origin = append(s.origin, t.origin...)
}

// nonFiniteSource describes, for an error about a loss that is not finite, where the loss comes
// from. It names the last return that is not finite, because such a return spreads to those of
// earlier steps. If all returns are finite, it names the parameters.
func (s *steps) nonFiniteSource() string {
	for i := len(s.ret) - 1; i >= 0; i-- {
		if x := s.ret[i]; x-x != 0 {
			return fmt.Sprintf("the return %v of environment %d at step %d of its episode", x, s.origin[i].env, s.origin[i].step)
		}
	}
	return "the network's parameters, as all returns are finite"
}

// chunkRows is the number of rows that go through the network at once. It is fixed, because an
// engine may build a graph for each number of rows.
const chunkRows = 256

// chunk is the memory for the rows that go through the network at once.
type chunk struct{ obs, dOut []float32 }

var _ imitation.Learner = (*Learner)(nil)

// New returns a learner for the environments. Its network, made by newNetwork, has separate towers for policy and
// value, initialized orthogonally with gains √2, 0.01 and 1. All random numbers come from seed, except the network's
// first parameters.
func New(cfg Config, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (*Learner, error) {
	if err := cfg.validate(); err != nil {
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
	a.Optimizer = optim.NewAdam(a.Params, optim.AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8})
	n, size := env.NumEnvs, env.Obs.Size()
	l := &Learner{
		cfg: cfg, actor: a, quota: (cfg.NEpisodes + n - 1) / n, runs: make([]run, n),
		obs: make([]float32, n*size), final: make([]float32, n*size), reward: make([]float64, n),
		chunk: chunk{make([]float32, chunkRows*size), make([]float32, chunkRows*spec.Outputs())}, gradient: onpolicy.NewGradientSum(a.Params),
	}
	for i := range l.runs {
		l.runs[i].start = true
	}
	a.State = state{l}
	return l, nil
}

// Act implements [agents.Policy]: it samples from the masked policy and records the step.
func (l *Learner) Act(b *envs.Batch, actions []float32) error {
	a := l.actor
	a.Norm.Start(b.Obs)
	a.Norm.Obs(l.obs, b.Obs)
	n := len(l.runs)
	out, err := a.Net.Forward(l.obs, n)
	if err != nil {
		return fmt.Errorf("reinforce: act: %w", err)
	}
	k, size, act, m := a.Spec().Outputs(), len(l.obs)/n, len(actions)/n, len(b.Mask)/n
	for i := range l.runs {
		row, mask, action := out[i*k:(i+1)*k], b.Mask[i*m:(i+1)*m], actions[i*act:(i+1)*act]
		a.Dist.Condition(row, mask)
		a.Dist.Sample(a.Rng, action)
		r := &l.runs[i]
		if r.start {
			r.start, r.recording = false, r.episodes < l.quota
		}
		if s := &r.episode; r.recording {
			s.obs = append(s.obs, l.obs[i*size:(i+1)*size]...)
			s.action = append(s.action, action...)
			s.mask = append(s.mask, mask...)
			s.value = append(s.value, row[a.Value])
			s.origin = append(s.origin, origin{i, len(s.origin)})
		}
		a.Clip(action)
	}
	return nil
}

// Observe implements [agents.Learner].
func (l *Learner) Observe(next *envs.Batch) error {
	a := l.actor
	if err := a.CheckRewards(next.Reward); err != nil {
		return err
	}
	copy(l.reward, next.Reward)
	a.Norm.Seen(next.Obs, l.reward, next.Terminated, next.Truncated)
	var out []float32 // for the final observations, if one is needed
	for i := range l.runs {
		r, terminated, truncated := &l.runs[i], next.Terminated[i], next.Truncated[i]
		if r.recording {
			r.episode.reward = append(r.episode.reward, l.reward[i])
		}
		if !terminated && !truncated {
			continue
		}
		if r.recording {
			after := 0.0
			if !terminated { // [4]
				if out == nil {
					var err error
					a.Norm.Obs(l.final, next.FinalObs)
					if out, err = a.Net.Forward(l.final, len(l.runs)); err != nil {
						return fmt.Errorf("reinforce: value of final observations: %w", err)
					}
				}
				after = float64(out[i*a.Spec().Outputs()+a.Value])
			}
			l.end(r, after)
		}
		r.start, r.recording = true, false
	}
	a.Advance(len(l.runs))
	return nil
}

// end closes the episode of r; after is the value of the next observation.
func (l *Learner) end(r *run, after float64) {
	s := &r.episode
	s.ret = slices.Grow(s.ret[:0], len(s.reward))[:len(s.reward)]
	for t := len(s.reward) - 1; t >= 0; t-- { // [1]
		after = s.reward[t] + l.cfg.Gamma*after
		s.ret[t] = float32(after)
	}
	l.steps.append(*s)
	s.clear()
	r.episodes++
}

// Update implements [agents.Learner]: once every environment has recorded its episodes [3], it
// makes one gradient step over them.
func (l *Learner) Update() (agents.Metrics, error) {
	a := l.actor
	for i := range l.runs {
		if l.runs[i].episodes < l.quota {
			return nil, nil
		}
	}
	progress := l.cfg.Remaining(a.NumTimesteps())
	rate := l.cfg.LearningRate.At(progress)
	s, err := l.learn()
	if err != nil {
		return nil, err
	}
	optim.ClipGradNorm(a.Params, l.cfg.MaxGradNorm) // [5]
	a.Optimizer.Step(rate)
	a.NUpdates++
	m := s.Metrics(rate, rollout.ExplainedVariance(l.steps.value, l.steps.ret), a.NUpdates)
	l.steps.clear()
	for i := range l.runs {
		l.runs[i].episodes = 0 // an environment amid an episode starts to record with the next one
	}
	return m, nil
}

// learn leaves the gradient of the loss over all recorded steps in the parameters.
func (l *Learner) learn() (onpolicy.Losses, error) {
	a := l.actor
	n, k := len(l.steps.ret), a.Spec().Outputs()
	adv := make([]float32, n)
	for i := range adv {
		adv[i] = l.steps.ret[i] - l.steps.value[i] // [2]
	}
	if l.cfg.NormalizeAdvantage && n > 1 {
		rollout.Normalize(adv)
	}
	l.gradient.Clear()
	var s onpolicy.Losses
	size, act, m := len(l.steps.obs)/n, len(l.steps.action)/n, len(l.steps.mask)/n
	for from := 0; from < n; from += chunkRows {
		rows := min(chunkRows, n-from)
		clear(l.chunk.obs)
		clear(l.chunk.dOut)
		copy(l.chunk.obs, l.steps.obs[from*size:(from+rows)*size])
		out, err := a.Net.Forward(l.chunk.obs, chunkRows)
		if err != nil {
			return s, fmt.Errorf("reinforce: update: %w", err)
		}
		for i := range rows {
			t := from + i
			taken := onpolicy.Taken{
				Action: l.steps.action[t*act : (t+1)*act], Mask: l.steps.mask[t*m : (t+1)*m], Adv: float64(adv[t]), Ret: l.steps.ret[t],
			}
			a.AddLoss(&s, taken, out[i*k:(i+1)*k], l.chunk.dOut[i*k:(i+1)*k], 1/float64(n), l.cfg.EntCoef, l.cfg.VfCoef)
		}
		if err := a.Net.Backward(l.chunk.dOut); err != nil {
			return s, fmt.Errorf("reinforce: update: %w", err)
		}
		l.gradient.Add()
	}
	l.gradient.Set()
	return s, s.Check(Algo, l.cfg.EntCoef, l.cfg.VfCoef, func() string {
		return fmt.Sprintf("timestep %d, update %d, from %s", a.NumTimesteps(), a.NUpdates+1, l.steps.nonFiniteSource())
	})
}

// state saves which environments start an episode.
type state struct{ l *Learner }

// startTensor holds 1 for each environment that starts an episode, and 0 for the others.
const startTensor = models.StatePrefix + "episode_start"

// Save implements [onpolicy.State].
func (s state) Save(f *models.File) {
	start := make([]uint8, len(s.l.runs))
	for i, r := range s.l.runs {
		if r.start {
			start[i] = 1
		}
	}
	f.Put(safetensors.Tensor{Name: startTensor, Shape: []int{len(start)}, Data: start})
}

// Load implements [onpolicy.State].
func (s state) Load(f models.File) (commit func(), err error) {
	t, err := f.Tensor(startTensor)
	if err != nil {
		return nil, err
	}
	start, err := safetensors.As[uint8](t)
	if err != nil || len(start) != len(s.l.runs) {
		return nil, fmt.Errorf("reinforce: load: %w: %s has the shape %v, want one number for each of %d environments", models.ErrMismatch, startTensor, t.Shape, len(s.l.runs))
	}
	return func() {
		s.l.steps.clear()
		for i := range s.l.runs {
			s.l.runs[i].episode.clear()
			s.l.runs[i] = run{start: start[i] == 1, episode: s.l.runs[i].episode}
		}
	}, nil
}

// Save implements [agents.Learner]. It is an error while episodes are recorded.
func (l *Learner) Save(w io.Writer) error {
	for i, r := range l.runs {
		if r.recording || r.episodes > 0 {
			return fmt.Errorf("reinforce: save while environment %d has given %d of %d episodes, want right after an update", i, r.episodes, l.quota)
		}
	}
	return l.actor.Save(w)
}

// Load implements [agents.Learner] by [onpolicy.Actor.Load] and clears the recorded episodes.
func (l *Learner) Load(r io.Reader) error { return l.actor.Load(r) }

// Greedy implements [agents.Learner].
func (l *Learner) Greedy() agents.Policy { return l.actor.Greedy() }

// Imitate implements [imitation.Learner] by behavioural cloning.
func (l *Learner) Imitate(ctx context.Context, d imitation.Demonstration) (agents.Metrics, error) {
	return l.actor.Imitate(ctx, d)
}

// Spec returns the description of the network.
func (l *Learner) Spec() models.Spec { return l.actor.Spec() }

// NumTimesteps returns the number of environment steps observed.
func (l *Learner) NumTimesteps() int { return l.actor.NumTimesteps() }
