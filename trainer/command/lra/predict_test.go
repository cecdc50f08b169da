package lra

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// smallProfile writes a profile of up to three containers of one application.
func smallProfile(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(strings.Join(lra.Apps[:], ",") + ",rps_" + strings.Join(lra.Apps[:], ",rps_") + "\n")
	for a := range lra.NumApps {
		for k, rps := range []string{"1", "0.8", "0.3"} {
			row := make([]string, 2*lra.NumApps)
			for i := range lra.NumApps {
				row[i] = "0"
			}
			row[a], row[lra.NumApps+a] = strconv.Itoa(k+1), rps
			b.WriteString(strings.Join(row, ",") + "\n")
		}
	}
	return envstest.TempFile(t, "profile.csv", b.String())
}

// TestPredictWarns: a profile that ends at three containers of each application says nothing of
// eight, so that the command clips to the measured 0.3 to 1 and says which counts it never saw.
func TestPredictWarns(t *testing.T) {
	out := filepath.Join(t.TempDir(), "table.csv")
	doc, warnings, err := execute(t, context.Background(), "lra", "predict", "--profile", smallProfile(t), "--out", out, "--json")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"warning: throughputs of redis are extrapolated: redis given 4 to 8, measured 1 to 3; mms given 1 to 7, measured 0; ",
		"all containers given 4 to 8, measured 1 to 3\n",
		"are clipped to the measured 0.3 to 1\n",
	} {
		if !strings.Contains(warnings, want) {
			t.Errorf("standard error lacks %q:\n%s", want, warnings)
		}
	}
	var result throughput.Prediction
	if err := json.Unmarshal([]byte(doc), &result); err != nil || len(result.Clipped) != lra.NumApps || len(result.Extrapolated) != lra.NumApps*throughput.NumFeatures {
		t.Errorf("%d clipped, %d extrapolated, %v; want all 7 applications and their 8 features", len(result.Clipped), len(result.Extrapolated), err)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		for a := range lra.NumApps {
			if v, err := strconv.ParseFloat(row[lra.NumApps+a], 64); err != nil || row[a] != "0" && (v < 0.3 || v > 1) {
				t.Fatalf("row %v: throughput %v of %s, want 0.3 to 1", row, row[lra.NumApps+a], lra.Apps[a])
			}
		}
	}
}
