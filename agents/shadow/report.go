package shadow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// DefaultBlock is the default length of the blocks of time of intervals.
const DefaultBlock = time.Hour

// Choice is the node of a pod, with its devices.
type Choice = live.Choice

// Chooser chooses a node for the pod of d among the nodes of s that it fits; there is at least one. Nodes that filters
// exclude are cordoned. [live.Policy] is a Chooser.
type Chooser interface {
	Choose(ctx context.Context, s *cluster.State, d envs.Decision) (Choice, error)
}

var _ Chooser = (*live.Policy)(nil)

// Policy is a policy to compare with the recorded scheduler.
type Policy struct {
	Name string
	// Open returns a new chooser and a function that frees it. It is called twice: one chooser judges the recorded
	// scheduler's decisions, the other places pods in the policy's cluster.
	Open func() (Chooser, func() error, error)
}

// Options are the options of [Run].
type Options struct {
	Policies   []Policy
	Schedulers []string      // whose pods the policies place; nil: all
	Since      time.Duration // offset from the recording's start; earlier time is simulated but not measured
	Block      time.Duration // length of the blocks of time for the intervals; 0: [DefaultBlock]

	// Decided receives each recorded decision with the policies' choices; may be nil.
	Decided func(Decision) error
}

// Decision is a decision of the recorded scheduler.
type Decision struct {
	At      time.Time
	Pod     string   // namespace/name
	Node    string   // to which the pod was bound; "" if it no longer exists
	Choices []string // the policies' nodes in the recorded cluster at this time; nil if the pod fits no node
}

// Number is a float64 that is null in JSON if it is not finite.
type Number float64

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// Estimate is a value with its 95 % confidence interval. The bounds are NaN if there are too few blocks of time.
type Estimate struct {
	Value Number `json:"value"`
	Low   Number `json:"low"`
	High  Number `json:"high"`
}

// Verdicts on differences.
const (
	Better       = "better"
	Worse        = "worse"
	NoDifference = "no difference shown" // the interval contains 0, or there is none
)

// Difference is the difference of a policy's cluster from the recorded one.
type Difference struct {
	Estimate
	Verdict string `json:"verdict"`
}

// Report compares a recorded cluster with those of policies. Lists by metric are in the order of Metrics.
type Report struct {
	Source       string    `json:"source,omitempty"`
	Start        time.Time `json:"start"` // of the measured time
	End          time.Time `json:"end"`
	BlockSeconds float64   `json:"block_s"`
	Blocks       int       `json:"blocks"`
	Nodes        int       `json:"nodes"` // of the whole recording
	Pods         int       `json:"pods"`  // for the policies to place
	Given        int       `json:"given_pods"`
	Metrics      []Metric  `json:"metrics"`
	Recorded     Cluster   `json:"recorded"`
	Policies     []Cluster `json:"policies"`
	Disagreed    int       `json:"disagreed"` // recorded decisions with which some policy disagrees
	LeftOut      int       `json:"left_out"`  // recorded decisions without a comparison: the pod fits no node by the constraints modelled here
	Unplaced     []Waiting `json:"placed_by_nobody"`
	NotModelled  []string  `json:"not_modelled"`

	Disagreements []Disagreement `json:"disagreements"` // those with the greatest differences in cost, by time
}

// Cluster is a cluster of a report.
type Cluster struct {
	Name        string       `json:"name"`
	Placed      int          `json:"placed_pods"`
	Values      []Estimate   `json:"values"`                // by metric
	Differences []Difference `json:"differences,omitempty"` // by metric; of a policy
	Series      [][]Number   `json:"series"`                // by metric, by block

	// Of a policy.
	Agreement  *Estimate `json:"agreement,omitempty"` // percent of the compared decisions in which it chooses the recorded node
	Asked      int       `json:"asked,omitempty"`     // compared decisions
	Displaced  int       `json:"displaced,omitempty"` // pods that were pending again because their node was removed
	Deferred   int       `json:"deferred_resizes,omitempty"`
	Violations int       `json:"budget_violations,omitempty"` // evictions that violated a disruption budget, because no node had other pods to evict
	Only       []Waiting `json:"not_placed_here,omitempty"`   // pods that only the recorded scheduler placed
}

