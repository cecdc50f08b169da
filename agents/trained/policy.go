package trained

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

var (
	// ErrInput is wrapped by the errors of a Policy about observations, masks, actions and results
	// of a wrong length, masks that permit no action, and numbers that are not finite.
	ErrInput = errors.New("trained: invalid input")

	// ErrNoDistribution is wrapped by the errors of Sample and Probabilities of a policy without a
	// distribution of actions: those of DQN and CQL, and the forecaster.
	ErrNoDistribution = errors.New("trained: the policy has no distribution of actions")
)

// A Policy maps observations to actions. Its methods take one or more rows of observations, and
// allocate only if no earlier call had as many rows.
//
// A Policy is not safe for concurrent use. [Policy.Clone] returns one for another goroutine; clones never wait for each
// other.
//
// A recurrent policy, such as those of ppo_lstm, has a state for each row. Row i is the same
// environment in each call, a call of Act or Sample is a step, and [Policy.Begin] starts an
// episode.
type Policy struct {
	file     models.File
	obs, act space.Space
	policy   agents.Policy
	mask     int // elements for one row; 0: actions are never masked
	batch    envs.Batch
	free     []bool // permits all actions
}

// Open reads the model at path. The error wraps [models.ErrFormat], [models.ErrMismatch] or
// safetensors.ErrCorrupt if the file is not a model; otherwise it is that of the file system.
func Open(path string) (*Policy, error) {
	return open(path, func(*models.File) error { return nil })
}

// OpenFor reads the model at path for an environment with these spaces. A policy over nodes may have
// been trained with another number of them.
func OpenFor(path string, obs, act space.Space) (*Policy, error) {
	return open(path, func(f *models.File) error { return Adapt(f, "", obs, act) })
}

