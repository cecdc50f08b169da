// Package advantage learns a node scorer from the gains of rollouts, by least squares.
//
// At a sampled decision, the pod or container goes to several nodes in turn, and a heuristic plays the same futures from
// each. The gain of a node is the value of its futures less the mean over these nodes. It is noisy, and the choice of the
// best node is more so. A network that learns the gains of many decisions averages the noise. The policy adds a weight
// times the heuristic's score, because the network learns little about nodes that rollouts seldom try.
//
// Two domains have such futures: [GPU], with the heuristic WeightedFGD, and [Online], with the index of nodes, to which the
// policy's score adds what the baseline index_ahead does.
//
// With the rollouts' policy π, the network estimates its advantage A(s, a), up to a number for each state; taking the best
// action is one step of policy iteration. The first round samples the heuristic's episodes. The policy reaches other
// states, where its choices can be worse. Further rounds therefore sample episodes of the policy so far.
//
// Source: Lagoudakis and Parr, "Reinforcement Learning as Classification", ICML 2003; Tesauro and Galperin,
// "On-line Policy Improvement using Monte-Carlo Search", NeurIPS 1996; Ross, Gordon and Bagnell, "A Reduction of
// Imitation Learning and Structured Prediction to No-Regret Online Learning", AISTATS 2011 (own episodes).
package advantage

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
	"github.com/kubernasium/kubernasium/models/optim"
)

// Config configures a training.
type Config struct {
	Env       string         // id
	EnvKwargs map[string]any // options
	Domain    Domain
	Seed      uint64 // of all that is random

	Rounds       int     // all but the first in the policy's own episodes
	Episodes     int     // that are played in each
	Density      float64 // sampled part of the eligible decisions
	Best, Others int     // nodes tried: those of the highest score, and drawn ones
	Futures      int
	Explore      float64 // part of the decisions of every other episode of the first round that takes one of the four best nodes at random

	Width, Steps, Batch int     // of the two layers; gradient steps; decisions in each
	LearningRate        float64 // falls linearly to 0
	Weight              float64 // gain for a point of the heuristic's score
}

// A Domain plays futures of the episodes of its environments.
type Domain interface {
	// Kwargs adds the options of an environment that learning needs.
	Kwargs(opts map[string]any)
	// Gains returns the gains of a task over the given number of futures.
	Gains(task envs.Task, futures int) (Gains, error)
}

// Gains values nodes for a task's pod or container by futures.
type Gains interface {
	// Begin prepares for an episode that has just begun.
	Begin() error
	// Over reports whether no decision remains: the episode began without one, or has ended.
	Over() bool
	// Eligible reports whether the decision may be sampled.
	Eligible() bool
	// Nodes returns the best nodes by the heuristic, and a number of others. The result is valid until the next call.
	Nodes(best, others int, rng *rand.Rand) []int32
	// Play returns the values of nodes: means over futures that are equal for all of them. The result is valid until the next
	// call.
	Play(nodes []int32, rng *rand.Rand) []float64
	// Score returns the heuristic's score, as a sum over columns of a node's row.
	Score() ([]Column, error)
}

// Column is a column of a node's row, or what is positive of it, with a weight.
type Column struct {
	Column   int
	Weight   float32
	Positive bool // max(0, x) in place of x
}

// of returns the term of a row.
func (c Column) of(row []float32) float32 {
	x := row[c.Column]
	if c.Positive {
		x = max(x, 0)
	}
	return c.Weight * x
}

func (c *Config) check() error {
	if c.Rounds < 1 || c.Episodes < 1 || c.Best < 2 || c.Others < 0 || c.Width < 1 || c.Steps < 1 || c.Batch < 1 || c.LearningRate <= 0 || c.Weight < 0 {
		return errors.New("advantage: want at least one round and episode, two best nodes, width, step and decision of a batch, a learning rate above 0 and a weight of 0 or more")
	}
	return nil
}

// Train plays the rounds and learns after each from all decisions so far. It calls progress after each round, and returns
// the last network and its report.
func (c *Config) Train(ctx context.Context, progress func(round int, r Report)) (net *fused.Network, r Report, err error) {
	if err := c.check(); err != nil {
		return nil, r, err
	}
	var all []Decision
	for round := range c.Rounds {
		more, err := c.Collect(ctx, round, net)
		if err != nil {
			return nil, r, err
		}
		all = append(all, more...)
		if net, r, err = c.Fit(ctx, all); err != nil {
			return nil, r, err
		}
		progress(round, r)
	}
	return net, r, nil
}

// Decision holds the gains of the nodes that were tried for one pod or container, the heuristic's choice first.
type Decision struct {
	Episode int
	Nodes   []float32 // rows of the nodes
	Globals []float32 // the rest of the observation
	Scores  []float32 // the heuristic's
	Gains   []float32 // values of the nodes less their mean
}

// rows appends the network's inputs: the row of each node, followed by the globals.
func (d *Decision) rows(dst []float32) []float32 {
	for row := range slices.Chunk(d.Nodes, len(d.Nodes)/len(d.Gains)) {
		dst = append(append(dst, row...), d.Globals...)
	}
	return dst
}

