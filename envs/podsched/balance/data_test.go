package balance_test

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// dataDir returns the folder of the source's recorded runs, or skips the test.
func dataDir(tb testing.TB) string {
	tb.Helper()
	return envstest.Data(tb, "podsched", "run_summary.csv")
}

// readCSV returns the rows of a file by the names in its header.
func readCSV(tb testing.TB, path string) []map[string]string {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		tb.Fatal(err)
	}
	var rows []map[string]string
	for _, r := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = r[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func number(tb testing.TB, text string) float64 {
	tb.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return x
}
