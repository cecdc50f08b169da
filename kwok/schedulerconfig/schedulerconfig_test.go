package schedulerconfig_test

import (
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
)

// TestProfiles: a policy sees every node, and default-scheduler beside it stays as it is.
func TestProfiles(t *testing.T) {
	c := schedulerconfig.Config{Default: true, Profiles: []schedulerconfig.Profile{profile("greedy", live.Args{Baseline: "Greedy"})}}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var k configv1.KubeSchedulerConfiguration
	if err := yaml.UnmarshalStrict(text, &k); err != nil {
		t.Fatal(err)
	}
	if len(k.Profiles) != 2 || k.PercentageOfNodesToScore != nil {
		t.Fatalf("%d profiles, and %v %% of nodes for all; want 2, and nothing for all\n%s", len(k.Profiles), k.PercentageOfNodesToScore, text)
	}
	if d := k.Profiles[0]; *d.SchedulerName != "default-scheduler" || d.PercentageOfNodesToScore != nil || d.Plugins != nil {
		t.Errorf("first profile %+v, want default-scheduler's defaults", d)
	}
	if g := k.Profiles[1]; *g.SchedulerName != "greedy" || g.PercentageOfNodesToScore == nil || *g.PercentageOfNodesToScore != 100 {
		t.Errorf("second profile %+v, want 100 %% of nodes", g)
	}
}
