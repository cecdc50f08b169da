package planner_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// TestKeptConfigurationsChangeNothing plays planners of many kinds on an instance that keeps what they compute, and
// each on an instance of its own that does not.
func TestKeptConfigurationsChangeNothing(t *testing.T) {
	ep := planner.Episode{First: 3, Steps: 40, Penalty: 15}
	keeping := gangtest.LawInstance(t, 61, 50, 8, 8, false)
	keeping.CacheConfigs()
	keeping.CacheConfigs() // again changes nothing
	for _, cfg := range []planner.Config{
		{Controller: planner.ControllerCommitted, Window: 6, Lambda: 1, Commitment: 3},
		{Controller: planner.ControllerCommitted, Window: 8, Lambda: 1, Commitment: 1, LocalSearch: true, PenaltyFactor: 2},
		{Controller: planner.ControllerDynamicMPC, Window: 8, Lambda: 1.02},
		{Controller: planner.ControllerDynamicMPC, Window: 5, Lambda: 1, LocalSearch: true},
		{Controller: planner.ControllerDynamicWindow, Window: 6, Lambda: 1.01},
		{Controller: planner.ControllerThreshold, Window: 3, Saving: 0.5},
		{Controller: planner.ControllerThreshold, Window: 2, Saving: 2, LocalSearch: true},
		{Controller: planner.ControllerStatic, Window: 4},
		{Controller: planner.ControllerOneTime, Lambda: 1, LocalSearch: true},
	} {
		t.Run(fmt.Sprintf("%s_%v", cfg.Controller, cfg.LocalSearch), func(t *testing.T) {
			want := gangtest.Simulate(t, cfg, gangtest.LawInstance(t, 61, 50, 8, 8, false), ep)
			for range 2 {
				if diff := cmp.Diff(want, gangtest.Simulate(t, cfg, keeping, ep)); diff != "" {
					t.Fatalf("run (-without +with cached configurations):\n%s", diff)
				}
			}
		})
	}
}
