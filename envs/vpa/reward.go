package vpa

import (
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// costs are the terms of the reward, in hours of the workload's mean demand.
type costs struct{ slack, overrun, change float64 }

// charge computes the costs of a step and adds them to those of the action and of the episode.
func (t *Task) charge() {
	s := &t.last
	hours := t.step.Hours() / t.norm
	pods := float64(len(t.pods))
	now := costs{
		slack: (s.slackCPU/1000 + s.slackMem/gib*memoryPrice) * hours,
		overrun: (s.overCPU/1000+s.overMem/gib*memoryPrice)*hours +
			unmetPrice*((s.throttledCPU+s.downCPU)/1000*hours+s.lost/3600/t.norm) +
			oomHours*float64(s.ooms)/pods,
		change: (evictHours*float64(s.evictions) + resizeHours*float64(s.resizes)) / pods,
	}
	for _, sum := range []*costs{&t.cost, &t.total} {
		sum.slack += now.slack
		sum.overrun += now.overrun
		sum.change += now.change
	}
	a := &t.sum
	a.demandCPU += s.demandCPU
	a.throttledCPU += s.throttledCPU
	a.downCPU += s.downCPU
	a.requestCPU += s.requestCPU
	a.requestMem += s.requestMem
	a.slackCPU += s.slackCPU
	a.slackMem += s.slackMem
	a.overCPU += s.overCPU
	a.overMem += s.overMem
	a.lost += s.lost
	a.ooms += s.ooms
	a.evictions += s.evictions
	a.resizes += s.resizes
	a.restarts += s.restarts
}

// weighted returns the weighted sum of c's terms.
func (t *Task) weighted(c *costs) float64 {
	return t.weights.slack*c.slack + t.weights.overrun*c.overrun + t.weights.change*c.change
}

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) {
	a, hours := &t.sum, t.step.Hours()
	request := a.requestCPU/1000 + a.requestMem/gib*memoryPrice
	slack := a.slackCPU/1000 + a.slackMem/gib*memoryPrice
	down := 0
	for i := range t.pods {
		if !t.pods[i].scheduled || t.pods[i].ready > t.now() {
			down++
		}
	}
	values := [...]float64{
		t.weighted(&t.total), percent(slack, request), percent(a.throttledCPU, a.demandCPU),
		float64(a.ooms), float64(a.evictions), float64(a.resizes), float64(a.restarts), percent(a.downCPU, a.demandCPU),
		t.cost.slack, t.cost.overrun, t.cost.change, t.total.slack, t.total.overrun, t.total.change,
		a.slackCPU / 1000 * hours, a.slackMem / gib * hours, a.overCPU / 1000 * hours, a.overMem / gib * hours,
		a.requestCPU / 1000 * hours, a.requestMem / gib * hours, a.lost / 3600,
		number(t.flags.repaired), number(t.flags.capped), float64(down),
	}
	copy(dst, values[:])
}

// now returns the time at the end of the last step.
func (t *Task) now() time.Duration { return time.Duration(t.steps) * t.step }

// instant returns the time of the last sample for upstream's recommender: since the first one
// began or, where the pods run elsewhere, since 1970.
func (t *Task) instant() time.Duration {
	if t.live != nil {
		return t.live.at
	}
	return time.Duration(t.src.history+t.steps) * t.step
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

// leastNorm keeps the costs of an idle workload finite: a hundredth of a core.
const leastNorm = 0.01

// meanDemand returns the mean demand of all pods over the episode in cores, with memory at its
// price.
func (t *Task) meanDemand() float64 {
	var cpu, mem, shares float64
	for _, u := range t.demand[t.src.history:] {
		cpu, mem = cpu+float64(u.MilliCPU), mem+float64(u.MemoryBytes)
	}
	for i := range t.pods {
		shares += t.pods[i].share
	}
	return max((cpu/1000+mem/gib*memoryPrice)*shares/float64(t.opts.Steps), leastNorm)
}

// weights are those of the reward's terms. They were set before any agent was trained.
type weights struct{ slack, overrun, change float64 }

var weightings = map[string]weights{
	WeightingSlack: {4, 1, 1},
	WeightingEqual: {1, 1, 1},
	WeightingRisk:  {1, 4, 1},
}

// Units of the reward's terms, in hours of the workload's mean demand.
const (
	memoryPrice = 1 / 7.5 // cores for a GiB: what Google Cloud charges for N1 machines
	unmetPrice  = 10      // of a core-hour of CPU that was not served, over one that was idle
	oomHours    = 1       // for an OOM kill of one pod
	evictHours  = 0.25    // for an eviction of one pod
	resizeHours = 0.02    // for a resize of one pod in place
)
