package vpa

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// source gives episodes their workloads. It is shared by all environments made together and
// only read.
type source struct {
	opts     Options
	discrete bool
	interval time.Duration
	history  int               // samples before the episode, 1 or more
	series   []workload.Series // of the split, on the grid of the steps; empty generates
	types    []string          // of generated workloads

	requirements []requirement // of evictions
	notes        []string      // of the data
}

// heldOutEvery is how many workloads of a file there are for each that is held out.
const heldOutEvery = 5

// newSource checks the options and loads what they name.
func newSource(o Options, discrete bool) (*source, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &source{opts: o, discrete: discrete, types: workload.Types(), interval: time.Duration(math.Round(o.Interval * float64(time.Second)))}
	s.history = max(1, int(math.Round(o.History*3600/o.Interval)))
	var err error
	if s.requirements, err = parseRequirements(o.Requirements); err != nil || o.Data == "" {
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

// split returns the part of the workloads that is trained on, or the one that is held out:
// every fifth, or the last one of fewer than five.
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

// draw seeds t's generator by rng and writes an episode's demand to t: its history, and a sample
// for each step.
func (s *source) draw(t *Task, rng *rand.Rand) {
	n := s.history + s.opts.Steps
	t.demand = t.demand[:0]
	// Train and held-out workloads have generators of their own: even and odd seeds.
	seed := rng.Uint64() &^ 1
	if s.opts.Split == SplitHeldOut {
		seed |= 1
	}
	t.source.Seed(seed)
	if len(s.series) > 0 {
		one := &s.series[t.rng.IntN(len(s.series))]
		from := t.rng.IntN(len(one.Usage) - n + 1)
		t.demand = append(t.demand, one.Usage[from:from+n]...)
		t.id = one.ID
		t.startOfDay = float64(from) * s.opts.Interval
		t.traceRequests, t.traceLimits = one.Requests, one.Limits
		return
	}
	t.id = s.opts.Workload
	if t.id == WorkloadMixed {
		t.id = s.types[t.rng.IntN(len(s.types))]
	}
	c := workload.Draw(t.id, n, s.opts.Interval, t.rng)
	t.demand = c.Append(t.demand, t.rng)
	t.startOfDay = c.Law.Start // 0 without a law
	t.traceRequests, t.traceLimits = cluster.Resources{}, cluster.Resources{}
}

func newGenerator() (*pcg.Source, *rand.Rand) {
	src := pcg.New(0)
	return src, rand.New(src)
}

// drawShares draws the pods' shares of the load and returns the greatest.
func (t *Task) drawShares() float64 {
	greatest := 1.0
	for i := range t.pods {
		t.pods[i] = pod{share: 1}
		if len(t.pods) > 1 {
			t.pods[i].share = math.Exp(t.opts.PodSpread * t.rng.NormFloat64())
		}
		if s := t.pods[i].share; i == 0 || s > greatest {
			greatest = s
		}
	}
	return greatest
}

// drawInitial draws what a container requests at the start: of a file, what the trace says.
func (t *Task) drawInitial() {
	f := t.opts.InitialLow * math.Pow(t.opts.InitialHigh/t.opts.InitialLow, t.rng.Float64())
	g := t.opts.InitialLow * math.Pow(t.opts.InitialHigh/t.opts.InitialLow, t.rng.Float64())
	peak := workload.Max(t.seen)
	want := cluster.Resources{
		MilliCPU: int64(math.Ceil(f * float64(peak.MilliCPU))), MemoryBytes: int64(math.Ceil(g * float64(peak.MemoryBytes))),
	}
	if t.traceRequests.MilliCPU > 0 {
		want.MilliCPU = t.traceRequests.MilliCPU
	}
	if t.traceRequests.MemoryBytes > 0 {
		want.MemoryBytes = t.traceRequests.MemoryBytes
	}
	// Before limits are known, RequestsOnly has none to hold requests to.
	t.limits = cluster.Resources{}
	t.low, t.high = t.opts.bounds()
	t.rec = Recommendation{Lower: want, Target: want, Upper: want, Uncapped: want}
	t.cap(&t.rec)
	t.initial = t.rec.Target
	o, implied, greatest := t.opts, amount(t.opts.RangeCPU, t.opts.RangeMemory), amount(t.opts.RangeMaxCPU, t.opts.RangeMaxMemory)
	r, l, high, trace := &t.initial, &t.limits, &t.high, t.traceLimits
	r.MilliCPU, l.MilliCPU, high.MilliCPU = o.start(r.MilliCPU, trace.MilliCPU, implied.MilliCPU, greatest.MilliCPU, high.MilliCPU, o.LimitRatioCPU)
	r.MemoryBytes, l.MemoryBytes, high.MemoryBytes = o.start(r.MemoryBytes, trace.MemoryBytes, implied.MemoryBytes, greatest.MemoryBytes, high.MemoryBytes, o.LimitRatioMemory)
	t.rec = Recommendation{Lower: t.initial, Target: t.initial, Upper: t.initial, Uncapped: t.initial}
}
