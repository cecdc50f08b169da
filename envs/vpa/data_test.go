package vpa_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/vpa"
)

// podsFile writes the usage of several pods, n minutes each; pod k uses 100·(k+1) m and more.
func podsFile(tb testing.TB, pods, n int) string {
	tb.Helper()
	var text strings.Builder
	text.WriteString("pod,time_s,cpu_m,mem_b\n")
	for k := range pods {
		for i := range n {
			fmt.Fprintf(&text, "pod-%d,%d,%d,%d\n", k, 60*i, 100*(k+1)+i%7, (100+i%5)<<20)
		}
	}
	return envstest.TempFile(tb, "usage.csv", text.String())
}

func TestContractOfFiles(t *testing.T) {
	opts := map[string]any{"data": podsFile(t, 6, 120), "history_h": 0.5, "steps": 60}
	for _, id := range []string{continuous, discrete} {
		envcheck.Run(t, spec(t, id), envcheck.Options{Options: opts, Steps: 300})
	}
}

// TestSeedAgain: a seed gives its episode again after others, also of files.
func TestSeedAgain(t *testing.T) {
	for _, opts := range []map[string]any{{"steps": 5}, {"data": podsFile(t, 6, 120), "history_h": 0.5, "steps": 5, "pods": 2}} {
		v := open(t, continuous, opts)
		first := slices.Clone(reset(t, v, 1).Obs)
		reset(t, v, 2)
		step(t, v, both(0, 0)...)
		if again := reset(t, v, 1).Obs; !slices.Equal(first, again) {
			t.Errorf("%v: seed 1 begins with %v, and after another episode with %v", opts, first, again)
		}
	}
}

// TestSplit: of 12 workloads every fifth is held out, of three the last; training plays the
// others.
func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		pods int
		held []string
	}{{12, []string{"pod-4", "pod-9"}}, {3, []string{"pod-2"}}} {
		path := podsFile(t, tc.pods, 10)
		for _, part := range []string{"train", "heldout"} {
			v := open(t, continuous, map[string]any{"data": path, "split": part, "history_h": 0, "steps": 5})
			seen := map[string]bool{}
			for seed := range uint64(200) {
				reset(t, v, seed)
				seen[v.Env(0).Task().(*vpa.Task).Workload()] = true
			}
			want := len(tc.held)
			if part == "train" {
				want = tc.pods - want
			}
			if len(seen) != want {
				t.Errorf("%d pods, %s: plays %v, want %d workloads", tc.pods, part, seen, want)
			}
			for name := range seen {
				if slices.Contains(tc.held, name) != (part == "heldout") {
					t.Errorf("%d pods, %s: plays %s", tc.pods, part, name)
				}
			}
		}
	}
}

func TestBadData(t *testing.T) {
	write := func(text string) string {
		return envstest.TempFile(t, "usage.csv", text)
	}
	for _, tc := range []struct {
		name string
		opts map[string]any
		want string
	}{
		{"one workload", map[string]any{"data": podsFile(t, 1, 9)}, "one workload cannot be split, want two or more, or the option split:all"},
		{"short", map[string]any{"data": podsFile(t, 3, 9), "split": "all"}, "has 9 samples of 1m0s, want 2880 for the 1440 of history_h:24 and steps:1440"},
		{"negative", map[string]any{"data": write("time_s,cpu_m,mem_b\n0,-1,1\n")}, "usage.csv:2: CPU usage -1 m"},
		{"gap", map[string]any{"data": write("time_s,cpu_m,mem_b\n0,1,1\n120,1,1\n"), "max_gap_s": 60.0}, "want at most 60 s between samples"},
		{"not there", map[string]any{"data": filepath.Join(t.TempDir(), "none.csv")}, "none.csv"},
		{"wrong format", map[string]any{"data": podsFile(t, 1, 9), "format": "arabesque"}, `unknown column "time_s"`},
	} {
		if _, err := spec(t, continuous).Open(tc.opts); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
