package vpa

import (
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// weights are the weights of the reward's terms. They were set before any agent was trained.
type weights struct{ slack, overrun, change float64 }

var weightings = map[string]weights{
	WeightingSlack: {4, 1, 1},
	WeightingEqual: {1, 1, 1},
	WeightingRisk:  {1, 4, 1},
}

// Units of the reward's terms, in hours of the workload's mean demand.
const (
	memoryPrice = 1 / 7.5 // cores for a GiB: the ratio of Google Cloud's prices for N1 machines
	unmetPrice  = 10      // of a core-hour of CPU that was not served, over one that was idle
	oomHours    = 1       // for an OOM kill of one pod
	evictHours  = 0.25    // for an eviction of one pod
	resizeHours = 0.02    // for a resize of one pod in place
)

// leastNorm keeps the costs of an idle workload finite: a hundredth of a core.
const leastNorm = 0.01

// costs are the terms of the reward, in hours of the workload's mean demand. harm, to neighbours, has
// the weight of overrun.
type costs struct{ slack, overrun, change, harm float64 }

func (c *costs) add(d costs) {
	c.slack += d.slack
	c.overrun += d.overrun
	c.change += d.change
	c.harm += d.harm
}

// ledger adds up the events of an episode and their costs.
type ledger struct {
	weights  weights // of the reward's terms
	norm     float64 // mean demand of all pods, in cores with memory at its price
	sum      interval
	action   costs // of the last action
	total    costs
	lastKill int // step of the last OOM kill; -1 before it
	lastMove int // step of the last eviction or resize; -1 before it
}

func newLedger(o *Options) ledger {
	return ledger{weights: weightings[o.Weighting], lastKill: -1, lastMove: -1}
}

// begin opens the ledger of an episode.
func (l *ledger) begin(in *instance) {
	*l = ledger{weights: l.weights, norm: in.meanDemand(), lastKill: -1, lastMove: -1}
}

// meanDemand returns the mean demand of all pods over the episode in cores, with memory at its
// price.
func (in *instance) meanDemand() float64 {
	var cpu, mem, shares float64
	for _, u := range in.coming() {
		cpu, mem = cpu+float64(u.MilliCPU), mem+float64(u.MemoryBytes)
	}
	for _, s := range in.shares {
		shares += s
	}
	return max((cpu/1000+mem/gib*memoryPrice)*shares/float64(len(in.coming())), leastNorm)
}

// note adds a step's events to the sums.
func (l *ledger) note(s *interval, step int) {
	if s.ooms > 0 {
		l.lastKill = step
	}
	if s.evictions+s.resizes > 0 {
		l.lastMove = step
	}
	l.sum.add(s)
}

// charge computes the costs of a step and adds them to those of the action and of the episode.
func (l *ledger) charge(s *interval, step time.Duration, n int) {
	hours := step.Hours() / l.norm
	pods := float64(n)
	now := costs{
		slack: (s.slackCPU/1000 + s.slackMem/gib*memoryPrice) * hours,
		overrun: (s.overCPU/1000+s.overMem/gib*memoryPrice)*hours +
			unmetPrice*((s.throttledCPU+s.downCPU)/1000*hours+s.lost/3600/l.norm) +
			oomHours*float64(s.ooms)/pods,
		change: (evictHours*float64(s.evictions) + resizeHours*float64(s.resizes)) / pods,
		harm:   s.harm / l.norm,
	}
	l.action.add(now)
	l.total.add(now)
}

// weighted returns the weighted sum of c's terms.
func (l *ledger) weighted(c *costs) float64 {
	return l.weights.slack*c.slack + l.weights.overrun*(c.overrun+c.harm) + l.weights.change*c.change
}

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) {
	l, hours := &t.ledger, t.Interval().Hours()
	a := &l.sum
	request := a.requestCPU/1000 + a.requestMem/gib*memoryPrice
	slack := a.slackCPU/1000 + a.slackMem/gib*memoryPrice
	down := 0
	for i := range t.dynamics.pods {
		if !t.dynamics.pods[i].serving(t.now()) {
			down++
		}
	}
	values := [...]float64{
		l.weighted(&l.total), percent(slack, request), percent(a.throttledCPU, a.demandCPU),
		float64(a.ooms), float64(a.evictions), float64(a.resizes), float64(a.restarts), percent(a.downCPU, a.demandCPU),
		l.action.slack, l.action.overrun, l.action.change, l.total.slack, l.total.overrun, l.total.change,
		a.slackCPU / 1000 * hours, a.slackMem / gib * hours, a.overCPU / 1000 * hours, a.overMem / gib * hours,
		a.requestCPU / 1000 * hours, a.requestMem / gib * hours, a.lost / 3600,
		number(t.flags.repaired), number(t.flags.capped), float64(down),
	}
	n := copy(dst, values[:])
	if s := t.dynamics.shared; s != nil {
		copy(dst[n:], []float64{l.action.harm, l.total.harm, float64(a.nodeEvictions),
			percent(s.stats.throttledCPU+s.stats.downCPU, s.stats.demandCPU), 100 * s.load[0].Last(), 100 * s.load[1].Last()})
	}
}

