package registry_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/agents/subscheduler"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok"
	_ "github.com/kubernasium/kubernasium/registry"
)

// TestSubSchedulersTwin: models of the twin are sub-schedulers, too, and package subscheduler, which
// knows no API server, has the twin's id.
func TestSubSchedulersTwin(t *testing.T) {
	if got := kwok.TwinID(subscheduler.ID); got != subscheduler.TwinID {
		t.Errorf("the twin of %s is %s, and subscheduler.TwinID %s", subscheduler.ID, got, subscheduler.TwinID)
	}
	for _, id := range []string{subscheduler.ID, subscheduler.TwinID, "k8s/LRAHierarchical-v0"} {
		if _, err := envs.Lookup(id); err != nil {
			t.Error(err)
		}
	}
}

// TestOriginalsOfTwins: package live, which knows no API server, finds the environment of a twin.
func TestOriginalsOfTwins(t *testing.T) {
	for _, id := range []string{"k8s/PodBalance-v0", "k8s/GPUPodScheduling-v0"} {
		if got := live.OriginalID(kwok.TwinID(id)); got != id || live.OriginalID(id) != id {
			t.Errorf("OriginalID(%s) = %s, want %s", kwok.TwinID(id), got, id)
		}
	}
}