// Report evaluates a network on the episodes that it has not seen, every tenth.
type Report struct {
	Decisions int     // in all
	Explained float64 // part of the variance of the gains that the network explains
	Gain      float64 // by how much the policy's choice among the nodes tried exceeds the heuristic's, in the mean of decisions
	Error     float64 // standard error of Gain, as if decisions were independent
}

// Collect plays the episodes of a round, on all cores, and returns their decisions in order. They do not depend on the
// number of cores. With a network its policy plays, and else the heuristic.
func (c *Config) Collect(ctx context.Context, round int, net *fused.Network) ([]Decision, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	seeds, rng := make([]uint64, (round+1)*c.Episodes), rand.New(pcg.New(c.Seed))
	for k := range seeds {
		seeds[k] = rng.Uint64N(trainingSeeds)
	}
	first := round * c.Episodes
	all := make([][]Decision, c.Episodes)
	var next atomic.Int64
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), c.Episodes)
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			errs[w] = c.work(ctx, net, func(p *player) error {
				for k := int(next.Add(1)) - 1; k < c.Episodes; k = int(next.Add(1)) - 1 {
					var err error
					if all[k], err = p.episode(ctx, first+k, seeds[first+k]); err != nil {
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

// work makes a player for do.
func (c *Config) work(ctx context.Context, net *fused.Network, do func(p *player) error) error {
	opts := maps.Clone(c.EnvKwargs)
	if opts == nil {
		opts = map[string]any{}
	}
	c.Domain.Kwargs(opts)
	v, err := envs.Make(c.Env, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	if err != nil {
		return err
	}
	defer v.Close()
	p, err := c.player(v, net)
	if err != nil {
		return err
	}
	return do(p)
}

// Fit learns the gains, and returns the network and its report.
func (c *Config) Fit(ctx context.Context, decisions []Decision) (net *fused.Network, r Report, err error) {
	if err := c.check(); err != nil {
		return nil, r, err
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
		return nil, r, errors.New("advantage: no decision to learn from")
	}
	rng := rand.New(pcg.New(c.Seed))
	net, err = fused.New(models.Spec{
		Inputs: len(train[0].Nodes)/len(train[0].Gains) + len(train[0].Globals),
		Towers: []models.Tower{{Name: "gain_net", Hidden: []int{c.Width, c.Width}, Activation: models.ReLU}},
		Heads:  []models.Head{{Name: "gain", Size: 1, Gain: 0.1}},
	}, rng)
	if err != nil {
		return nil, r, err
	}
	net.SetWorkers(runtime.GOMAXPROCS(0))
	adam := optim.NewAdam(net.Params(), optim.DefaultAdam())
	batch := make([]Decision, min(c.Batch, len(train)))
	var b buffers
	for step := range c.Steps {
		if err := ctx.Err(); err != nil {
			return nil, r, err
		}
		for i := range batch {
			batch[i] = train[rng.IntN(len(train))]
		}
		if _, _, err := b.errors(net, batch); err != nil {
			return nil, r, err
		}
		for i := range b.grad {
			b.grad[i] *= 2 / float32(len(b.grad))
		}
		if err := net.Backward(b.grad); err != nil {
			return nil, r, err
		}
		adam.Step(c.LearningRate * (1 - float64(step)/float64(c.Steps)))
	}
	r, err = c.report(net, &b, held)
	r.Decisions = len(decisions)
	return net, r, err
}

// report evaluates the network on decisions that it has not seen.
func (c *Config) report(net *fused.Network, b *buffers, held []Decision) (r Report, err error) {
	var rest, all, sum, squares float64
	for part := range slices.Chunk(held, 256) {
		lost, of, err := b.errors(net, part)
		if err != nil {
			return r, err
		}
		rest, all = rest+lost, all+of
		errs := b.grad
		for _, d := range part {
			chosen, most := 0, float32(math.Inf(-1))
			for k, gain := range d.Gains {
				if x := errs[k] + gain + float32(c.Weight)*d.Scores[k]; x > most {
					chosen, most = k, x
				}
			}
			x := float64(d.Gains[chosen] - d.Gains[0])
			sum, squares = sum+x, squares+x*x
			errs = errs[len(d.Gains):]
		}
	}
	if n := float64(len(held)); all > 0 && n > 1 {
		r.Explained, r.Gain = 1-rest/all, sum/n
		r.Error = math.Sqrt(max(0, squares/n-r.Gain*r.Gain) / (n - 1))
	}
	return r, nil
}

// buffers hold a batch.
type buffers struct{ rows, grad []float32 }

// errors evaluates decisions. It leaves the error of each node in grad, the network's output less its mean over the
// decision's nodes and less the gain, and returns the sums of the squares of the errors and of the gains.
func (b *buffers) errors(net *fused.Network, decisions []Decision) (rest, all float64, err error) {
	b.rows, b.grad = b.rows[:0], b.grad[:0]
	n := 0
	for i := range decisions {
		b.rows = decisions[i].rows(b.rows)
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
