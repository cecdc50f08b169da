package gang

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestGangRegret: static windows decide alike whatever a plan costs. In 20 supersteps a window of one re-plans 19
// times and one of two 9 times, so each second of the penalty adds ten to the difference.
func TestGangRegret(t *testing.T) {
	dir := t.TempDir()
	args := []string{"gang", "regret", "--env-kwargs", "steps:20", "--penalties", "0,5,15", "--episodes", "3", "--baseline", "static_1", "--baseline", "static_4", "--reference", "static_2"}
	out := mustExecute(t, append(args, "--json", "--csv", filepath.Join(dir, "r.csv"), "--plot", filepath.Join(dir, "r.png"))...)
	all := clitest.Decode[[]regret](t, out)
	if len(all) != 6 {
		t.Fatalf("%d regrets, want three of two policies: %v", len(all), all)
	}
	for i, want := range []float64{0, 50, 150, 0, -25, -75} { // a window of four re-plans 4 times
		from := all[i/3*3]
		if got := all[i].Seconds.Mean - from.Seconds.Mean; math.Abs(got-want) > 1e-6 || all[i].Policy != []string{"static_1", "static_4"}[i/3] || all[i].Penalty != []float64{0, 5, 15}[i%3] {
			t.Errorf("%+v is %v s more than without a penalty, want %v", all[i], got, want)
		}
		if math.Abs(all[i].Seconds.High-from.Seconds.High-want) > 1e-6 { // the same in all episodes
			t.Errorf("%+v: the interval's end, want it %v from %v", all[i], want, from.Seconds.High)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "r.csv"))
	if err != nil || strings.Count(string(text), "\n") != 7 {
		t.Errorf("CSV of %q, %v, want a header and six rows", text, err)
	}
	if image, err := os.ReadFile(filepath.Join(dir, "r.png")); err != nil || !strings.HasPrefix(string(image), "\x89PNG") {
		t.Errorf("no plot: %v", err)
	}
	if table := mustExecute(t, args...); !strings.Contains(table, "penalty 15 s") || strings.Count(table, "static_") < 3 {
		t.Errorf("table:\n%s", table)
	}
}

func TestGangRegretErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"--penalties [15 5], want one or more in ascending order": {"--penalties", "15,5"},
		"--penalties [5 5], want one or more in ascending order":  {"--penalties", "5,5"},
		"--env-kwargs penalty:7, want --penalties 7 in its place": {"--env-kwargs", "penalty:7"},
		`k8s/GangWindow-v0 has no baseline "nobody"`:              {"--baseline", "nobody", "--penalties", "5", "--env-kwargs", "steps:2"},
	} {
		if _, _, err := execute(t, t.Context(), append([]string{"gang", "regret"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}
