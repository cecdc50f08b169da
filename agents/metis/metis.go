// Package metis implements the policy gradient of Metis and of the methods that its paper compares it with. It plays
// one problem repeatedly to find the best episode; the policy is only a means to that end.
//
// The comments cite these details by number:
//
//	[1] REINFORCE: the undiscounted return of an episode weights each of its steps.
//	[2] Returns are normalized over the steps of an update; there is no critic and no clipping.
//	[3] The first episodes are demonstrations. An update learns from them as from any other.
//	[4] Every update learns from some demonstrations again, while the best of them is not far
//	    below the best episode.
//	[5] Replay of the best trajectories: the buffer keeps an episode within a range of the best, a
//	    new best empties it, and each update learns from some of them again.
//	[6] When the buffer holds many episodes, the range narrows and only the first and last ones stay.
//	[7] Added here: an episode repeats the best one, except for a share of its steps at which the
//	    policy decides. Changing hundreds of decisions at once, with one return for all, hardly
//	    ever finds a better episode.
//
// Deviations: replayed returns are normalized with those of the current update, while the artefact stores their
// difference from the best return at that time; actions are masked.
//
// Source: L. Wang et al., "Metis: Learning to Schedule Long-Running Applications in Shared
// Container Clusters at Scale", SC'20, sections IV and V, and its artefact.
package metis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

// algo is the algorithm in the checkpoints: package reinforce reads them.
const algo = "reinforce"

// Config holds the hyperparameters.
type Config struct {
	LearningRate   float64 `json:"learning_rate"`  // of Adam
	EntCoef        float64 `json:"ent_coef"`       // weight of the entropy bonus
	Demonstrations int     `json:"demonstrations"` // first episodes that a demonstrator plays; 0: none [3]
	Replay         bool    `json:"replay"`         // of the best trajectories [5]
	Explore        float64 `json:"explore"`        // share of the steps at which the policy decides, in (0, 1]; at the others the best episode is repeated [7]
	policies.Network
}

// Constants of the published method.
const (
	demosAgain  = 3    // demonstrations replayed in an update [4]
	demoWorth   = 0.95 // of the best return: the least return of demonstrations that are learned from again [4]
	replayAgain = 10   // kept episodes replayed in an update [5]
	replayRange = 1.02 // at first, an episode is kept if its return times this exceeds the best [5]
	narrowest   = 1.001
	narrowing   = 0.99 // of the range, every narrowEvery episodes [6]
	narrowEvery = 100
	replayMany  = 20 // kept episodes, above which the range narrows [6]
)

// High returns the settings for choosing sub-clusters: the published ones, except for [7].
func High() Config {
	c := published(0.015, 0.1, 31, true)
	c.Explore = 0.02
	return c
}

// Vanilla returns the settings for a flat choice of nodes.
func Vanilla() Config { return published(0.001, 0, 0, false) }

// DivideAndConquer returns the settings for a tree of choices without sub-schedulers.
func DivideAndConquer() Config { return published(0.015, 0.01, 0, true) }

func published(rate, entropy float64, demos int, replay bool) Config {
	n := policies.Defaults()
	n.NetArch = []int{128}
	return Config{LearningRate: rate, EntCoef: entropy, Demonstrations: demos, Replay: replay, Explore: 1, Network: n}
}

// A Demonstrator chooses an action, given the number of the episode from 0, an observation and its
// mask.
type Demonstrator func(episode int, obs []float32, mask []bool) int

// Learner learns from whole episodes. It is not safe for concurrent use.
type Learner struct {
	actor *onpolicy.Actor // network, optimizer, distribution of actions, random numbers, counters
	cfg   Config
	demo  Demonstrator

	best   float64
	leader *episode // with the return best
	bestOf float64  // of demonstrations
	width  float64  // factor of the range of returns that are kept
	played int
	demos  []*episode
	kept   []*episode

	dOut, obs []float32
	gradient  *onpolicy.GradientSum // over chunks
}

// episode holds the observations, masks and actions of an episode, and its return.
type episode struct {
	obs, action []float32
	mask        []bool
	ret         float64
}

