// Package advantage learns a node scorer from the gains of rollouts, by least squares.
//
// A decision of an episode of k8s/GPUPodScheduling is looked at as follows: for some nodes, WeightedFGD plays the same futures
// after the pod went there. What a node gains over the mean of the nodes is noisy, and the choice of the best is more so. A
// network that learns the gains of many decisions averages the noise. The policy adds a weight times WeightedFGD's score, since the gains
// of nodes that rollouts seldom try are not learned well.
//
// In timed dynamics a gain is by how much less pods wait.
//
// With the rollouts' policy π, the network estimates its advantage A(s, a), up to a number for each state; taking the best
// action is one step of policy iteration.
//
// Source: Lagoudakis and Parr, "Reinforcement Learning as Classification", ICML 2003; Tesauro and Galperin,
// "On-line Policy Improvement using Monte-Carlo Search", NeurIPS 1996.
package advantage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
	"github.com/kubernasium/kubernasium/models/optim"
)

// Config describes what is learned from.
type Config struct {
	Env       string         // id
	EnvKwargs map[string]any // options
	Seed      uint64         // of all that is random

	// Loads are GPUs requested, over those of the nodes, in ascending order. What is allocated there counts, in the mean; episodes
	// and futures end at the last.
	Loads []float64
	// Horizon is the length of futures of timed dynamics, in which what pods wait counts in place of allocations.
	Horizon time.Duration

	Episodes     int     // that are played
	From         float64 // GPUs requested, over those of the nodes, from which decisions are looked at
	Density      float64 // part of these decisions
	Best, Others int     // nodes tried: those of the highest score, and drawn ones
	Futures      int
	Explore      float64 // part of the decisions of every other episode that takes one of the four best nodes at random

	Width, Steps, Batch int     // of the two layers; gradient steps; decisions in each
	LearningRate        float64 // falls linearly to 0
	Weight              float64 // GPUs, in timed dynamics thousands of seconds, for a point of WeightedFGD's score
}

// Defaults returns the settings of docs/results/gpu.md.
func Defaults() Config {
	return Config{
		Env: "k8s/GPUPodScheduling-v2", Loads: []float64{1, 1.3}, Horizon: 1500 * time.Second,
		Episodes: 400, From: 0.2, Density: 0.3, Best: 8, Others: 2, Futures: 6, Explore: 0.15,
		Width: 64, Steps: 40_000, Batch: 256, LearningRate: 0.002, Weight: 0.015,
	}
}

func (c *Config) check() error {
	if len(c.Loads) == 0 || c.Episodes < 1 || c.Best < 2 || c.Others < 0 || c.Width < 1 || c.Steps < 1 || c.Batch < 1 || c.LearningRate <= 0 || c.Weight < 0 {
		return errors.New("advantage: want at least one load and episode, two best nodes, width, step and decision of a batch, a learning rate above 0 and a weight of 0 or more")
	}
	return nil
}

// Decision holds the gains of the nodes that were tried for one pod.
type Decision struct {
	Episode int
	Rows    []float32 // of the nodes, each followed by the globals
	Gains   []float32 // what nodes are worth more than in the mean of them
}

