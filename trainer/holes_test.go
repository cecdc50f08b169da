package main

import (
	"bytes"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// logged returns what f logs.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var text bytes.Buffer
	log.SetOutput(&text) // to which slog's default logger writes
	defer log.SetOutput(os.Stderr)
	f()
	return text.String()
}

// TestHolesAreReported: 21 rows from the middle of a series, and of a recorded workload, that are not
// there are reported by file and line.
func TestHolesAreReported(t *testing.T) {
	for i := range holesCases(t, t.TempDir()) {
		tc := holesCases(t, t.TempDir())[i] // files of its own: a note is logged once in a process
		t.Run(tc.name, func(t *testing.T) {
			text := logged(t, func() { mustExecute(t, tc.args...) })
			// Rows 700 to 720 of the file are not there, so that what was row 721 is at line 701.
			if want := tc.place + ":701: 21 samples of "; tc.place != "" && strings.Count(text, want) != 1 || tc.place == "" && text != "" {
				t.Errorf("logged %q, want %q once, or nothing", text, want)
			}
		})
	}
}

// holesCase is a command that reads a file with or without a hole.
type holesCase struct {
	name  string
	args  []string
	place string // with holes; "" for none
}

// holesCases writes the files below dir.
func holesCases(t *testing.T, dir string) []holesCase {
	t.Helper()
	write := func(name string, lines []string) string {
		path := filepath.Join(dir, name)
		envstest.Write(t, path, strings.Join(lines, "\n")+"\n")
		return path
	}
	series, profile, usage := []string{"timestamp,value"}, []string{"Task Name,Workload Size,CPU Shares,Duration"}, []string{"time_s,cpu_m,mem_b"}
	for i := range 2000 {
		at := time.Date(2024, 1, 1, 0, 5*i, 0, 0, time.UTC)
		series = append(series, at.Format("2006-01-02 15:04:05")+fmt.Sprintf(",%.3f", 50+20*math.Sin(float64(i)/46)))
		usage = append(usage, fmt.Sprintf("%d,%d,%d", 60*i, 500+i%100, 1<<20))
	}
	for size := range 5 {
		for cores := 1; cores <= 5; cores++ {
			profile = append(profile, fmt.Sprintf("a,%d,%d,%d", 10*(size+1), 1000*cores, 12*(size+1)/cores+1))
		}
	}
	write("gang/profile/workload_profiling.csv", profile)
	write("gang/series/whole.csv", series)
	cut := write("gang/series/cut.csv", append(append([]string{}, series[:700]...), series[721:]...))
	wholeUsage := write("whole.csv", usage)
	cutUsage := write("cut.csv", append(append([]string{}, usage[:700]...), usage[721:]...))
	gangArgs := func(command string, more ...string) []string {
		return append(append([]string{command, "--env", "k8s/GangWindow-v0", "--env-kwargs", "steps:20", "--env-kwargs", "data:" + filepath.Join(dir, "gang"), "--baseline", "static_2", "--episodes", "2"}, more...), "--json")
	}
	return []holesCase{
		{"whole series", gangArgs("eval", "--env-kwargs", "series:[whole]"), ""},
		{"eval", gangArgs("eval", "--env-kwargs", "series:[cut]"), cut},
		{"compare", gangArgs("compare", "--env-kwargs", "series:[cut]"), cut},
		{"gang forecast", []string{"gang", "forecast", "--env-kwargs", "data:" + filepath.Join(dir, "gang"), "--env-kwargs", "series:[cut]", "--json"}, cut},
		{"whole usage", []string{"vpa", "workload", "--data", wholeUsage, "--out", filepath.Join(dir, "w"), "--json"}, ""},
		{"vpa workload", []string{"vpa", "workload", "--data", cutUsage, "--out", filepath.Join(dir, "w"), "--json"}, cutUsage},
		{"vpa eval", []string{"eval", "--env", "k8s/VerticalPodAutoscaler-v0", "--env-kwargs", "data:" + cutUsage, "--env-kwargs", "split:all", "--env-kwargs", "history_h:1",
			"--env-kwargs", "steps:20", "--baseline", "static", "--episodes", "1", "--json"}, cutUsage},
	}
}
