// Package onpolicy holds the common parts of learners from their own experience: a policy network
// with its distribution of actions, normalization, rollouts with bootstrap values, behavioural
// cloning and checkpoints.
package onpolicy

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/distribution"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
	"github.com/kubernasium/kubernasium/models/team"
)

// valueHead is the head of the value, by Stable-Baselines3's name.
const valueHead = "value_net"

// An Actor holds a policy and value network with its optimizer, and all of a learner's state that a
// checkpoint saves. It is not safe for concurrent use.
type Actor struct {
	Algo      string // in checkpoints and errors
	Config    any    // hyperparameters, in checkpoints
	Env       agents.EnvInfo
	Seed      uint64
	Net       models.Network
	Params    []models.Param
	Optimizer optim.Optimizer
	Rng       *rand.Rand
	Dist      distribution.Distribution
	Team      *team.Team // the network's workers, shared with the learner; nil without them
	Norm      *normalize.Normalizer
	Value     int // offset of the value in an output row
	NUpdates  int
	State     State // further state of the learner; nil if there is none
	Memory    *Memory

	spec         models.Spec
	src          *pcg.Source
	gamma        float64
	numTimesteps int
	box          *space.Box // of actions, or nil
	dists        []distribution.Distribution
	rows         []*distribution.Rows
}

// State is a learner's own part of a checkpoint; only some learners have one.
type State interface {
	// Save adds the state to a checkpoint.
	Save(f *models.File)

	// Load reads the state and returns a function that sets it. The caller calls commit if nothing
	// else fails. The error wraps [models.ErrMismatch].
	Load(f models.File) (commit func(), err error)
}

// Settings are the arguments of NewActor.
type Settings struct {
	Algo       string
	Config     any // hyperparameters
	Normalize  normalize.Normalization
	Gamma      float64
	Env        agents.EnvInfo
	Spec       models.Spec
	NewNetwork agents.NetworkBuilder // called once, with Spec
	Seed       uint64                // of all random numbers, except the network's first parameters
}

// NewActor returns an Actor without an Optimizer, which the caller sets.
func NewActor(s Settings) (*Actor, error) {
	if err := s.Normalize.Validate(); err != nil {
		return nil, err
	}
	d, err := distribution.New(s.Env.Act, s.Spec)
	if err != nil {
		return nil, err
	}
	net, err := s.NewNetwork(s.Spec)
	if err != nil {
		return nil, err
	}
	a := &Actor{
		Algo: s.Algo, Config: s.Config, Env: s.Env, Seed: s.Seed, Net: net, Params: net.Params(), Dist: d,
		Team: team.Of(net),
		spec: s.Spec, src: pcg.New(s.Seed), gamma: s.Gamma,
	}
	if a.Memory, err = newMemory(net, s.Spec); err != nil {
		return nil, err
	}
	if a.Memory.Recurrent() {
		a.Memory.resize(s.Env.NumEnvs)
		a.State = a.Memory
	}
	a.Rng = rand.New(a.src)
	a.Value, _ = s.Spec.Head(valueHead)
	a.Norm = normalize.New(s.Normalize, s.Spec, s.Env.NumEnvs, s.Gamma)
	if b, ok := s.Env.Act.(space.Box); ok {
		a.box = &b
	}
	return a, nil
}

// Dists returns a distribution for each worker of Team. The first is Dist.
func (a *Actor) Dists() []distribution.Distribution {
	for len(a.dists) < a.Team.Workers() {
		if len(a.dists) == 0 {
			a.dists = append(a.dists, a.Dist)
			continue
		}
		d, err := distribution.New(a.Env.Act, a.spec)
		if err != nil {
			panic("onpolicy: unreachable: " + err.Error()) // NewActor did the same
		}
		a.dists = append(a.dists, d)
	}
	return a.dists
}

// BlockRows is the number of rows whose losses or actions a worker computes at a time.
const BlockRows = models.PartRows

// Rows returns the distributions of up to BlockRows rows for each worker of Team; they are nil if Dists are better.
func (a *Actor) Rows() []*distribution.Rows {
	for len(a.rows) < a.Team.Workers() {
		a.rows = append(a.rows, distribution.NewRows(a.Env.Act, a.spec, BlockRows))
	}
	return a.rows
}

// Spec returns the description of the network.
func (a *Actor) Spec() models.Spec { return a.spec }

// NumTimesteps returns the number of environment steps observed.
func (a *Actor) NumTimesteps() int { return a.numTimesteps }

