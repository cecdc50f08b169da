package podsched

import (
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// TestPooled: the command plays the episodes that compare plays, in which no policy without a look ahead waits less than the oracle.
func TestPooled(t *testing.T) {
	options := []string{"--env-kwargs", "num_pods:400", "--episodes", "5"}
	oracle := clitest.Decode[pooledResult](t, mustExecute(t, append([]string{"podsched", "pooled", "--json"}, options...)...))
	args := append([]string{"compare", "--json", "--env", "k8s/GPUPodScheduling-v2", "--env-kwargs", "dynamics:timed", "--baseline", "WeightedFGD"}, options...)
	played := clitest.Decode[play.Comparison](t, mustExecute(t, args...))
	if oracle.Seed != played.Seed || oracle.EnvKwargs["split"] != "heldout" {
		t.Errorf("%+v, want the held-out episodes from %d on", oracle, played.Seed)
	}
	if oracle.WaitingS <= 0 || len(played.Rows) != 1 || played.Rows[0].Mean <= oracle.WaitingS {
		t.Errorf("pods wait %v s in the pools and %+v with WeightedFGD, want more than 0, and less than with WeightedFGD", oracle.WaitingS, played.Rows)
	}
	for want, args := range map[string][]string{
		"want timed":     {"--env-kwargs", "dynamics:time_free"},
		"unknown option": {"--env", "classic/CartPole-v1"},
		"sealed block":   {"--seed", "3000000000"},
		"at least 1":     {"--episodes", "0"},
	} {
		if _, _, err := execute(t, t.Context(), append([]string{"podsched", "pooled"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", args, err, want)
		}
	}
}