// Waiting is a pod that was not placed.
type Waiting struct {
	Pod         string    `json:"pod"`
	Created     time.Time `json:"created"`
	MilliCPU    int64     `json:"milli_cpu"`
	MemoryBytes int64     `json:"memory_bytes"`
	GPUs        int32     `json:"gpus,omitempty"`
	MilliGPU    int32     `json:"milli_gpu,omitempty"`
}

// Read reads a recording. If it is cut, Read returns the readable part and an error that wraps
// [clustertrace.ErrCut].
func Read(r *clustertrace.Reader) (*Recording, error) {
	rec := &Recording{Header: r.Header}
	for {
		e, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return rec, nil
		case errors.Is(err, clustertrace.ErrCut):
			return rec, err
		case err != nil:
			return nil, err
		}
		rec.Events = append(rec.Events, e)
	}
}

// Run compares policies with a recording. Equal recordings and policies give equal reports.
func Run(ctx context.Context, r *Recording, o Options) (*Report, error) {
	h, err := read(r, o.Schedulers)
	if err != nil {
		return nil, err
	}
	o.Block = cmp.Or(o.Block, DefaultBlock)
	switch {
	case o.Block < 0:
		return nil, fmt.Errorf("shadow: blocks of %v, want more than 0", o.Block)
	case o.Since < 0 || o.Since >= h.end:
		return nil, fmt.Errorf("shadow: since %v, want 0 to less than the recording's %v", o.Since, h.end)
	}
	run := &run{history: h, o: o, since: o.Since}
	if err := run.recorded(ctx); err != nil {
		return nil, err
	}
	for i := range o.Policies {
		if err := run.policy(ctx, &o.Policies[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Policies[i].Name, err)
		}
	}
	return run.report(), nil
}

// run is the state of a call of Run.
type run struct {
	*history
	o      Options
	since  time.Duration
	poll   *poll
	worlds []*world // the recorded one, then those of the policies
	blocks int
}

func (r *run) newMeter() *meter { return newMeter(r.since, r.end, r.o.Block) }

func (r *run) recorded(ctx context.Context) (err error) {
	m := r.newMeter()
	r.blocks = len(m.ratios[0].num)
	r.poll = &poll{decided: r.o.Decided}
	for i := range r.o.Policies {
		c, closeChooser, err := r.o.Policies[i].Open()
		if err != nil {
			return fmt.Errorf("%s: %w", r.o.Policies[i].Name, err)
		}
		defer func() { err = errors.Join(err, closeChooser()) }()
		r.poll.voters = append(r.poll.voters, &voter{name: r.o.Policies[i].Name, chooser: c, agreed: ratio{make([]float64, r.blocks), make([]float64, r.blocks)}})
	}
	w := newWorld(r.history, m)
	r.worlds = append(r.worlds, w)
	return w.replayRecorded(ctx, r.poll)
}

func (r *run) policy(ctx context.Context, p *Policy) (err error) {
	c, closeChooser, err := p.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeChooser()) }()
	w := newWorld(r.history, r.newMeter())
	r.worlds = append(r.worlds, w)
	return w.replayPolicy(ctx, c)
}

// shown returns the metrics of the report. Those of GPUs and preemptions appear only if there are any.
func (r *run) shown() (all []int) {
	evicted := slices.ContainsFunc(r.worlds, func(w *world) bool { return floats.Sum(w.meter.ratios[preemptions].num) > 0 })
	for i := range numMetrics {
		switch i {
		case gpuAllocated, fragmentation:
			if r.fragments == nil {
				continue
			}
		case preemptions:
			if !evicted {
				continue
			}
		}
		all = append(all, i)
	}
	return all
}