// Advance counts n environment steps as observed.
func (a *Actor) Advance(n int) { a.numTimesteps += n }

// Clip moves an action to the nearest one in its Box. The environment gets the clipped action; the
// learner keeps the sampled one, as in Stable-Baselines3.
func (a *Actor) Clip(action []float32) { clip(a.box, action) }

func clip(box *space.Box, action []float32) {
	if box == nil {
		return
	}
	for i, x := range action {
		low, high := box.Bounds(i)
		action[i] = min(max(x, low), high)
	}
}

// CheckRewards reports the first reward that is not finite.
func (a *Actor) CheckRewards(reward []float64) error {
	return agents.CheckRewards(a.Algo, reward, a.numTimesteps)
}

// scalars are the numbers of a learner's state.
type scalars struct {
	NumTimesteps int `json:"num_timesteps"`
	NUpdates     int `json:"n_updates"`
}

// Save writes a checkpoint.
func (a *Actor) Save(w io.Writer) error {
	f, err := a.Env.NewFile(agents.Record{
		Algo: a.Algo, Spec: a.spec, Config: a.Config, State: scalars{a.numTimesteps, a.NUpdates}, Seed: a.Seed, Timesteps: a.numTimesteps,
	}, a.Params)
	if err != nil {
		return err
	}
	a.Optimizer.Save(&f)
	if err := agents.PutSource(&f, a.src); err != nil {
		return err
	}
	if err := a.Norm.Save(&f); err != nil {
		return err
	}
	if a.State != nil {
		a.State.Save(&f)
	}
	return models.Write(w, f)
}

// Load reads a checkpoint. It must be of the same environment, spaces, network, normalization and
// optimizer. The Actor keeps its other hyperparameters. After an error the Actor is unchanged.
func (a *Actor) Load(r io.Reader) error {
	var s scalars
	f, err := a.Env.ReadFile(r, a.Algo, a.spec, &s)
	if err != nil {
		return err
	}
	restored, err := agents.Source(f)
	if err != nil {
		return err
	}
	norm, err := normalize.Load(f, a.spec, a.Env.NumEnvs, a.gamma)
	if err != nil {
		return err
	}
	if norm.Settings() != a.Norm.Settings() {
		return fmt.Errorf("%s: load: %w: normalization %+v, want %+v", a.Algo, models.ErrMismatch, norm.Settings(), a.Norm.Settings())
	}
	params := agents.Blank(a.Params)
	if err := f.Params(params); err != nil {
		return err
	}
	commit := func() {}
	if a.State != nil {
		if commit, err = a.State.Load(f); err != nil {
			return err
		}
	}
	if err := a.Optimizer.Load(f); err != nil {
		return err
	}
	commit()
	for i, p := range params { // nothing can fail from here on
		copy(a.Params[i].Value, p.Value)
	}
	*a.src, *a.Norm = restored, *norm
	a.numTimesteps, a.NUpdates = s.NumTimesteps, s.NUpdates
	return nil
}

// Greedy returns the policy that takes the most probable action.
func (a *Actor) Greedy() agents.Policy {
	d, err := distribution.New(a.Env.Act, a.spec)
	if err != nil {
		panic("onpolicy: unreachable: " + err.Error()) // NewActor did the same
	}
	m, err := newMemory(a.Net, a.spec)
	if err != nil {
		panic("onpolicy: unreachable: " + err.Error()) // NewActor did the same
	}
	g := &greedy{algo: a.Algo, memory: m, spec: a.spec, dist: d, norm: a.Norm, box: a.box, size: a.Env.Act.Size()}
	_, g.discrete = a.Env.Act.(space.Discrete)
	return g
}

// NewPolicy returns the greedy policy of a checkpoint that an Actor saved; net holds its
// parameters. The error wraps [models.ErrMismatch].
func NewPolicy(net models.Network, f models.File) (agents.Policy, error) {
	var d space.Description
	if err := json.Unmarshal([]byte(f.Meta.ActionSpace), &d); err != nil {
		return nil, fmt.Errorf("onpolicy: %w: action space: %w", models.ErrMismatch, err)
	}
	act, err := space.FromDescription(d)
	if err != nil {
		return nil, fmt.Errorf("onpolicy: %w: %w", models.ErrMismatch, err)
	}
	g := &greedy{algo: f.Meta.Algo, spec: f.Meta.Spec, size: act.Size()}
	if g.memory, err = newMemory(net, f.Meta.Spec); err != nil {
		return nil, err
	}
	if g.dist, err = distribution.New(act, f.Meta.Spec); err != nil {
		return nil, fmt.Errorf("onpolicy: %w: %w", models.ErrMismatch, err)
	}
	if g.norm, err = normalize.Load(f, f.Meta.Spec, 0, 1); err != nil {
		return nil, err
	}
	_, g.discrete = act.(space.Discrete)
	if b, ok := act.(space.Box); ok {
		g.box = &b
	}
	return g, nil
}

