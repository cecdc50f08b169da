package prices

import (
	"math"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-12 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestCharge: the costs of half an hour of two pods with a mean demand of 4 cores, worked by hand.
func TestCharge(t *testing.T) {
	l := NewLedger(SlackHeavy)
	l.Begin(4)
	// 1 core and 7.5 GiB idle, which are 2 cores; 0.5 core and 3.75 GiB above the request, which are 1 core.
	// 0.1 core throttled, 0.3 core down, and 0.2 core-hours lost.
	l.Charge(&Events{
		SlackCPU: 1000, SlackMem: 7.5 * gibibyte, OverCPU: 500, OverMem: 3.75 * gibibyte,
		ThrottledCPU: 100, DownCPU: 300, Lost: 720, OOMs: 1, Evictions: 1, Resizes: 3, Harm: 2,
	}, 30*time.Minute, 2)
	near(t, "slack", l.Action.Slack, 2*0.5/4)
	near(t, "overrun", l.Action.Overrun, 1*0.5/4+10*(0.4*0.5+0.2)/4+1./2)
	near(t, "change", l.Action.Change, (0.25+3*0.02)/2)
	near(t, "harm", l.Action.Harm, 2./4)
	near(t, "cost", l.Weighted(&l.Action), 4*0.25+(0.125+1+0.5+0.5)+0.155)
	l.Action = Costs{}
	l.Charge(&Events{SlackCPU: 1000}, 30*time.Minute, 2)
	near(t, "slack of the next action", l.Action.Slack, 0.125)
	near(t, "slack in total", l.Total.Slack, 0.375)
}

// TestWeights: an hour of each term costs what its weight is; harm weighs what overrun does.
func TestWeights(t *testing.T) {
	for name, want := range map[string]Costs{SlackHeavy: {4, 1, 1, 1}, Equal: {1, 1, 1, 1}, RiskHeavy: {1, 4, 1, 4}} {
		l := NewLedger(name)
		near(t, name+" slack", l.Weighted(&Costs{Slack: 1}), want.Slack)
		near(t, name+" overrun", l.Weighted(&Costs{Overrun: 1}), want.Overrun)
		near(t, name+" change", l.Weighted(&Costs{Change: 1}), want.Change)
		near(t, name+" harm", l.Weighted(&Costs{Harm: 1}), want.Harm)
	}
}

// TestNote: a step's events add to those before, and the last kill and the last change are those of their steps.
func TestNote(t *testing.T) {
	l := NewLedger(Equal)
	l.Begin(0)
	near(t, "the norm of an idle workload", l.Norm, 0.01)
	if l.LastKill != -1 || l.LastMove != -1 {
		t.Errorf("kill in step %d and change in step %d before the first, want -1", l.LastKill, l.LastMove)
	}
	for step, e := range []Events{{OOMs: 2, Lost: 1}, {Evictions: 1, Lost: 2}, {OOMs: 1}, {Resizes: 1}, {}} {
		l.Note(&e, step)
	}
	if l.LastKill != 2 || l.LastMove != 3 || l.Sum.OOMs != 3 || l.Sum.Evictions != 1 || l.Sum.Resizes != 1 || l.Sum.Lost != 3 {
		t.Errorf("kill in step %d, change in step %d, sums %+v; want 2, 3, and 3 kills, an eviction, a resize, 3 core-seconds", l.LastKill, l.LastMove, l.Sum)
	}
}
