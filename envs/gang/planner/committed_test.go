package planner_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// TestCommitmentOfOneIsRecedingHorizon: receding horizon control is the dynamic MPC without a discount.
func TestCommitmentOfOneIsRecedingHorizon(t *testing.T) {
	in := gangtest.LawInstance(t, 61, 60, 8, 8, false)
	ep := planner.Episode{First: 3, Steps: 50, Penalty: 15}
	got := gangtest.Simulate(t, planner.Config{Controller: planner.ControllerCommitted, Window: 6, Lambda: 1, Commitment: 1}, in, ep)
	want := gangtest.Simulate(t, planner.Config{Controller: planner.ControllerDynamicMPC, Window: 6, Lambda: 1}, in, ep)
	for i, step := range got.Steps {
		if diff := cmp.Diff(want.Steps[i].Levels, step.Levels); diff != "" {
			t.Fatalf("step %d: levels (-dynamic MPC +RHC):\n%s", i, diff)
		}
	}
	if got.Checkpoints < 5 || got.Checkpoints > want.Checkpoints { // the MPC pays for a plan without a change, too
		t.Errorf("%d checkpoints, want 5 to %d", got.Checkpoints, want.Checkpoints)
	}
}

// fixedHorizon plays one copy of fixed horizon control by itself: it plans at the given steps for horizon
// supersteps by trying every sequence of lengths for which configurations are kept.
func fixedHorizon(a *planner.Allocator, in *planner.Instance, ep planner.Episode, horizon int, turns map[int]bool) [][]uint16 {
	n := in.Model().NumTasks()
	current := make([]uint16, n)
	var plan [][]uint16
	var all [][]uint16
	for t := ep.First; t < ep.First+ep.Steps; t++ {
		if turns[t] {
			a.Load(in.Planned(t)[:horizon*n])
			var best float64
			best, plan = math.Inf(1), nil
			var try func(s int, cost float64, levels [][]uint16)
			try = func(s int, cost float64, levels [][]uint16) {
				if s == horizon {
					if cost < best-1e-9 {
						best, plan = cost, slices.Clone(levels)
					}
					return
				}
				for w := 1; w <= horizon-s; w++ {
					l := make([]uint16, n)
					sum := a.Configure(s, w, l)
					paid := ep.Penalty
					if s == 0 && t == ep.First {
						paid = 0
					}
					try(s+w, cost+paid+sum, append(levels[:s:s], slices.Repeat([][]uint16{l}, w)...))
				}
			}
			for kept := 0; kept <= horizon; kept++ {
				runtime := 0.0
				if kept > 0 {
					runtime = a.Runtime(current, 0, kept)
				}
				try(kept, runtime, slices.Repeat([][]uint16{current}, kept))
			}
		}
		current = plan[0]
		plan = plan[1:]
		all = append(all, current)
	}
	return all
}

// TestCommittedEqualsNaive compares with copies that are played one by one, whose plans come from trying all
// of them. The episode ends where no plan reaches beyond it.
func TestCommittedEqualsNaive(t *testing.T) {
	const horizon, tasks = 4, 5
	in := gangtest.LawInstance(t, 71, 40, horizon, tasks, false)
	ep := planner.Episode{First: 2, Steps: 34, Penalty: 15}
	a := planner.NewAllocator(in.Model(), horizon)
	for commitment := 1; commitment <= horizon; commitment++ {
		cfg := planner.Config{Controller: planner.ControllerCommitted, Window: horizon, Lambda: 1, Commitment: commitment}
		got := gangtest.Simulate(t, cfg, in, ep)
		var copies [][][]uint16
		for c := range commitment {
			turns := map[int]bool{ep.First: true}
			for step := ep.First + c; step < ep.First+ep.Steps; step += commitment {
				turns[step] = true
			}
			copies = append(copies, fixedHorizon(a, in, ep, horizon, turns))
		}
		for i, step := range got.Steps[:ep.Steps-horizon] {
			total := 0.0
			for k := range tasks {
				mean := 0.0
				for _, c := range copies {
					mean += float64(c[i][k]) / float64(commitment)
				}
				total += mean
				if l := float64(step.Levels[k]); math.Abs(l-mean) >= 1 {
					t.Errorf("commitment %d, step %d: task %d has level %v, want the mean %v but for rounding", commitment, i, k, l, mean)
				}
			}
			sum := 0
			for _, l := range step.Levels {
				sum += int(l)
			}
			if float64(sum) > total+1e-9 || float64(sum) < total-1 {
				t.Errorf("commitment %d, step %d: levels %v spend %d, want the mean's %v", commitment, i, step.Levels, sum, total)
			}
		}
	}
}

