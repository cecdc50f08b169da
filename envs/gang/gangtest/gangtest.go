// Package gangtest holds the shared code of the tests of envs/gang and its packages: models, traces
// and reference results.
package gangtest

import (
	"context"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/gang/planner"

	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// HandModel has two tasks whose durations a spline reproduces exactly, for size w on C
// cores: a takes w·(10−2C) and b takes w·(6−C) seconds. Each starts on one core; three
// increments of one core are left to give.
func HandModel(tb testing.TB) *profile.Model {
	tb.Helper()
	p := &profile.Profile{
		Tasks:  []string{"a", "b"},
		Sizes:  []float64{10, 20, 30, 40},
		Shares: []float64{1000, 2000, 3000, 4000},
	}
	for _, law := range [][2]float64{{10, 2}, {6, 1}} {
		for _, w := range p.Sizes {
			for _, c := range p.Shares {
				p.Durations = append(p.Durations, w*(law[0]-law[1]*c/1000))
			}
		}
	}
	m, err := profile.NewModel(p, profile.ModelConfig{
		StartMilliCPU: 1000, IncrementMilliCPU: 1000, TotalMilliCPU: 5000, StaticMaxMilliCPU: 8000, StaticSize: 30, Discount: 0.95,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// saturating holds A, a, b and Cmax of the law D = A·W^a·min(C, Cmax)^−b, for W units of
// work on C cores, that fits stress-ng's stressors.
var saturating = [][4]float64{
	{8.201, 1.001, 1.043, 5.66},
	{13.709, 1.004, 1.058, 7.74},
	{25.251, 0.987, 1.236, 8.38},
	{12.963, 0.963, 1.218, 6.76},
	{12.694, 1.001, 1.444, 4.71},
	{11.209, 0.995, 0.977, 8.89},
	{17.783, 0.991, 1.250, 8.16},
	{14.187, 0.994, 1.242, 8.29},
}

// HandData writes a folder of data. All three tasks take D(w, c) = w·(12 − c) seconds for size w on c cores. The hourly
// series alternate between 0 and 40 in the training part, which has train rows, and are 10 throughout the held-out
// part: sizes of 10, 50 and 20. Sizes in the profile are parts times as large.
func HandData(tb testing.TB, parts, train int) string {
	tb.Helper()
	dir := tb.TempDir()
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	var profile strings.Builder
	profile.WriteString("Task Name, Workload Size, CPU Shares, Duration\n")
	for _, task := range []string{"a", "b", "c"} {
		for size := 10; size <= 50; size += 10 {
			for cores := 1; cores <= 8; cores++ {
				fmt.Fprintf(&profile, "%s, %d, %d, %d\n", task, parts*size, cores*1000, size*(12-cores))
			}
		}
	}
	write(filepath.Join(dir, "profile", "workload_profiling.csv"), profile.String())
	var series strings.Builder
	series.WriteString("timestamp,value\n")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1019 + train {
		value := 10
		if i < train {
			value = 40 * (i % 2)
		}
		fmt.Fprintf(&series, "%s,%d\n", start.Add(time.Duration(i)*time.Hour).Format(time.DateTime), value)
	}
	for _, name := range []string{"x", "y", "z"} {
		write(filepath.Join(dir, "series", name+".csv"), series.String())
	}
	return dir
}

// LawProfile returns a profile of n tasks that follow the law, in CSV and parsed. Every third point deviates by a
// fifth, so that the profile is not monotone.
func LawProfile(tb testing.TB, n int) (string, *profile.Profile) {
	tb.Helper()
	var b strings.Builder
	b.WriteString("Task Name, Workload Size, CPU Shares, Duration\n")
	for k := range n {
		law := saturating[k%len(saturating)]
		for i, size := range []float64{10, 18, 26, 36, 50} {
			for j := range 12 {
				share := 1000 + 500*j
				d := law[0] * math.Pow(size, law[1]) * math.Pow(min(float64(share)/1000, law[3]), -law[2])
				d *= 1 + 0.2*float64((i*5+j*7+k)%3/2)
				fmt.Fprintf(&b, "task-%d, %v, %d, %v\n", k, size, share, d)
			}
		}
	}
	p, err := profile.Parse("law.csv", strings.NewReader(b.String()))
	if err != nil {
		tb.Fatal(err)
	}
	return b.String(), p
}

// LawModel returns a model of n tasks with room for increments of 100 m on average 10 each.
func LawModel(tb testing.TB, n int) *profile.Model {
	tb.Helper()
	_, p := LawProfile(tb, n)
	cfg := profile.DefaultModelConfig()
	cfg.TotalMilliCPU = 2000 * n
	m, err := profile.NewModel(p, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Reference returns the rows of a file of reference results by column.
func Reference(tb testing.TB, dir, name string) []map[string]string {
	tb.Helper()
	f, err := os.Open(filepath.Join(dir, "reference", name))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		tb.Fatal(err)
	}
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := make(map[string]string, len(line))
		for i, field := range line {
			row[lines[0][i]] = field
		}
		rows = append(rows, row)
	}
	return rows
}

// Number parses a column of a row.
func Number(tb testing.TB, row map[string]string, column string) float64 {
	tb.Helper()
	v, err := strconv.ParseFloat(row[column], 64)
	if err != nil {
		tb.Fatalf("column %s: %v", column, err)
	}
	return v
}

// ProfileFile is the profile in the folder of the public data; tests find that folder by it.
const ProfileFile = "profile/workload_profiling.csv"

// NewPlanner makes a planner.
func NewPlanner(tb testing.TB, cfg planner.Config, in *planner.Instance, ep planner.Episode) planner.Planner {
	tb.Helper()
	p, err := planner.New(cfg, in, ep)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Simulate plays an episode with a planner made for it, and records its steps.
func Simulate(tb testing.TB, cfg planner.Config, in *planner.Instance, ep planner.Episode) planner.Run {
	tb.Helper()
	run, err := planner.Simulate(in, NewPlanner(tb, cfg, in, ep), ep, true)
	if err != nil {
		tb.Fatal(err)
	}
	return run
}

// LawTrace returns a trace of random walks. With exact, planners see the truth.
func LawTrace(seed uint64, steps, columns, tasks int, exact bool) *planner.Trace {
	rng := rand.New(rand.NewPCG(seed, 1))
	tr := &planner.Trace{Steps: steps, Columns: columns, Tasks: tasks}
	walk := make([]float64, (steps+columns)*tasks)
	for i := range walk {
		if walk[i] = 10 + 40*rng.Float64(); i >= tasks {
			walk[i] = min(50, max(10, walk[i-tasks]+8*rng.NormFloat64()))
		}
	}
	for t := range steps {
		tr.True = append(tr.True, walk[t*tasks:(t+1)*tasks]...)
		for _, v := range walk[t*tasks : (t+columns)*tasks] {
			if !exact {
				v += 3 * rng.NormFloat64()
			}
			tr.Planned = append(tr.Planned, v)
		}
	}
	return tr
}

// LawInstance returns an instance of a law model and a law trace.
func LawInstance(tb testing.TB, seed uint64, steps, columns, tasks int, exact bool) *planner.Instance {
	tb.Helper()
	in, err := planner.NewInstance(context.Background(), LawModel(tb, tasks), LawTrace(seed, steps, columns, tasks, exact), min(3, columns), columns)
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

// WithSizeZero returns a profile of 16 points whose durations are (size+5)·1000/share, which follow no power law of the
// size.
func WithSizeZero() string {
	var b strings.Builder
	b.WriteString("Task Name,Workload Size,CPU Shares,Duration\n")
	for _, size := range []int{0, 10, 20, 50} {
		for _, share := range []int{1000, 2000, 4000, 8000} {
			fmt.Fprintf(&b, "a,%d,%d,%v\n", size, share, float64(size+5)*1000/float64(share))
		}
	}
	return b.String()
}
