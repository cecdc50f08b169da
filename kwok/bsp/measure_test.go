package bsp

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// lawExecutor executes by laws and takes no time.
type lawExecutor struct {
	laws    map[string]profile.Law
	rng     *rand.Rand
	started []Job
	replans [][]int64
	dead    int // the superstep in which a task dies, from 1; 0 for none
	open    int // crews

	replanTime time.Duration // that a re-planning takes
}

func (e *lawExecutor) Setting() string    { return "by laws" }
func (e *lawExecutor) MaxMilliCPU() int64 { return 24000 }
func (e *lawExecutor) Close() error       { return nil }
func (e *lawExecutor) Start(_ context.Context, j Job) (Crew, error) {
	if err := j.Check(e.MaxMilliCPU()); err != nil {
		return nil, err
	}
	e.started = append(e.started, j)
	e.open++
	return &lawCrew{e: e, job: j, shares: slices.Clone(j.MilliCPU)}, nil
}

type lawCrew struct {
	e      *lawExecutor
	job    Job
	shares []int64
	step   int
}

func (c *lawCrew) Close() error { c.e.open--; return nil }
func (c *lawCrew) Replan(_ context.Context, shares []int64) error {
	if c.e.replanTime > 0 {
		time.Sleep(c.e.replanTime) // in a bubble of synctest
	}
	c.e.replans = append(c.e.replans, slices.Clone(shares))
	copy(c.shares, shares)
	return nil
}
func (c *lawCrew) Superstep(_ context.Context, sizes []float64) (all []time.Duration, err error) {
	if c.step++; c.step == c.e.dead {
		return nil, ErrDead
	}
	for k, w := range c.job.Works {
		l := c.e.laws[w.Task]
		s := l.Duration(sizes[k], float64(c.shares[k])) * math.Exp(l.RMS*c.e.rng.NormFloat64())
		all = append(all, time.Duration(s*float64(time.Second)))
	}
	return all, nil
}

// laws are the published ones of bsearch and chmod, with their noise.
func newLawExecutor() *lawExecutor {
	return &lawExecutor{rng: rand.New(pcg.New(7)), laws: map[string]profile.Law{
		"bsearch": {Task: "bsearch", A: 25.251, SizeExp: 0.987, ShareExp: 1.236, CMax: 8.38, RMS: 0.033},
		"chmod":   {Task: "chmod", A: 12.694, SizeExp: 1.001, ShareExp: 1.444, CMax: 4.71, RMS: 0.110},
	}}
}

func measureConfig(t *testing.T, e Executor) ProfileConfig {
	t.Helper()
	works, err := ParseWorks([]string{"bsearch", "chmod:80"})
	if err != nil {
		t.Fatal(err)
	}
	return ProfileConfig{
		Executor: e, Works: works, Repeats: 2, Limit: time.Minute, StateFile: filepath.Join(t.TempDir(), "state.json"),
		Sizes: []float64{40, 10, 20, 30, 10}, Shares: []float64{1000, 2000, 4000, 6000, 8000},
	}
}

