package vpa

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/vpa/neighbours"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// source holds the workloads of episodes. All environments made together share it read-only.
type source struct {
	opts     Options
	law      *neighbours.Law // of nodes; nil if the pods have their node to themselves
	discrete bool
	interval time.Duration
	history  int               // samples before the episode, 1 or more
	series   []workload.Series // of the split, on the grid of the steps; empty generates
	types    []string          // of generated workloads

	requirements []pods.Requirement // of evictions
	notes        []string           // of the data
}

// heldOutEvery is the number of workloads of a file per held-out one.
const heldOutEvery = 5

// newSource checks the options and loads the files that they name.
func newSource(o Options, discrete bool) (*source, error) {
	if err := o.check(1, EncodingLog, EncodingRelative, EncodingUpstream); err != nil {
		return nil, err
	}
	return load(o, discrete)
}

// newSharedSource is newSource for the environment with a shared node.
func newSharedSource(o SharedOptions) (*source, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s, err := load(o.Options, false)
	if err == nil {
		s.law = &neighbours.Law{
			Number: o.Neighbours, SizeLow: o.SizeLow, SizeHigh: o.SizeHigh, BusyCPU: o.BusyCPU, BusyMemory: o.BusyMemory,
			NodeCPU: o.NodeCPU, NodeMemory: o.NodeMemory, FaultsPerDay: o.Faults, Types: s.types, Interval: o.Interval,
		}
	}
	return s, err
}

// load makes the source from checked options.
func load(o Options, discrete bool) (*source, error) {
	s := &source{opts: o, discrete: discrete, types: workload.Types(), interval: pods.Duration(o.Interval)}
	s.history = max(1, int(math.Round(o.History*3600/o.Interval)))
	var err error
	if s.requirements, err = pods.ParseRequirements(o.Requirements); err != nil || o.Data == "" {
		return s, err
	}
	grid := workload.Grid{Interval: s.interval, MaxGap: time.Duration(o.MaxGap * float64(time.Second))}
	all, report, err := workload.ReadFiles(o.Data, o.Format, grid)
	if err != nil {
		return nil, err
	}
	s.notes = report.Holes
	s.series, err = split(all, o.Split)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Data, err)
	}
	for _, one := range s.series {
		if n := s.history + o.Steps; len(one.Usage) < n {
			return nil, fmt.Errorf("%s: workload %q has %d samples of %v, want %d for the %d of history_h:%v and steps:%d, or smaller options",
				o.Data, one.ID, len(one.Usage), s.interval, n, s.history, o.History, o.Steps)
		}
	}
	return s, nil
}

// split returns the training part of the workloads, or the held-out part: every fifth, or the last
// one of fewer than five.
func split(all []workload.Series, part string) ([]workload.Series, error) {
	if part == SplitAll {
		return all, nil
	}
	if len(all) < 2 {
		return nil, fmt.Errorf("one workload cannot be split, want two or more, or the option split:all")
	}
	var out []workload.Series
	for i, one := range all {
		held := i%heldOutEvery == heldOutEvery-1 || len(all) < heldOutEvery && i == len(all)-1
		if held == (part == SplitHeldOut) {
			out = append(out, one)
		}
	}
	return out, nil
}

// instance is the workload of an episode with everything else that is drawn for it.
type instance struct {
	id               string              // type of the workload, or its name in a file
	history          int                 // samples of demand before the episode
	demand           []cluster.Resources // of the workload: history, then a sample for each step
	startOfDay       float64             // seconds since Monday 00:00 at the first sample of demand
	requests, limits cluster.Resources   // of a container, from the file; 0 if it has none
	shares           []float64           // of the load, for each pod
	factors          [2]float64          // CPU and memory requested at the start, over the history's peak

	node neighbours.Node // for pods that share it
}

func (in *instance) past() []cluster.Resources   { return in.demand[:in.history] }
func (in *instance) coming() []cluster.Resources { return in.demand[in.history:] }

func (in *instance) clone() instance {
	c := *in
	c.demand, c.shares = slices.Clone(in.demand), slices.Clone(in.shares)
	c.node = in.node.Clone()
	return c
}

// generator draws the instances of one environment.
type generator struct {
	src *source
	pcg *pcg.Source // of rng
	rng *rand.Rand
}

func newGenerator(src *source) generator {
	p := pcg.New(0)
	return generator{src: src, pcg: p, rng: rand.New(p)}
}

func (g *generator) clone() generator {
	p := *g.pcg
	return generator{src: g.src, pcg: &p, rng: rand.New(&p)}
}

// draw overwrites in with an instance drawn from a seed that rng gives. When ctx ends, it returns early.
func (g *generator) draw(ctx context.Context, in *instance, rng *rand.Rand) {
	o := &g.src.opts
	// Train and held-out workloads have generators of their own: even and odd seeds.
	seed := rng.Uint64() &^ 1
	if o.Split == SplitHeldOut {
		seed |= 1
	}
	g.pcg.Seed(seed)
	g.drawWorkload(ctx, in)
	if ctx.Err() != nil {
		return
	}
	in.shares = in.shares[:0]
	for range o.Pods {
		share := 1.0
		if o.Pods > 1 {
			share = math.Exp(o.PodSpread * g.rng.NormFloat64())
		}
		in.shares = append(in.shares, share)
	}
	for r := range in.factors {
		in.factors[r] = o.InitialLow * math.Pow(o.InitialHigh/o.InitialLow, g.rng.Float64())
	}
	if law := g.src.law; law != nil {
		own := neighbours.Own{Past: in.past(), Steps: o.Steps, StartOfDay: in.startOfDay, Shares: in.shares}
		law.Draw(ctx, &in.node, &own, g.rng)
	}
}

func (g *generator) drawWorkload(ctx context.Context, in *instance) {
	s := g.src
	n := s.history + s.opts.Steps
	in.history, in.demand = s.history, in.demand[:0]
	if len(s.series) > 0 {
		one := &s.series[g.rng.IntN(len(s.series))]
		from := g.rng.IntN(len(one.Usage) - n + 1)
		in.demand = append(in.demand, one.Usage[from:from+n]...)
		in.id = one.ID
		in.startOfDay = float64(from) * s.opts.Interval
		in.requests, in.limits = one.Requests, one.Limits
		return
	}
	in.id = s.opts.Workload
	if in.id == WorkloadMixed {
		in.id = s.types[g.rng.IntN(len(s.types))]
	}
	c := workload.Draw(in.id, n, s.opts.Interval, g.rng)
	in.demand = c.Append(ctx, in.demand, g.rng)
	in.startOfDay = c.Law.Start // 0 without a law
	in.requests, in.limits = cluster.Resources{}, cluster.Resources{}
}
