package gang_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
)

// TestCompatibleRollout plays the recorded roll-out of the earlier project's environment
// through the contract. Observations are float32. Durations have the tolerance that the
// recorded sizes leave: derived from the series, they differ by up to 2.3e-6 from the files
// that the recording was made with.
func TestCompatibleRollout(t *testing.T) {
	dir := envstest.Data(t, "gang", gangtest.ProfileFile)
	v := open(t, 1, map[string]any{"dynamics": "compatible", "data": dir})
	b := reset(t, v, 1)
	for _, row := range gangtest.Reference(t, dir, "env_rollout.csv") {
		for a := range 4 {
			for h := range 6 {
				want := gangtest.Number(t, row, fmt.Sprintf("obs_%d_%d", a, h))
				if got := float64(b.Obs[a*6+h]); math.Abs(got-want) > 1e-6*max(1, want) { // float32
					t.Fatalf("t=%s: observation [%d,%d] is %v, want %v", row["t"], a, h, got, want)
				}
			}
		}
		b = step(t, v, float32(gangtest.Number(t, row, "action")))
		if want := gangtest.Number(t, row, "reward"); math.Abs(b.Reward[0]-want) > 1e-9 {
			t.Fatalf("t=%s: reward %v, want %v", row["t"], b.Reward[0], want)
		}
		if want := gangtest.Number(t, row, "duration_s"); math.Abs(b.Info[0]-want) > 1e-9*want {
			t.Fatalf("t=%s: duration %v, want %v", row["t"], b.Info[0], want)
		}
	}
}

func TestContractOnData(t *testing.T) {
	dir := envstest.Data(t, "gang", gangtest.ProfileFile)
	for i, tc := range []struct {
		name string
		opts map[string]any
		one  bool
	}{
		{"train", map[string]any{"data": dir}, false},
		{"held-out, forecasts of the file", map[string]any{"data": dir, "split": "heldout", "forecaster": "file"}, false},
		{"compatible", map[string]any{"data": dir, "dynamics": "compatible"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			envstest.EveryThird(t, i)
			steps := 200 // an episode of 400 is longer than this test needs
			if testing.Short() {
				steps = 20
			}
			tc.opts["steps"] = steps
			envcheck.Run(t, spec(t), envcheck.Options{Options: tc.opts, OneEpisode: tc.one, SkipBaselines: tc.one || testing.Short()})
		})
	}
}

// TestBadFiles names file and line, or what is missing, when an environment is made.
func TestBadFiles(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		change     func(string) string
		want       string
	}{
		{"profile with a hole", "profile/workload_profiling.csv", func(s string) string { return strings.Replace(s, "b, 20, 3000, 180\n", "", 1) }, "workload_profiling.csv"},
		{"profile with a negative time", "profile/workload_profiling.csv", func(s string) string { return strings.Replace(s, "a, 10, 1000, 110", "a, 10, 1000, -110", 1) }, "workload_profiling.csv:2"},
		{"profile without a column", "profile/workload_profiling.csv", func(s string) string { return strings.Replace(s, "Duration", "Time", 1) }, "Duration"},
		{"series with NaN", "series/y.csv", func(s string) string { return strings.Replace(s, "02:00:00,0", "02:00:00,NaN", 1) }, "y.csv:4"},
		{"unsorted series", "series/y.csv", func(s string) string { return strings.Replace(s, "2026-01-01 02:00:00", "2025-01-01 02:00:00", 1) }, "y.csv:4"},
		{"short series", "series/z.csv", func(s string) string { return s[:len(s)/2] }, "z.csv"},
		{"empty series", "series/z.csv", func(string) string { return "" }, "z.csv"},
		{"constant training part", "series/x.csv", func(s string) string { return strings.ReplaceAll(s, ",40\n", ",0\n") }, "x.csv: the training part is 0 throughout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := handData(t)
			path := filepath.Join(dir, filepath.FromSlash(tc.file))
			write(t, path, tc.change(envstest.Read(t, path)))
			_, err := spec(t).Open(map[string]any{"data": dir, "steps": 3, "forecaster": "persistence"})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Open: %v, want an error with %q", err, tc.want)
			}
			t.Log(err)
		})
	}
	_, err := spec(t).Open(map[string]any{"data": handData(t), "steps": 400})
	if err == nil || !strings.Contains(err.Error(), "want at least") {
		t.Errorf("Open with episodes longer than the series: %v", err)
	}
}