// Collect plays the episodes, on all cores, and returns their decisions in order. They do not depend on the number of cores.
func (c *Config) Collect(ctx context.Context) ([]Decision, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	seeds, rng := make([]uint64, c.Episodes), rand.New(pcg.New(c.Seed))
	for k := range seeds {
		seeds[k] = rng.Uint64N(trainingSeeds)
	}
	all := make([][]Decision, c.Episodes)
	var next atomic.Int64
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), c.Episodes)
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			errs[w] = c.work(ctx, func(play func(k int, seed uint64) ([]Decision, error)) error {
				for k := int(next.Add(1)) - 1; k < c.Episodes; k = int(next.Add(1)) - 1 {
					var err error
					if all[k], err = play(k, seeds[k]); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	wg.Wait()
	return slices.Concat(all...), errors.Join(errs...)
}

// trainingSeeds is the end of the block of training seeds (docs/results/method.md).
const trainingSeeds = 1_000_000_000

// work makes an environment and gives do a function that plays episode k, of a seed.
func (c *Config) work(ctx context.Context, do func(play func(k int, seed uint64) ([]Decision, error)) error) error {
	opts := maps.Clone(c.EnvKwargs)
	if opts == nil {
		opts = map[string]any{}
	}
	opts["load_end"] = c.Loads[len(c.Loads)-1]
	v, err := envs.Make(c.Env, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	if err != nil {
		return err
	}
	defer v.Close()
	g, err := NewGains(v.Env(0).Task(), c.Futures, c.Loads, c.Horizon)
	if err != nil {
		return err
	}
	obs, act := v.Spaces()
	nodes, wait, err := policies.Nodes(obs, act)
	if err != nil {
		return err
	}
	if nodes.Edges != nil || wait {
		return fmt.Errorf("%w: advantages are learned without edges and defer", envs.ErrInvalidOption)
	}
	if _, err := scoreColumns(v.Env(0).Task()); err != nil {
		return err
	}
	return do(func(k int, seed uint64) ([]Decision, error) { return c.episode(ctx, v, g, &nodes, k, seed) })
}

func (c *Config) episode(ctx context.Context, v *envs.Vec, g *Gains, nodes *models.Nodes, k int, seed uint64) (decisions []Decision, err error) {
	rng := rand.New(pcg.New(seed))
	b, err := v.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{seed}})
	if err != nil {
		return nil, err
	}
	if err := g.Begin(); err != nil || g.Over() {
		return nil, err
	}
	for {
		if at := g.Arrived(); at >= c.From && rng.Float64() < c.Density {
			if tried := g.Nodes(c.Best, c.Others, rng); len(tried) > 1 {
				decisions = append(decisions, decision(k, b.Obs, nodes, tried, g.Play(tried, rng)))
			}
		}
		best := 1
		if k%2 == 1 && rng.Float64() < c.Explore {
			best = 4
		}
		chosen := g.Nodes(best, 0, rng)
		if b, err = v.Step(ctx, []float32{float32(chosen[rng.IntN(len(chosen))])}); err != nil {
			return nil, err
		}
		if b.Done(0) {
			return decisions, nil
		}
	}
}

// decision keeps the rows of the nodes tried and their gains.
func decision(episode int, obs []float32, nodes *models.Nodes, tried []int32, gpus []float64) Decision {
	d := Decision{Episode: episode}
	mean := 0.0
	for _, x := range gpus {
		mean += x / float64(len(gpus))
	}
	end := nodes.Offset + nodes.N*nodes.Features
	for i, node := range tried {
		d.Rows = append(d.Rows, obs[nodes.Offset+int(node)*nodes.Features:][:nodes.Features]...)
		d.Rows = append(append(d.Rows, obs[:nodes.Offset]...), obs[end:]...)
		d.Gains = append(d.Gains, float32(gpus[i]-mean))
	}
	return d
}

// Fit learns the gains, and returns the network and the part of the variance of the gains that it explains in every tenth episode,
// which it has not seen.
func (c *Config) Fit(ctx context.Context, decisions []Decision) (net *fused.Network, explained float64, err error) {
	if err := c.check(); err != nil {
		return nil, 0, err
	}
	var train, held []Decision
	for _, d := range decisions {
		if d.Episode%10 == 9 {
			held = append(held, d)
		} else {
			train = append(train, d)
		}
	}
	if len(train) == 0 {
		return nil, 0, errors.New("advantage: no decision to learn from")
	}
	rng := rand.New(pcg.New(c.Seed))
	net, err = fused.New(models.Spec{
		Inputs: len(train[0].Rows) / len(train[0].Gains),
		Towers: []models.Tower{{Name: "gain_net", Hidden: []int{c.Width, c.Width}, Activation: models.ReLU}},
		Heads:  []models.Head{{Name: "gain", Size: 1, Gain: 0.1}},
	}, rng)
	if err != nil {
		return nil, 0, err
	}
	net.SetWorkers(runtime.GOMAXPROCS(0))
	adam := optim.NewAdam(net.Params(), optim.DefaultAdam())
	batch := make([]Decision, min(c.Batch, len(train)))
	var b buffers
	for step := range c.Steps {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		for i := range batch {
			batch[i] = train[rng.IntN(len(train))]
		}
		if _, _, err := b.errors(net, batch); err != nil {
			return nil, 0, err
		}
		for i := range b.grad {
			b.grad[i] *= 2 / float32(len(b.grad))
		}
		if err := net.Backward(b.grad); err != nil {
			return nil, 0, err
		}
		adam.Step(c.LearningRate * (1 - float64(step)/float64(c.Steps)))
	}
	var rest, all float64
	for part := range slices.Chunk(held, 256) {
		r, a, err := b.errors(net, part)
		if err != nil {
			return nil, 0, err
		}
		rest, all = rest+r, all+a
	}
	if all > 0 {
		explained = 1 - rest/all
	}
	return net, explained, nil
}

// buffers hold a batch.
type buffers struct{ rows, grad []float32 }

// errors evaluates decisions. It leaves the error of each node in grad, the network's output less its mean over the
// decision's nodes and less the gain, and returns the sums of the squares of the errors and of the gains.
func (b *buffers) errors(net *fused.Network, decisions []Decision) (rest, all float64, err error) {
	b.rows, b.grad = b.rows[:0], b.grad[:0]
	n := 0
	for i := range decisions {
		b.rows = append(b.rows, decisions[i].Rows...)
		n += len(decisions[i].Gains)
	}
	q, err := net.Forward(b.rows, n)
	if err != nil {
		return 0, 0, err
	}
	for i := range decisions {
		gains := decisions[i].Gains
		mean := float32(0)
		for _, x := range q[:len(gains)] {
			mean += x / float32(len(gains))
		}
		for k, gain := range gains {
			e := q[k] - mean - gain
			b.grad = append(b.grad, e)
			rest += float64(e) * float64(e)
			all += float64(gain) * float64(gain)
		}
		q = q[len(gains):]
	}
	return rest, all, nil
}

// Policy returns the policy that takes the node with the highest sum of the network's gain and the weight times WeightedFGD's
// score, for the environments of c. It is an actor-critic whose value is 0.
//
// It has two units in each layer besides those of net: a ReLU of the score and one of minus the score, whose
// difference is the score.
func (c *Config) Policy(net *fused.Network) (policies.Network, *fused.Network, agents.EnvInfo, error) {
	n := policies.Defaults()
	n.Policy, n.NetArch, n.ActivationFn = policies.Node, []int{c.Width + 2, c.Width + 2}, models.ReLU
	v, err := envs.Make(c.Env, 1, envs.VecOptions{Options: c.EnvKwargs})
	if err != nil {
		return n, nil, agents.EnvInfo{}, err
	}
	defer v.Close()
	obs, act := v.Spaces()
	info := agents.EnvInfo{ID: v.Spec().ID, Kwargs: c.EnvKwargs, Obs: obs, Act: act, NumEnvs: 1}
	spec, err := n.ActorCritic(obs, act)
	if err != nil {
		return n, nil, info, err
	}
	policy, err := fused.New(spec, nil)
	if err != nil {
		return n, nil, info, err
	}
	columns, err := scoreColumns(v.Env(0).Task())
	if err != nil {
		return n, nil, info, err
	}
	for i, p := range net.Params() {
		if err := c.graft(policy, i, p, columns); err != nil {
			return n, nil, info, err
		}
	}
	return n, policy, info, nil
}

// grafted are the policy's parameters, in the order of the network of gains.
var grafted = []string{
	"mlp_extractor.policy_net.0.weight", "mlp_extractor.policy_net.0.bias",
	"mlp_extractor.policy_net.2.weight", "mlp_extractor.policy_net.2.bias",
	"action_net.weight", "action_net.bias",
}

// graft copies parameter i of the network of gains into the policy, and lets the score through.
func (c *Config) graft(policy *fused.Network, i int, from models.Param, columns map[int]float32) error {
	params := policy.Params()
	k := slices.IndexFunc(params, func(p models.Param) bool { return p.Name == grafted[i] })
	if k < 0 {
		return fmt.Errorf("advantage: the policy has no parameter %s", grafted[i])
	}
	to := params[k]
	if len(to.Shape) == 1 {
		copy(to.Value, from.Value)
		return nil
	}
	wide, narrow := to.Shape[1], from.Shape[1]
	for r := range from.Shape[0] {
		copy(to.Value[r*wide:], from.Value[r*narrow:][:narrow])
	}
	for unit, sign := range []float32{1, -1} {
		switch i {
		case 0:
			for column, weight := range columns {
				to.Value[column*wide+c.Width+unit] = sign * weight / 100
			}
		case 2:
			to.Value[(c.Width+unit)*wide+c.Width+unit] = 1
		case 4:
			to.Value[c.Width+unit] = sign * float32(100*c.Weight)
		}
	}
	return nil
}
