package reproduce

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// The golden row of batch 0 of 200 containers on 81 nodes, table p20.
func TestReproduceLRA(t *testing.T) {
	dir := filepath.Join(cli.DataFolder(), "metis")
	if _, err := os.Stat(filepath.Join(dir, "node_table_rf_p20.csv")); err != nil {
		t.Skipf("%v: set %s to the folder that holds metis/ to enable this test", err, cli.DataVariable)
	}
	doc := clitest.Decode[map[string]float64](t, mustExecute(t, "reproduce", "lra", "--node-table", filepath.Join(dir, "node_table_rf_p20.csv"),
		"--batches", filepath.Join(dir, "batch_set_200.csv"), "--row", "0", "--nodes", "81",
		"--subscheduler", filepath.Join(dir, "metis_subscheduler_weights.npz"), "--json"))
	for _, row := range []struct {
		key             string
		want, tolerance float64
	}{
		{"roundrobin", 0.946680, 1e-6},
		{"greedy", 1.198029, 1e-6},
		{"lp_bound", 1.204463, 1e-5},
		{"milp", 1.204404, 1.2e-4},
		{"metis_demo_plus_sub", 1.178886, 1e-6},
	} {
		if got := doc[row.key]; math.Abs(got-row.want) > row.tolerance {
			t.Errorf("%s is %v, want %v within %v", row.key, got, row.want, row.tolerance)
		}
	}
	if len(doc) != 5 {
		t.Errorf("the document has %d keys, want 5: %v", len(doc), doc)
	}
}
