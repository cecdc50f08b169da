package gang_test

import (
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang"
)

// TestSpans: a superstep begins where the one before ended, or 45 s later after a re-planning; each task runs as long as
// the superstep's outcome says, and the slowest ends it.
func TestSpans(t *testing.T) {
	v := envstest.Open(t, "k8s/GangWindow-v0", 1, envs.VecOptions{Options: map[string]any{"steps": 4, "penalty": 45.0}})
	envstest.Reset(t, v, 1)
	task := v.Env(0).Task().(*gang.Task)
	if got := task.Spans(); got != nil {
		t.Errorf("%v before the first superstep, want nothing", got)
	}
	end, actions := 0.0, []float32{1, 0, 2}
	for i, a := range actions {
		b := envstest.Step(t, v, a)
		replan := a > 0 && i > 0 // the first configuration is free
		begin := end
		if replan {
			begin += 45
		}
		runs, slowest, plans := 0, "", 0
		for _, s := range task.Spans() {
			switch s.Kind {
			case envs.SpanReplan:
				if plans++; math.Abs(s.From-end) > 1e-9 || math.Abs(s.To-begin) > 1e-9 {
					t.Errorf("superstep %d: re-planning from %v to %v, want %v to %v", i, s.From, s.To, end, begin)
				}
			case envs.SpanSlowest:
				slowest = s.Row
				fallthrough
			case envs.SpanRun:
				if want := task.Last().Durations[runs]; math.Abs(s.From-begin) > 1e-9 || math.Abs(s.To-s.From-want) > 1e-9 {
					t.Errorf("superstep %d, %s: from %v to %v, want from %v for %v", i, s.Row, s.From, s.To, begin, want)
				}
				runs++
			}
		}
		for _, s := range task.Spans() {
			end = max(end, s.To)
		}
		for _, s := range task.Spans() {
			if s.Row == slowest && s.Kind != envs.SpanReplan && s.To < end || s.To > end {
				t.Errorf("superstep %d: %s ends at %v, the slowest, %s, at %v", i, s.Row, s.To, slowest, end)
			}
		}
		if runs != 8 || slowest == "" || plans != map[bool]int{true: 8}[replan] {
			t.Errorf("superstep %d: %d tasks run, %d re-plan, %q is slowest", i, runs, plans, slowest)
		}
		if want := envstest.Column(t, v, b, "total_s"); math.Abs(end-want) > 1e-9 {
			t.Errorf("superstep %d: the slowest ends at %v, want %v", i, end, want)
		}
	}
}
