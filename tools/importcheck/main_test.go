package main

import "testing"

// The edges are those of docs/architecture.md, section Imports.
func TestForbidden(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		ok       bool
	}{
		{"envs/gang", module + "envs", true},
		{"envs/gang", module + "envs/gang/planner", true},
		{"envs/gang", module + "envs/cluster", true},
		{"envs/gang", module + "envs/classic", false}, // one environment does not know another
		{"envs/gang", "net/http", false},
		{"envs/gang", "k8s.io/client-go/kubernetes", false},
		{"envs/all", module + "envs/gang", true},
		{"envs/all", module + "envs/podsched/gpu", true},
		{"envs/podsched/gpu", module + "envs/podsched/kubescore", true},
		{"envs/podsched/gpu", module + "envs/podsched/balance", false}, // nor within a family
		{"envs/podsched/gpu", module + "envs/cluster/sim", true},
		{"envs/gang", module + "envs/podsched/kubescore", false},
		{"envs/cluster/sim", module + "envs/cluster", true},
		{"envs/cluster", module + "envs", false},
		{"agents/ppo", module + "agents/rollout", true},
		{"agents/ppo", module + "agents/dqn", false},
		{"agents/ppo", module + "agents/algorithms", false}, // the table knows the algorithms, not they the table
		{"agents/algorithms", module + "agents/ppo", true},
		{"agents/ppo", module + "models/optim", true},
		{"agents/ppo", "gorgonia.org/gorgonia", false},
		{"models/graph", "gorgonia.org/gorgonia", true},
		{"models", module + "agents", false},
		{"trainer/play", module + "agents/ppo", true},
		{"trainer/play", module + "kwok", true},
		{"trainer", module + "kwok", false}, // by package registry
		{"registry", module + "kwok", true},
		{"agents/subscheduler", module + "agents/algorithms", true},
		{"agents/live", module + "agents/algorithms", true},
		{"agents/live", module + "kwok", false},
		{"trainer", module + "trainer/command/gang", true},
		{"trainer/command/gang", module + "trainer/play", true},
		{"trainer/command/gang", module + "trainer/command/lra", false}, // one command does not know another
		{"trainer/run", module + "trainer/play", true},
		{"trainer/run", module + "trainer/command/core", false},
		{"trainer/play", module + "trainer/run", false},
		{"trainer/play", "github.com/spf13/pflag", false},
		{"trainer/run", "github.com/spf13/cobra", false},
		{"trainer/command/core", "github.com/spf13/cobra", true},
		{"trainer/cli", module + "trainer/play", false},
		{"trainer/cli", module + "envs", false},
		{"server", module + "kwok", true},
		{"server/host", module + "kwok", false}, // the mains only
		{"server/session", module + "kwok", false},
		{"envs/gang", module + "kwok", false},
		{"kwok", module + "envs/all", true},
		{"kwok", module + "agents/ppo", false},
	} {
		r, ok := ruleFor(tc.from)
		if !ok {
			t.Fatalf("no rule for %s", tc.from)
		}
		if got := forbidden(r, tc.from, tc.to); (got == "") != tc.ok {
			t.Errorf("%s imports %s: %q, want allowed = %v", tc.from, tc.to, got, tc.ok)
		}
	}
	if _, ok := ruleFor("elsewhere"); ok {
		t.Error("a folder without a rule has one")
	}
}