// New returns a learner. It makes a network of spec, which is that of cfg.Network, with newNetwork; demo may be nil if
// there are no demonstrations.
func New(cfg Config, env agents.EnvInfo, spec models.Spec, newNetwork agents.NetworkBuilder, demo Demonstrator, seed uint64) (*Learner, error) {
	if !(cfg.LearningRate > 0) || cfg.EntCoef < 0 || cfg.Demonstrations < 0 || !(cfg.Explore > 0 && cfg.Explore <= 1) {
		return nil, fmt.Errorf("metis: learning_rate %v, ent_coef %v, demonstrations %d, explore %v: want a rate above 0, an explore in (0, 1] and the others at least 0",
			cfg.LearningRate, cfg.EntCoef, cfg.Demonstrations, cfg.Explore)
	}
	if cfg.Demonstrations > 0 && demo == nil {
		return nil, errors.New("metis: demonstrations without a demonstrator")
	}
	a, err := onpolicy.NewActor(onpolicy.Settings{
		Algo: algo, Config: cfg, Normalize: normalize.Defaults(), Gamma: 1, Env: env, Spec: spec, NewNetwork: newNetwork, Seed: seed,
	})
	if err != nil {
		return nil, err
	}
	a.Optimizer = optim.NewAdam(a.Params, optim.DefaultAdam())
	l := &Learner{actor: a, cfg: cfg, demo: demo, best: math.Inf(-1), bestOf: math.Inf(-1), width: replayRange}
	l.obs, l.dOut = make([]float32, chunkRows*env.Obs.Size()), make([]float32, chunkRows*spec.Outputs())
	l.gradient = onpolicy.NewGradientSum(a.Params)
	return l, nil
}

// Save writes a checkpoint, which package reinforce reads.
func (l *Learner) Save(w io.Writer) error { return l.actor.Save(w) }

// chunkRows is the number of rows that go through the network at once.
const chunkRows = 256

// Progress receives, after each update, the number of episodes played, the mean return of the last ones
// and the best return.
type Progress func(episodes int, mean, best float64)

// Run plays episodes until their number is reached, budget is spent or ctx has ended. The environments of v, with
// autoreset mode Disabled, play one episode each; then an update follows. Run calls better at the end of each episode
// that is better than all before, with the index of its environment, which is still in the episode's final state.
func (l *Learner) Run(ctx context.Context, v *envs.Vec, episodes int, budget time.Duration, better func(env int, ret float64), progress Progress) error {
	if v.Autoreset() != envs.Disabled {
		return fmt.Errorf("metis: environments reset in the mode %v, want Disabled", v.Autoreset())
	}
	began := time.Now()
	for l.played < episodes && time.Since(began) < budget && ctx.Err() == nil {
		some, err := l.play(context.WithoutCancel(ctx), v, better) // an update needs whole episodes
		if err != nil {
			return err
		}
		if err := l.learn(some); err != nil {
			return err
		}
		mean := 0.0
		for _, e := range some {
			mean += e.ret / float64(len(some))
		}
		if progress != nil {
			progress(l.played, mean, l.best)
		}
	}
	return nil
}

// play plays one episode in each environment.
func (l *Learner) play(ctx context.Context, v *envs.Vec, better func(env int, ret float64)) ([]*episode, error) {
	n := v.NumEnvs()
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: new(l.actor.Seed + uint64(l.played))})
	if err != nil {
		return nil, err
	}
	obsSize, actSize, maskSize := len(b.Obs)/n, l.actor.Env.Act.Size(), space.MaskSize(l.actor.Env.Act)
	some, over := make([]*episode, n), make([]bool, n)
	for i := range some {
		some[i] = &episode{}
	}
	k := l.actor.Spec().Outputs()
	actions := make([]float32, n*actSize)
	for left := n; left > 0; {
		out, err := l.actor.Net.Forward(b.Obs, n)
		if err != nil {
			return nil, fmt.Errorf("metis: act: %w", err)
		}
		for i, e := range some {
			obs, mask := b.Obs[i*obsSize:(i+1)*obsSize], b.Mask[i*maskSize:(i+1)*maskSize]
			action := actions[i*actSize : (i+1)*actSize]
			switch {
			case l.played+i < l.cfg.Demonstrations:
				action[0] = float32(l.demo(l.played+i, obs, mask))
			case l.repeats(len(e.action), mask):
				action[0] = l.leader.action[len(e.action)]
			default:
				l.actor.Dist.Condition(out[i*k:(i+1)*k], mask)
				l.actor.Dist.Sample(l.actor.Rng, action)
			}
			if !over[i] {
				e.obs, e.mask, e.action = append(e.obs, obs...), append(e.mask, mask...), append(e.action, action...)
			}
		}
		if b, err = v.Step(ctx, actions); err != nil {
			return nil, err
		}
		if err := l.actor.CheckRewards(b.Reward); err != nil {
			return nil, err
		}
		for i, e := range some {
			if over[i] || !b.Done(i) {
				continue
			}
			over[i], e.ret = true, b.EpisodeReturn[i]
			left--
			l.actor.Advance(len(e.action) / actSize)
			l.keep(e, l.played+i < l.cfg.Demonstrations, func() { better(i, e.ret) })
		}
		if left > 0 && left < n {
			return nil, errors.New("metis: episodes of different lengths, want one problem in all environments")
		}
	}
	before := l.played
	l.played += n
	if l.cfg.Replay && before/narrowEvery != l.played/narrowEvery && len(l.kept) > replayMany { // [6]
		l.width = max(narrowing*l.width, narrowest)
		l.kept = append(l.kept[:replayAgain:replayAgain], l.kept[len(l.kept)-replayAgain:]...)
	}
	return some, nil
}