func open(path string, adapt func(f *models.File) error) (*Policy, error) {
	f, err := models.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := adapt(&f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p, err := newPolicy(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func newPolicy(f models.File) (*Policy, error) {
	obs, act, err := spaces(f)
	if err != nil {
		return nil, err
	}
	inner, _, err := New(f)
	if err != nil {
		return nil, err
	}
	return &Policy{file: f, obs: obs, act: act, policy: inner, mask: space.MaskSize(act)}, nil
}

// Clone returns a Policy of the same model, at the start of an episode.
func (p *Policy) Clone() (*Policy, error) { return newPolicy(p.file) }

// Spaces returns the spaces of observations, flat rows in the order of [space.Dict], and of
// actions.
func (p *Policy) Spaces() (obs, act space.Space) { return p.obs, p.act }

// MaskSize returns the length of the mask of one observation, [space.MaskSize].
func (p *Policy) MaskSize() int { return p.mask }

// Model returns the description of the model in its file. The caller must not change it.
func (p *Policy) Model() models.Checkpoint { return p.file.Meta }

// Begin marks the next observations of all rows as the first of an episode. Policies without state ignore it.
func (p *Policy) Begin() { clear(p.batch.EpisodeLength) }

// BeginRow marks the next observation of row i as the first of an episode. It panics unless the last
// call had more than i rows.
func (p *Policy) BeginRow(i int) { p.batch.EpisodeLength[i] = 0 }

// Act writes the permitted action of highest probability or value for each row of obs to action. A
// nil mask permits all actions.
func (p *Policy) Act(obs []float32, mask []bool, action []float32) error {
	if err := p.set(obs, mask, len(action), p.act.Size()); err != nil {
		return err
	}
	if err := p.policy.Act(&p.batch, action); err != nil {
		return err
	}
	p.stepped()
	return nil
}

// Sample draws an action for each row of obs. The error wraps [ErrNoDistribution] if there is no
// distribution to draw from.
func (p *Policy) Sample(rng *rand.Rand, obs []float32, mask []bool, action []float32) error {
	s, ok := p.policy.(agents.Sampler)
	if !ok {
		return fmt.Errorf("%w: %s; use Act", ErrNoDistribution, p.file.Meta.Algo)
	}
	if err := p.set(obs, mask, len(action), p.act.Size()); err != nil {
		return err
	}
	if err := s.Sample(&p.batch, rng, action); err != nil {
		return err
	}
	p.stepped()
	return nil
}

// Probabilities writes the distribution of Sample for each row of obs, laid out as in
// [agents.Sampler]. It is not a step: the state of a recurrent policy does not change.
func (p *Policy) Probabilities(obs []float32, mask []bool, probs []float32) error {
	s, ok := p.policy.(agents.Sampler)
	if !ok || p.mask == 0 {
		return fmt.Errorf("%w: %s with actions %v", ErrNoDistribution, p.file.Meta.Algo, p.act)
	}
	if err := p.set(obs, mask, len(probs), p.mask); err != nil {
		return err
	}
	return s.Probabilities(&p.batch, probs)
}

// Scores writes a logit or a value of each action, masked or not, for each row of obs. It is a step of a recurrent
// policy. Scores returns an error if actions are not Discrete.
func (p *Policy) Scores(obs []float32, scores []float32) error {
	s, ok := p.policy.(agents.Scorer)
	if d, discrete := p.act.(space.Discrete); !ok || !discrete {
		return fmt.Errorf("trained: %s with actions %v rates no actions, want Discrete ones", p.file.Meta.Algo, p.act)
	} else if err := p.set(obs, nil, len(scores), d.N); err != nil {
		return err
	}
	if err := s.Scores(&p.batch, scores); err != nil {
		return err
	}
	p.stepped()
	return nil
}

// HasValues reports whether the model values states, as those of actor-critic algorithms do.
func (p *Policy) HasValues() bool {
	_, ok := p.policy.(agents.Valuer)
	return ok
}

// Values writes the value of each row of obs, the discounted sum of rewards that the model expects, in units of its
// training: see norm_reward. It is not a step: the state of a recurrent policy does not change. It returns an error
// unless HasValues.
func (p *Policy) Values(obs []float32, values []float32) error {
	v, ok := p.policy.(agents.Valuer)
	if !ok {
		return fmt.Errorf("trained: %s does not value states", p.file.Meta.Algo)
	}
	if err := p.set(obs, nil, len(values), 1); err != nil {
		return err
	}
	return v.Values(&p.batch, values)
}

// set sets the batch of a call; results have size numbers for each row.
func (p *Policy) set(obs []float32, mask []bool, results, size int) error {
	width := p.obs.Size()
	n := len(obs) / width
	if n == 0 || len(obs) != n*width {
		return fmt.Errorf("%w: %d numbers of observations, want %d for each", ErrInput, len(obs), width)
	}
	if results != n*size {
		return fmt.Errorf("%w: room for %d results of %d observations, want %d for each", ErrInput, results, n, size)
	}
	if len(mask) != 0 && len(mask) != n*p.mask {
		return fmt.Errorf("%w: a mask of %d for %d observations, want %d for each", ErrInput, len(mask), n, p.mask)
	}
	for i, x := range obs {
		if x-x != 0 { // of NaN and the infinities
			return fmt.Errorf("%w: the observation has %v at %d, want finite numbers", ErrInput, x, i)
		}
	}
	if err := p.permits(mask); err != nil {
		return err
	}
	p.grow(n)
	p.batch.Obs, p.batch.Mask = obs, mask
	if len(mask) == 0 {
		p.batch.Mask = p.free[:n*p.mask]
	}
	return nil
}

// permits returns an error for a mask that permits no action of a row.
func (p *Policy) permits(mask []bool) error {
	for at := 0; at < len(mask); {
		n := p.choices(at % p.mask)
		any := false
		for _, ok := range mask[at : at+n] {
			any = any || ok
		}
		if !any {
			return fmt.Errorf("%w: the mask permits none of elements %d to %d, want at least one", ErrInput, at, at+n-1)
		}
		at += n
	}
	return nil
}

// choices returns the number of alternatives in the part of a row of the mask that begins at element at.
func (p *Policy) choices(at int) int {
	switch a := p.act.(type) {
	case space.MultiDiscrete:
		for _, n := range a.NVec {
			if at == 0 {
				return n
			}
			at -= n
		}
	case space.MultiBinary:
		return 2
	}
	return p.mask
}

// grow resizes the batch to n rows.
func (p *Policy) grow(n int) {
	if len(p.batch.Reward) == n {
		return
	}
	if cap(p.batch.Reward) < n {
		p.batch.Reward, p.batch.EpisodeLength, p.free = make([]float64, n), make([]int64, n), make([]bool, n*p.mask)
		for i := range p.free {
			p.free[i] = true
		}
	}
	p.batch.Reward, p.batch.EpisodeLength = p.batch.Reward[:n], p.batch.EpisodeLength[:n]
	clear(p.batch.EpisodeLength) // rows now mean other environments
}

// stepped records a step: no row is at the start of its episode now.
func (p *Policy) stepped() {
	for i := range p.batch.EpisodeLength {
		p.batch.EpisodeLength[i] = 1
	}
}
