package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/cli"
)

// short makes a command of TestWithoutData take a moment.
var short = map[string][]string{
	"lra dc":         {"--episodes", "10"},
	"lra learned":    {"--rows", "2", "--milp-nodes", "0"},
	"lra table":      {"--rows", "2"},
	"lra train-high": {"--episodes", "10"},
	"lra train-sub":  {"--n-timesteps", "256", "--rows", "1"},
	"lra vanilla":    {"--episodes", "10"},
}

// TestWithoutData: each command below reproduce and lra works where there is no data, and says once which sample it
// uses.
func TestWithoutData(t *testing.T) {
	cache := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, cache)
	}
	t.Setenv(cli.DataVariable, t.TempDir())
	runs := map[string]bool{"reproduce fgd --all": true}
	for _, group := range []string{"reproduce", "lra"} {
		cmd, _, err := root().Find([]string{group})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cmd.Commands() {
			if c.Name() != "advantage" { // reads no data, and needs a file to write
				runs[group+" "+c.Name()] = true
			}
		}
	}
	if len(runs) < 22 {
		t.Fatalf("%d commands, want the four of reproduce, one of them twice, and the methods of lra: %v", len(runs), runs)
	}
	for line := range runs {
		t.Run(line, func(t *testing.T) {
			if slow := []string{"lra learned", "lra train-sub", "reproduce gang"}; testing.Short() && slices.Contains(slow, line) {
				t.Skip("trains or plans for minutes under the race detector; run without -short")
			}
			t.Chdir(t.TempDir()) // trainings write logs
			out, notes, err := execute(t, context.Background(), append(strings.Fields(line), short[line]...)...)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(out, "\n") < 3 {
				t.Errorf("prints %q, want a result", out)
			}
			if n := strings.Count(notes, ": using the embedded sample: "); n != 1 {
				t.Errorf("says %d times that it uses a sample, want once:\n%s", n, notes)
			}
		})
	}
	if found, err := os.ReadDir(cache); err != nil || len(found) == 0 {
		t.Errorf("the cache has %v, %v; want the samples", found, err)
	}
}