// repeats reports whether a step does what the best episode did [7].
func (l *Learner) repeats(step int, mask []bool) bool {
	return l.leader != nil && l.cfg.Explore < 1 && mask[int(l.leader.action[step])] && l.actor.Rng.Float64() >= l.cfg.Explore
}

// keep adds an episode to those that later updates replay.
func (l *Learner) keep(e *episode, demo bool, better func()) {
	old := l.best
	if e.ret > old {
		l.best, l.leader = e.ret, e
		better()
	}
	switch {
	case demo: // [4]
		l.demos, l.bestOf = append(l.demos, e), max(l.bestOf, e.ret)
	case !l.cfg.Replay:
	case e.ret > old: // [5]
		l.kept = append(l.kept[:0], e)
		l.width = min(replayRange, max(e.ret/(old/l.width), narrowest))
	case e.ret*l.width > old:
		l.kept = append(l.kept, e)
	}
}

// learn makes one step of Adam on the episodes and on replayed ones.
func (l *Learner) learn(some []*episode) error {
	if len(l.demos) > 0 && l.bestOf > demoWorth*l.best { // [4]
		for range min(demosAgain, len(l.demos)) {
			some = append(some[:len(some):len(some)], l.demos[l.actor.Rng.IntN(len(l.demos))])
		}
	}
	if len(l.kept) <= replayAgain { // [5]
		some = append(some[:len(some):len(some)], l.kept...)
	} else {
		for range replayAgain {
			some = append(some[:len(some):len(some)], l.kept[l.actor.Rng.IntN(len(l.kept))])
		}
	}
	mean, square, steps := 0.0, 0.0, 0
	for _, e := range some {
		n := len(e.action)
		mean += e.ret * float64(n)
		steps += n
	}
	mean /= float64(steps)
	for _, e := range some {
		square += (e.ret - mean) * (e.ret - mean) * float64(len(e.action))
	}
	deviation := cmp.Or(math.Sqrt(square/float64(steps)), 1) // [2]
	l.gradient.Clear()
	for _, e := range some {
		if err := l.add(e, (e.ret-mean)/deviation, 1/float64(steps)); err != nil {
			return err
		}
	}
	l.gradient.Set()
	l.actor.Optimizer.Step(l.cfg.LearningRate)
	l.actor.NUpdates++
	return nil
}

// add adds an episode's part of the gradient of mean(−log π(a|o)·advantage) − ent_coef·H [1].
func (l *Learner) add(e *episode, advantage, weight float64) error {
	rows, k, obsSize, maskSize := len(e.action), l.actor.Spec().Outputs(), l.actor.Env.Obs.Size(), space.MaskSize(l.actor.Env.Act)
	for from := 0; from < rows; from += chunkRows {
		n := min(chunkRows, rows-from)
		copy(l.obs, e.obs[from*obsSize:(from+n)*obsSize])
		clear(l.obs[n*obsSize:])
		clear(l.dOut)
		out, err := l.actor.Net.Forward(l.obs, chunkRows)
		if err != nil {
			return fmt.Errorf("metis: update: %w", err)
		}
		for i := range n {
			r := from + i
			l.actor.Dist.Condition(out[i*k:(i+1)*k], e.mask[r*maskSize:(r+1)*maskSize])
			l.actor.Dist.Grad(l.dOut[i*k:(i+1)*k], e.action[r:r+1], -weight*advantage, -weight*l.cfg.EntCoef)
		}
		if err := l.actor.Net.Backward(l.dOut); err != nil {
			return fmt.Errorf("metis: update: %w", err)
		}
		for _, p := range l.actor.Params {
			for _, g := range p.Grad {
				if g-g != 0 {
					return fmt.Errorf("metis: gradient %v of %s after %d episodes", g, p.Name, l.played)
				}
			}
		}
		l.gradient.Add()
	}
	return nil
}