// TestMeasureProfile measures two tasks that follow published laws, in two calls: the fits are the laws, and the
// noise is theirs.
func TestMeasureProfile(t *testing.T) {
	e := newLawExecutor()
	c := measureConfig(t, e)
	c.Repeats = 20
	ctx, cancel := context.WithCancel(ctx)
	seen, last := 0, math.Inf(1)
	c.Done = func(p ProfileProgress) {
		if seen++; p.Measured != seen || p.Of != 800 || p.Error > last {
			t.Errorf("progress %+v after %d of 800 and an error of %v", p, seen, last)
		}
		last = p.Error
		if seen == 60 {
			cancel()
			e.dead = 1 // as an executor whose context has ended
		}
	}
	if _, err := MeasureProfile(ctx, c); !errors.Is(err, ErrDead) || e.open != 0 {
		t.Fatalf("the interrupted call: %v, %d crews left; want %v and none", err, e.open, ErrDead)
	}
	e.dead, c.Done = 0, nil
	m, err := MeasureProfile(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if m.Resumed != 60 || m.Now != 740 || m.Of != 800 || len(m.Points) != 40 || len(e.started) != 801 {
		t.Errorf("%d resumed, %d now, of %d, %d points, %d crews; want 60, 740, 800, 40, 801", m.Resumed, m.Now, m.Of, len(m.Points), len(e.started))
	}
	var text bytes.Buffer
	if err := m.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	p, err := profile.FillFrom("measured", &text, nil, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for k, task := range []string{"bsearch", "chmod"} {
		want, got, sum := e.laws[task], p.Laws[k], m.Tasks[k]
		// 20 repeats: the standard error of a mean is at most 0.11/√20 = 0.025, that of the noise 0.11/√760 = 0.004.
		if math.Abs(got.A/want.A-1) > 0.1 || math.Abs(got.SizeExp-want.SizeExp) > 0.03 || math.Abs(got.ShareExp-want.ShareExp) > 0.06 {
			t.Errorf("%s: fitted %+v, want %+v", task, got, want)
		}
		if sum.Task != task || sum.Points != 20 || sum.Repeats != 380 || math.Abs(sum.Noise-want.RMS) > 0.012 {
			t.Errorf("%s: %+v, want 20 points, 380 repeats and a noise of %v", task, sum, want.RMS)
		}
	}
	// The mean of logarithms has the standard deviation of a point's tries, relative to their mean.
	for _, x := range m.Points {
		if rms := e.laws[x.Task].RMS; x.Tries != 20 || x.SD/x.Mean < rms/2 || x.SD/x.Mean > 2*rms {
			t.Errorf("%+v, want 20 tries that differ by about %v", x, rms)
		}
	}
	again, err := MeasureProfile(context.Background(), c)
	if err != nil || again.Now != 0 || again.Resumed != 800 {
		t.Errorf("once more: %+v, %v; want nothing measured", again, err)
	}
}

// TestMeasureOrder: the first measurements are spread over the grid: two tasks in turn, and after four of a task its
// sizes and shares differ.
func TestMeasureOrder(t *testing.T) {
	e := newLawExecutor()
	c := measureConfig(t, e)
	var order []Measurement
	var left []time.Duration
	c.Done = func(p ProfileProgress) { order, left = append(order, p.Measurement), append(left, p.Left) }
	if _, err := MeasureProfile(ctx, c); err != nil {
		t.Fatal(err)
	}
	sizes, shares, tasks := map[float64]bool{}, map[float64]bool{}, map[string]int{}
	for _, m := range order[:8] {
		sizes[m.Size], shares[m.MilliCPU] = true, true
		tasks[m.Task]++
	}
	if len(sizes) < 2 || len(shares) < 3 || tasks["chmod"] != 4 {
		t.Errorf("first %v; want four of each task, of two sizes and three shares", order[:8])
	}
	// What is left is predicted by the fits: half-way within a tenth of the truth, at the end nothing.
	truth := 0.0
	for _, m := range order[40:] {
		truth += m.Seconds
	}
	if got := left[39].Seconds(); math.Abs(got/truth-1) > 0.1 || left[79] != 0 {
		t.Errorf("%v s left after half, in truth %v; at the end %v", got, truth, left[79])
	}
}

// TestMeasureBudget: no measurement begins after the budget.
func TestMeasureBudget(t *testing.T) {
	e := newLawExecutor()
	c := measureConfig(t, e)
	c.Budget = 1 // ns
	c.Done = func(p ProfileProgress) {
		if p.Left != 0 {
			t.Errorf("%v left, want none after the budget", p.Left)
		}
	}
	m, err := MeasureProfile(ctx, c)
	if err != nil || m.Now > 1 || m.Of != 80 {
		t.Errorf("%+v, %v; want at most one of 80 measurements", m, err)
	}
}

func TestMeasureRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*ProfileConfig)
		want   string
	}{
		{"repeats", func(c *ProfileConfig) { c.Repeats = 101 }, "101 repeats, want 1 to 100"},
		{"no repeats", func(c *ProfileConfig) { c.Repeats = 0 }, "0 repeats"},
		{"share", func(c *ProfileConfig) { c.Shares = []float64{1e9} }, "1e+09 millicores, want whole ones from 10 to the 24000"},
		{"part of a millicore", func(c *ProfileConfig) { c.Shares = []float64{100.5} }, "100.5 millicores"},
		{"no number", func(c *ProfileConfig) { c.Shares = []float64{math.NaN()} }, "NaN millicores"},
		{"size", func(c *ProfileConfig) { c.Sizes = []float64{2e6} }, "a size of 2e+06"},
		{"operations", func(c *ProfileConfig) { c.Works, c.Sizes = []Work{{"cap", 1e7}}, []float64{11} }, "1.1e+08 operations, want at most 1e+08"},
		{"points", func(c *ProfileConfig) { c.Sizes, c.Shares = make([]float64, 33), make([]float64, 33) }, "at most 1024 points"},
		{"limit", func(c *ProfileConfig) { c.Limit = 0 }, "a limit of 0s"},
		{"state", func(c *ProfileConfig) { c.StateFile = "" }, "a state file"},
		{"setting", func(c *ProfileConfig) {
			envstest.Write(t, c.StateFile, `{"version":1,"setting":"elsewhere","measurements":[]}`)
		}, `"elsewhere", which cannot be put together with those by "by laws"`},
		{"work", func(c *ProfileConfig) {
			envstest.Write(t, c.StateFile, `{"version":1,"setting":"by laws","measurements":[{"task":"chmod","work":"chmod:70","size":10,"milli_cpu":1000,"seconds":1}]}`)
		}, "chmod:70, which cannot be put together with those of chmod:80"},
		{"seconds", func(c *ProfileConfig) {
			envstest.Write(t, c.StateFile, `{"version":1,"setting":"by laws","measurements":[{"task":"chmod","work":"chmod:80","size":10,"milli_cpu":1000}]}`)
		}, "took 0 s"},
		{"version", func(c *ProfileConfig) { envstest.Write(t, c.StateFile, `{"version":2}`) }, "version 2, want 1"},
		{"no JSON", func(c *ProfileConfig) { envstest.Write(t, c.StateFile, `nonsense`) }, "no file of measurements"},
	} {
		c := measureConfig(t, newLawExecutor())
		tc.change(&c)
		if _, err := MeasureProfile(ctx, c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want an error with %q", tc.name, err, tc.want)
		}
	}
}

func TestParseWorks(t *testing.T) {
	works, err := ParseWorks([]string{"memcpy:2.5", "cap"})
	if err != nil || len(works) != 2 || works[0] != (Work{"memcpy", 2.5}) || works[0].String() != "memcpy:2.5" {
		t.Errorf("%v, %v", works, err)
	}
	for size, want := range map[float64]int64{4: 10, 0.001: 1, 1e6: 2_500_000} {
		if n, err := works[0].Count(size); err != nil || n != want {
			t.Errorf("memcpy:2.5 of size %v: %d operations, %v; want %d", size, n, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "want a stressor", "--all": "want a stressor", "matrix": "want matrix:OPS", "cap:": "above 0", "cap:0": "above 0",
		"cap:1e9": "up to 1e+08", "cap:NaN": "above 0", "cap,cap": "two workloads cap",
	} {
		if _, err := ParseWorks(strings.Split(text, ",")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	if _, err := ParseWorks(nil); err == nil {
		t.Error("no workloads: no error")
	}
}
