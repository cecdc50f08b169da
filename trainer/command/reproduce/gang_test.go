package reproduce

import (
	"testing"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

func TestReproduceGang(t *testing.T) {
	if cli.DataFolder() == "" {
		t.Skipf("no data: set %s to the folder that holds gang/ to enable this test", cli.DataVariable)
	}
	results := clitest.Decode[[]map[string]any](t, mustExecute(t, "reproduce", "gang", "--controller", "static", "--mode", "actual", "--window", "2", "--json"))
	if len(results) != 1 || results[0]["checkpoints"] != 199.0 {
		t.Fatalf("reproduce: %v, want one result with the published 199 checkpoints", results)
	}
	for _, key := range []string{"mode", "controller", "window", "lambda", "penalty", "steps", "duration", "checkpoints", "total", "published", "relative_error"} {
		if _, ok := results[0][key]; !ok {
			t.Errorf("no key %q", key)
		}
	}
	if e := results[0]["relative_error"]; e == nil || e.(float64) > 1e-8 {
		t.Errorf("relative error %v, want at most 1e-8", e)
	}
}