func (r *run) report() *Report {
	rep := &Report{
		Source: r.Header.Source, Start: r.Header.Start.Add(r.since), End: r.Header.Start.Add(r.end), BlockSeconds: r.o.Block.Seconds(),
		Blocks: r.blocks, Nodes: len(r.nodes), LeftOut: r.poll.skipped, Disagreed: r.poll.differ.number, Disagreements: r.poll.differ.worst(), Unplaced: []Waiting{}, NotModelled: r.notModelled(),
	}
	for i := range r.pods {
		if r.pods[i].fixed {
			rep.Given++
		} else {
			rep.Pods++
		}
	}
	for _, i := range r.shown() {
		rep.Metrics = append(rep.Metrics, metrics[i])
	}
	all := r.estimates()
	for k, w := range r.worlds {
		c := Cluster{Name: "recorded", Values: all[k].values, Differences: all[k].differences}
		for _, i := range r.shown() {
			c.Series = append(c.Series, series(w.meter.ratios[i]))
		}
		for p := range w.pods {
			switch {
			case r.pods[p].fixed:
			case w.pods[p].placed:
				c.Placed++
			case k > 0 && r.pods[p].bound != never:
				c.Only = append(c.Only, r.waiting(p))
			}
		}
		if k == 0 {
			rep.Recorded = c
			continue
		}
		v := r.poll.voters[k-1]
		c.Name, c.Agreement, c.Asked = r.o.Policies[k-1].Name, &all[k].agreement, v.asked
		c.Displaced, c.Deferred, c.Violations = w.meter.displaced, w.meter.deferred, w.meter.violations
		rep.Policies = append(rep.Policies, c)
	}
	for p := range r.pods {
		if !r.pods[p].fixed && !slices.ContainsFunc(r.worlds, func(w *world) bool { return w.pods[p].placed }) {
			rep.Unplaced = append(rep.Unplaced, r.waiting(p))
		}
	}
	return rep
}

func (r *run) waiting(p int) Waiting {
	t := r.templates[r.pods[p].template]
	return Waiting{
		Pod: r.pods[p].name, Created: r.Header.Start.Add(r.pods[p].created), MilliCPU: t.MilliCPU, MemoryBytes: t.MemoryBytes,
		GPUs: t.GPUs, MilliGPU: t.MilliGPU,
	}
}

func series(r ratio) []Number {
	all := make([]Number, len(r.num))
	for b := range all {
		all[b] = Number(r.num[b] / r.den[b]) // NaN without measurements
	}
	return all
}

// estimates of a cluster, by metric shown.
type estimates struct {
	values      []Estimate
	differences []Difference
	agreement   Estimate
}

// estimates returns the estimates of all worlds. All intervals use the same resamples of blocks.
func (r *run) estimates() []estimates {
	var ratios []ratio
	var scales []float64
	add := func(x ratio, scale float64) { ratios, scales = append(ratios, x), append(scales, scale) }
	for k, w := range r.worlds {
		for _, i := range r.shown() {
			add(w.meter.ratios[i], 1)
			if k > 0 {
				add(w.meter.ratios[i].minus(r.worlds[0].meter.ratios[i]), 1)
			}
		}
		if k > 0 {
			add(r.poll.voters[k-1].agreed, 100)
		}
	}
	intervals := slices.Repeat([]interval{{math.NaN(), math.NaN()}}, len(ratios))
	if r.blocks >= minBlocks {
		intervals = bootstrap(ratios, r.blocks)
	}
	next := 0
	take := func() Estimate {
		x, in, scale := ratios[next], intervals[next], scales[next]
		next++
		return Estimate{Number(scale * x.value()), Number(scale * in.low), Number(scale * in.high)}
	}
	all := make([]estimates, len(r.worlds))
	for k := range r.worlds {
		for _, i := range r.shown() {
			all[k].values = append(all[k].values, take())
			if k > 0 {
				d := take()
				all[k].differences = append(all[k].differences, Difference{d, verdict(d, metrics[i].Better)})
			}
		}
		if k > 0 {
			all[k].agreement = take()
		}
	}
	return all
}

// verdict judges a difference by its interval.
func verdict(d Estimate, better string) string {
	var wanted bool
	switch {
	case d.Low > 0:
		wanted = better == higher
	case d.High < 0:
		wanted = better == lower
	default:
		return NoDifference
	}
	if wanted {
		return Better
	}
	return Worse
}

// notModelled lists parts of the recording that the policies' clusters do not model.
func (r *run) notModelled() []string {
	spaces := 0
	for i := range r.pods {
		if b := r.podRules[r.pods[i].template]; b != nil && b.Unknown {
			spaces++
		}
	}
	var all []string
	if !slices.ContainsFunc(r.Events, func(e clustertrace.Event) bool { return e.Kind == clustertrace.AddBudget }) {
		all = append(all, "disruption budgets: the recording has none, and policies evict pods of lower priority as if there were none")
	}
	if spaces > 0 {
		all = append(all, fmt.Sprintf("affinity to pods of namespaces that are selected by labels, which %d pods ask for", spaces))
	}
	return all
}
