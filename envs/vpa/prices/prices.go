// Package prices gives the costs of the events of a controller's pods: unused requests, unserved demand, and changes.
// Costs are in hours of the workload's mean demand, so that large and small workloads compare.
package prices

import "time"

// Names of weights, as the option weighting gives them.
const (
	SlackHeavy = "slack_heavy" // slack 4, overrun 1, change 1
	Equal      = "equal"       // 1, 1, 1
	RiskHeavy  = "risk_heavy"  // 1, 4, 1
)

// Weights are the weights of the reward's terms. They were fixed before the first training.
type Weights struct{ Slack, Overrun, Change float64 }

var weightings = map[string]Weights{
	SlackHeavy: {4, 1, 1},
	Equal:      {1, 1, 1},
	RiskHeavy:  {1, 4, 1},
}

// Prices of events, in hours of the workload's mean demand.
const (
	memory      = 1 / 7.5 // cores for a GiB: the ratio of Google Cloud's prices for N1 machines
	Unmet       = 10      // of a core-hour of unserved CPU, over an idle one
	OOMHours    = 1       // for an OOM kill of one pod
	EvictHours  = 0.25    // for an eviction of one pod
	resizeHours = 0.02    // for a resize of one pod in place
)

const gibibyte = 1 << 30

// Cores converts millicores and bytes to cores, with memory at its price.
func Cores(cpu, mem float64) float64 { return cpu/1000 + mem/gibibyte*memory }

// leastNorm keeps the costs of an idle workload finite: a hundredth of a core.
const leastNorm = 0.01

// Costs are the terms of the reward, in hours of the workload's mean demand. Harm, to neighbours, has
// the weight of overrun.
type Costs struct{ Slack, Overrun, Change, Harm float64 }

func (c *Costs) add(d Costs) {
	c.Slack += d.Slack
	c.Overrun += d.Overrun
	c.Change += d.Change
	c.Harm += d.Harm
}

// Ledger adds up the events of an episode and their costs.
type Ledger struct {
	Weights  Weights
	Norm     float64 // mean demand of all pods, in cores with memory at its price
	Sum      Events  // since the episode began
	Action   Costs   // of the last action; the caller resets it before the next
	Total    Costs   // since the episode began
	LastKill int     // step of the last OOM kill; -1 before it
	LastMove int     // step of the last eviction or resize; -1 before it
}

// NewLedger returns a ledger with the named weights.
func NewLedger(weighting string) Ledger {
	return Ledger{Weights: weightings[weighting], LastKill: -1, LastMove: -1}
}

// Begin opens the ledger of an episode. norm is the mean demand of all pods in cores.
func (l *Ledger) Begin(norm float64) {
	*l = Ledger{Weights: l.Weights, Norm: max(norm, leastNorm), LastKill: -1, LastMove: -1}
}

// Note adds a step's events to the sums.
func (l *Ledger) Note(s *Events, step int) {
	if s.OOMs > 0 {
		l.LastKill = step
	}
	if s.Evictions+s.Resizes > 0 {
		l.LastMove = step
	}
	l.Sum.Add(s)
}

// Charge computes the costs of a step of n pods and adds them to those of the action and of the episode.
func (l *Ledger) Charge(s *Events, step time.Duration, n int) {
	hours := step.Hours() / l.Norm
	pods := float64(n)
	now := Costs{
		Slack: Cores(s.SlackCPU, s.SlackMem) * hours,
		Overrun: Cores(s.OverCPU, s.OverMem)*hours +
			Unmet*((s.ThrottledCPU+s.DownCPU)/1000*hours+s.Lost/3600/l.Norm) +
			OOMHours*float64(s.OOMs)/pods,
		Change: (EvictHours*float64(s.Evictions) + resizeHours*float64(s.Resizes)) / pods,
		Harm:   s.Harm / l.Norm,
	}
	l.Action.add(now)
	l.Total.add(now)
}

// Weighted returns the weighted sum of c's terms.
func (l *Ledger) Weighted(c *Costs) float64 {
	return l.Weights.Slack*c.Slack + l.Weights.Overrun*(c.Overrun+c.Harm) + l.Weights.Change*c.Change
}
