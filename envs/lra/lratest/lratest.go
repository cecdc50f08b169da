// Package lratest reads the public data of interfering applications, for tests.
package lratest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
)

// Dir returns the folder of the public data of these environments, or skips the test.
func Dir(tb testing.TB) string {
	tb.Helper()
	return envstest.Data(tb, "metis", "node_table_true_6435.csv")
}

var tableFiles = map[string]string{
	"true": "node_table_true_6435.csv", "p05": "node_table_rf_p05.csv", "p20": "node_table_rf_p20.csv", "p90": "node_table_rf_p90.csv",
}

// Table reads the published node table with a name of tableFiles.
func Table(tb testing.TB, name string) *lra.Table {
	tb.Helper()
	t, err := files.ReadTableFile(filepath.Join(Dir(tb), tableFiles[name]))
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// Batches reads the published batches of the given number of containers.
func Batches(tb testing.TB, containers int) []lra.Counts {
	tb.Helper()
	name := fmt.Sprintf("batch_set_%d.csv", containers)
	if containers == 3000 {
		name = "batch_set_3000_regenerated.csv"
	}
	b, err := files.ReadBatchesFile(filepath.Join(Dir(tb), name))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Constraints reads the published list of constraints.
func Constraints(tb testing.TB) []interference.Constraint {
	tb.Helper()
	all, err := files.ReadConstraintsFile(filepath.Join(Dir(tb), "interference_applist.csv"))
	if err != nil {
		tb.Fatal(err)
	}
	return all
}