func percent(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var infoColumns = []envs.Column{
	{Name: "cost", DType: "float64", Doc: "weighted costs since the reset, in hours of the workload's mean demand: minus the return"},
	{Name: "slack_pct", DType: "float64", Doc: "of what was requested since the reset, how much was not used, with memory at its price"},
	{Name: "throttled_pct", DType: "float64", Doc: "of the CPU demanded since the reset, how much was refused at the limit, or by a shared node"},
	{Name: "ooms", DType: "int64", Doc: "OOM kills since the reset"},
	{Name: "evictions", DType: "int64", Doc: "evictions since the reset"},
	{Name: "resizes", DType: "int64", Doc: "resizes in place since the reset"},
	{Name: "restarts", DType: "int64", Doc: "starts of containers since the reset: OOM kills, evictions, resizes that restart"},
	{Name: "down_pct", DType: "float64", Doc: "of the CPU demanded since the reset, how much came while the container was down"},
	{Name: "slack_cost", DType: "float64", Doc: "underrun term of the step, unweighted, in hours of the mean demand"},
	{Name: "overrun_cost", DType: "float64", Doc: "overrun term of the step, likewise"},
	{Name: "change_cost", DType: "float64", Doc: "change term of the step, likewise"},
	{Name: "slack_cost_total", DType: "float64", Doc: "sum of slack_cost since the reset"},
	{Name: "overrun_cost_total", DType: "float64", Doc: "sum of overrun_cost since the reset"},
	{Name: "change_cost_total", DType: "float64", Doc: "sum of change_cost since the reset"},
	{Name: "slack_core_h", DType: "float64", Doc: "integral of CPU requested and not used since the reset"},
	{Name: "slack_gib_h", DType: "float64", Doc: "integral of memory requested and not used since the reset"},
	{Name: "overrun_core_h", DType: "float64", Doc: "integral of CPU used above the request since the reset"},
	{Name: "overrun_gib_h", DType: "float64", Doc: "integral of memory used above the request since the reset"},
	{Name: "request_core_h", DType: "float64", Doc: "integral of CPU requested since the reset"},
	{Name: "request_gib_h", DType: "float64", Doc: "integral of memory requested since the reset"},
	{Name: "lost_core_h", DType: "float64", Doc: "work that OOM kills lost since the reset"},
	{Name: "repaired", DType: "bool", Doc: "bounds of the last action were out of order and moved to the target"},
	{Name: "capped", DType: "bool", Doc: "the last action's target lay outside policy or LimitRange"},
	{Name: "down", DType: "int64", Doc: "pods that do not serve at the end of the step"},
}

// sharedColumns are the columns where the pods share their node.
var sharedColumns = slices.Concat(infoColumns, []envs.Column{
	{Name: "harm_cost", DType: "float64", Doc: "term of the step for harm to neighbours, unweighted, in hours of the mean demand"},
	{Name: "harm_cost_total", DType: "float64", Doc: "sum of harm_cost since the reset"},
	{Name: "node_evictions", DType: "int64", Doc: "evictions by kubelet since the reset; ooms and evictions count them too"},
	{Name: "neighbours_unserved_pct", DType: "float64", Doc: "of the neighbours' CPU demand in the last step, how much was not served"},
	{Name: "node_cpu_pct", DType: "float64", Doc: "of the node's CPU, how much was used in the last step"},
	{Name: "node_memory_pct", DType: "float64", Doc: "of the node's memory, likewise"},
})
