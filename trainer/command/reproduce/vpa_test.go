package reproduce

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

func TestReproduceVPA(t *testing.T) {
	if dir := cli.DataFolder(); dir == "" {
		t.Skipf("no data: set %s to the folder that holds vpa/ to enable this test", cli.DataVariable)
	} else if _, err := os.Stat(filepath.Join(dir, "vpa", goldenFile)); err != nil {
		t.Skipf("%v: set %s to the folder that holds vpa/ to enable this test", err, cli.DataVariable)
	}
	rows := clitest.Decode[[]map[string]any](t, mustExecute(t, "reproduce", "vpa", "--json"))
	if len(rows) != 70 {
		t.Fatalf("%d rows, want 70", len(rows))
	}
	for _, row := range rows {
		got := map[string]any{"lower": row["lower"], "target": row["target"], "upper": row["upper"]}
		if diff := cmp.Diff(row["expected"], any(got)); diff != "" {
			t.Errorf("%v after %v samples (-want +got):\n%s", row["scenario"], row["samples"], diff)
		}
	}
	if text := mustExecute(t, "reproduce", "vpa"); strings.Count(text, "equal") != 70 {
		t.Errorf("not 70 equal rows:\n%s", text)
	}
}

func TestReproduceVPAWithoutData(t *testing.T) {
	t.Setenv(cli.DataVariable, t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if text := mustExecute(t, "reproduce", "vpa"); strings.Count(text, "equal") != 70 {
		t.Errorf("not 70 rows equal to those of the sample:\n%s", text)
	}
}

func TestReproduceVPAUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "usage.csv")
	lines := []string{"time_s,cpu_m,mem_b"}
	for i := range 5 { // the scenario lowhigh
		lines = append(lines, fmt.Sprintf("%d,%d,%d", 60*i, 500+500*(i%2), (2500+2500*(i%2))<<20))
	}
	envstest.Write(t, file, strings.Join(lines, "\n"))
	// From the table of the fact sheet that upstream's code was run for.
	want := `{"samples":2,"lower":{"cpu_m":196,"mem_b":1027523334},"target":{"cpu_m":1168,"mem_b":6117462922},"upper":{"cpu_m":1683088,"mem_b":8815264070602}}`
	got := strings.Split(strings.TrimSpace(mustExecute(t, "reproduce", "vpa", "--usage", file, "--every", "2")), "\n")
	if len(got) != 2 || got[0] != want {
		t.Errorf("got %q, want 2 lines, the first %q", got, want)
	}
}

func TestReproduceVPAErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		envstest.Write(t, name, text)
		return name
	}
	bad := write("bad.csv", "time_s,cpu_m,mem_b\n0,1,2\n60,-1,2\n")
	wrong := t.TempDir()
	rows := mustExecute(t, "reproduce", "vpa", "--json")
	all := clitest.Decode[[]map[string]any](t, rows)
	all[0]["target"] = map[string]any{"cpu_m": 588, "mem_b": 3136195110} // 587 is right
	byName := map[string][]any{}
	for _, r := range all {
		byName[r["scenario"].(string)] = append(byName[r["scenario"].(string)], r)
	}
	var scenarios []any
	for name, rows := range byName {
		scenarios = append(scenarios, map[string]any{"name": name, "rows": rows})
	}
	text, err := json.Marshal(map[string]any{"scenarios": scenarios})
	if err != nil {
		t.Fatal(err)
	}
	envstest.Write(t, filepath.Join(wrong, goldenFile), string(text))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--data", dir}, goldenFile},
		{[]string{"--data", wrong}, "1 of 70 recommendations differ"},
		{[]string{"--every", "5"}, "--every needs --usage"},
		{[]string{"--usage", bad, "--data", dir}, "give one of them"},
		{[]string{"--usage", bad, "--every", "0"}, "--every 0, want at least 1"},
		{[]string{"--usage", filepath.Join(dir, "none.csv")}, "none.csv"},
		{[]string{"--usage", bad}, "bad.csv: recommender: usage file: line 3, column cpu_m: -1 is negative"},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"reproduce", "vpa"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("trainer reproduce vpa %s: %v, want an error with %q", strings.Join(tc.args, " "), err, tc.want)
		}
	}
}