var (
	_ agents.Valuer  = (*greedy)(nil)
	_ agents.Sampler = (*greedy)(nil)
)

// greedy chooses the permitted action of the highest probability. With a recurrent network it must
// act on every batch.
type greedy struct {
	algo   string
	memory *Memory
	spec   models.Spec
	dist   distribution.Distribution
	norm   *normalize.Normalizer
	box    *space.Box
	size   int // of an action
	obs    []float32

	discrete bool // the action space is Discrete
}

// Act implements [agents.Policy].
func (g *greedy) Act(b *envs.Batch, actions []float32) error {
	return g.act(b, nil, actions)
}

// Sample implements [agents.Sampler].
func (g *greedy) Sample(b *envs.Batch, rng *rand.Rand, actions []float32) error {
	return g.act(b, rng, actions)
}

// act takes the most probable actions; with an rng, it samples.
func (g *greedy) act(b *envs.Batch, rng *rand.Rand, actions []float32) error {
	n, k := len(b.Reward), g.spec.Outputs()
	g.memory.skipValue(true)
	defer g.memory.skipValue(false)
	out, err := g.memory.Step(g.normalized(b), b)
	if err != nil {
		return fmt.Errorf("%s: act: %w", g.algo, err)
	}
	m := len(b.Mask) / n
	for i := range n {
		action := actions[i*g.size : (i+1)*g.size]
		g.dist.Condition(out[i*k:(i+1)*k], b.Mask[i*m:(i+1)*m])
		if rng == nil {
			g.dist.Mode(action)
		} else {
			g.dist.Sample(rng, action)
		}
		clip(g.box, action)
	}
	return nil
}

// Probabilities implements [agents.Sampler].
func (g *greedy) Probabilities(b *envs.Batch, p []float32) error {
	n, k := len(b.Reward), g.spec.Outputs()
	g.memory.skipValue(true)
	defer g.memory.skipValue(false)
	out, err := g.memory.Look(g.normalized(b), b)
	if err != nil {
		return fmt.Errorf("%s: probabilities: %w", g.algo, err)
	}
	m := len(p) / n
	for i := range n {
		var mask []bool
		if len(b.Mask) > 0 {
			mask = b.Mask[i*m : (i+1)*m]
		}
		g.dist.Condition(out[i*k:(i+1)*k], mask)
		if !g.dist.Probabilities(p[i*m : (i+1)*m]) {
			return fmt.Errorf("%s: probabilities: Box actions have a density, want Discrete, MultiDiscrete or MultiBinary", g.algo)
		}
	}
	return nil
}

// Scores implements [agents.Scorer]: the logits of the actions.
func (g *greedy) Scores(b *envs.Batch, scores []float32) error {
	if !g.discrete {
		return fmt.Errorf("%s: scores: the actions are not Discrete", g.algo)
	}
	g.memory.skipValue(true)
	defer g.memory.skipValue(false)
	out, err := g.memory.Step(g.normalized(b), b)
	if err != nil {
		return fmt.Errorf("%s: scores: %w", g.algo, err)
	}
	from, actions := g.spec.Head(distribution.ActionHead)
	for i := range b.Reward {
		copy(scores[i*actions:(i+1)*actions], out[i*g.spec.Outputs()+from:])
	}
	return nil
}

// Values implements [agents.Valuer]. The values are those of normalized rewards if the learner
// normalized them.
func (g *greedy) Values(b *envs.Batch, values []float32) error {
	out, err := g.memory.Look(g.normalized(b), b)
	if err != nil {
		return fmt.Errorf("%s: values: %w", g.algo, err)
	}
	at, _ := g.spec.Head(valueHead)
	for i := range b.Reward {
		values[i] = out[i*g.spec.Outputs()+at]
	}
	return nil
}

// normalized returns the observations of b as the network reads them.
func (g *greedy) normalized(b *envs.Batch) []float32 {
	if !g.norm.Active() {
		return b.Obs
	}
	g.obs = slices.Grow(g.obs[:0], len(b.Obs))[:len(b.Obs)]
	g.norm.Obs(g.obs, b.Obs)
	return g.obs
}
