package lra_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
)

var ctx = context.Background()

// dataDir returns the folder of the public data of this environment, or skips the test.
func dataDir(tb testing.TB) string {
	tb.Helper()
	return envstest.Data(tb, "metis", "node_table_true_6435.csv")
}

var tableFiles = map[string]string{
	"true": "node_table_true_6435.csv", "p05": "node_table_rf_p05.csv", "p20": "node_table_rf_p20.csv", "p90": "node_table_rf_p90.csv",
}

func readTable(tb testing.TB, name string) *lra.Table {
	tb.Helper()
	t, err := lra.ReadTableFile(filepath.Join(dataDir(tb), tableFiles[name]))
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func readBatches(tb testing.TB, containers int) []lra.Counts {
	tb.Helper()
	name := fmt.Sprintf("batch_set_%d.csv", containers)
	if containers == 3000 {
		name = "batch_set_3000_regenerated.csv"
	}
	b, err := lra.ReadBatchesFile(filepath.Join(dataDir(tb), name))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// golden is a row of golden_batches.csv, computed with HiGHS and NumPy by others.
type golden struct {
	nodes, containers, batch int
	table                    string
	roundRobin, greedy, lp   float64
	milp, metis              float64 // 0 if not there
}

func readGolden(tb testing.TB) []golden {
	tb.Helper()
	f, err := os.Open(filepath.Join(dataDir(tb), "golden_batches.csv"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		tb.Fatal(err)
	}
	number := func(field string) float64 {
		if field == "" {
			return 0
		}
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
	var all []golden
	for _, r := range rows[1:] {
		all = append(all, golden{
			int(number(r[0])), int(number(r[1])), int(number(r[2])), r[3], number(r[4]), number(r[5]), number(r[6]), number(r[7]), number(r[8]),
		})
	}
	return all
}