// TestCommittedAfterSkippedSteps: a call after decisions of others makes a new plan.
func TestCommittedAfterSkippedSteps(t *testing.T) {
	in := gangtest.LawInstance(t, 91, 40, 6, 6, false)
	ep := planner.Episode{Steps: 40, Penalty: 15}
	cfg := planner.Config{Controller: planner.ControllerCommitted, Window: 6, Lambda: 1, Commitment: 3}
	skipping, late := gangtest.NewPlanner(t, cfg, in, ep), gangtest.NewPlanner(t, cfg, in, ep)
	current, got, want := make([]uint16, 6), make([]uint16, 6), make([]uint16, 6)
	skipping.Plan(t.Context(), 0, current, got)
	for _, step := range []int{11, 12, 13, 30} {
		if a, b := skipping.Plan(t.Context(), step, current, got), late.Plan(t.Context(), step, current, want); a != b || !slices.Equal(got, want) {
			t.Errorf("step %d: %v after a skip, want %v", step, got, want)
		}
	}
}

// TestSavingHoldsPlansBack: the more a new configuration must save, the fewer there are.
func TestSavingHoldsPlansBack(t *testing.T) {
	in := gangtest.LawInstance(t, 81, 60, 8, 8, false)
	ep := planner.Episode{Steps: 50, Penalty: 15}
	for _, cfg := range []planner.Config{
		{Controller: planner.ControllerCommitted, Window: 6, Lambda: 1, Commitment: 6},
		{Controller: planner.ControllerThreshold, Window: 2},
	} {
		last := math.MaxInt
		for _, saving := range []float64{0, 1, 4} {
			cfg.Saving = saving
			run := gangtest.Simulate(t, cfg, in, ep)
			if run.Checkpoints >= last {
				t.Errorf("%s: %d checkpoints with saving %v, want fewer than %d", cfg.Controller, run.Checkpoints, saving, last)
			}
			last = run.Checkpoints
		}
	}
}

// TestThresholdByHand: the first plan is 3 and 2 cores, 40 s. A superstep later b has size 30 and takes 120 s on
// 2 cores; the plan for it is 1 and 4 cores, 80 s. It saves 40 s, which is 2.67 penalties of 15 s.
func TestThresholdByHand(t *testing.T) {
	tr := &planner.Trace{Steps: 2, Columns: 1, Tasks: 2, Planned: []float64{10, 10, 10, 30}, True: []float64{10, 10, 10, 30}}
	in, err := planner.NewInstance(t.Context(), gangtest.HandModel(t), tr, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		saving, total float64
	}{
		{2.6, 40 + 80 + 15},
		{2.7, 40 + 120},
	} {
		cfg := planner.Config{Controller: planner.ControllerThreshold, Window: 1, Saving: test.saving}
		run := gangtest.Simulate(t, cfg, in, planner.Episode{Steps: 2, Penalty: 15})
		if math.Abs(run.Total-test.total) > 1e-9 {
			t.Errorf("saving %v: total %v, want %v", test.saving, run.Total, test.total)
		}
	}
}

// TestCostStandsForThePenalty: planners that know a cost decide as in an episode that charges it.
func TestCostStandsForThePenalty(t *testing.T) {
	in := gangtest.LawInstance(t, 81, 60, 8, 8, false)
	charged := planner.Episode{Steps: 50, Penalty: 45}
	told := planner.Episode{Steps: 50, Penalty: 2}
	for _, cfg := range []planner.Config{
		{Controller: planner.ControllerDynamicMPC, Window: 6, Lambda: 1, PenaltyFactor: 1.5},
		{Controller: planner.ControllerDynamicWindow, Window: 6, Lambda: 1},
		{Controller: planner.ControllerCommitted, Window: 6, Lambda: 1, Commitment: 2, Saving: 0.5},
		{Controller: planner.ControllerThreshold, Window: 2, Saving: 1},
	} {
		want, other := gangtest.Simulate(t, cfg, in, charged), gangtest.Simulate(t, cfg, in, told)
		cfg.Cost = func() float64 { return 45 }
		got := gangtest.Simulate(t, cfg, in, told)
		if diff := cmp.Diff(want.Steps, got.Steps); diff != "" {
			t.Errorf("%s (-charged +told):\n%s", cfg.Controller, diff)
		}
		if other.Checkpoints <= want.Checkpoints {
			t.Errorf("%s: %d checkpoints at 2 s, want more than the %d at 45 s", cfg.Controller, other.Checkpoints, want.Checkpoints)
		}
	}
}
