package recommender

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func defaultRecommender(tb testing.TB, change ...func(*Config)) *Recommender {
	tb.Helper()
	c := DefaultConfig()
	for _, f := range change {
		f(&c)
	}
	r, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

const start = 1700000000 * time.Second

// An operation on the memory histogram: +value or −value bytes with weight 1 at an instant.
type operation struct {
	bytes int64
	at    time.Duration // after start
}

// checkMemory compares the memory histogram with one on which the operations were done.
func checkMemory(t *testing.T, s *State, operations ...operation) {
	t.Helper()
	want := s.r.NewState(0)
	for _, o := range operations {
		if o.bytes < 0 {
			want.memory.subtract(float64(-o.bytes), 1, start+o.at)
		} else {
			want.memory.add(float64(o.bytes), 1, start+o.at)
		}
	}
	if diff := cmp.Diff(want.memory.save(), s.memory.save()); diff != "" {
		t.Errorf("memory histogram (-want +got):\n%s", diff)
	}
}

func TestContainerWindows(t *testing.T) {
	r := defaultRecommender(t)
	s := r.NewState(0)
	want := r.NewState(0)
	var c Container
	for i, u := range []struct{ milli, bytes int64 }{{3140, 5}, {6280, 10}, {1570, 2}} {
		at := start + time.Duration(i)*12*time.Hour
		if !c.AddCPU(s, at, u.milli) || !c.AddMemory(s, at, u.bytes) {
			t.Fatalf("sample %d refused", i)
		}
		want.cpu.add(float64(u.milli)/1000, 0.1, at)
	}
	if diff := cmp.Diff(want.cpu.save(), s.cpu.save()); diff != "" {
		t.Errorf("CPU histogram (-want +got):\n%s", diff)
	}
	checkMemory(t, s, operation{5, day}, operation{-5, day}, operation{10, day}, operation{2, 2 * day})

	last := start + day
	for _, refused := range []struct {
		name string
		ok   bool
	}{
		{"CPU sample at the time of the last", c.AddCPU(s, last, 100)},
		{"earlier CPU sample", c.AddCPU(s, last-1, 100)},
		{"negative CPU", c.AddCPU(s, last+time.Minute, -1)},
		{"negative memory", c.AddMemory(s, last+time.Minute, -1)},
		{"earlier memory sample", c.AddMemory(s, last-1, 100)},
		{"CPU sample after a century", c.AddCPU(s, century+1, 100)},
		{"memory sample after a century", c.AddMemory(s, century+1, 100)},
	} {
		if refused.ok {
			t.Errorf("%s: accepted", refused.name)
		}
	}
	if s.Samples() != 3 {
		t.Errorf("%d CPU samples, want 3", s.Samples())
	}
}

func TestMemoryInterval(t *testing.T) {
	hour := defaultRecommender(t, func(c *Config) { c.MemoryInterval = time.Hour })
	t.Run("peaks of two intervals", func(t *testing.T) {
		s := hour.NewState(0)
		var c Container
		c.AddMemory(s, start, 5)
		c.AddMemory(s, start+2*time.Hour, 10)
		checkMemory(t, s, operation{5, time.Hour}, operation{10, 3 * time.Hour})
	})
	t.Run("two samples in one", func(t *testing.T) {
		s := hour.NewState(0)
		var c Container
		c.AddMemory(s, start, 5)
		c.AddMemory(s, start+time.Hour/2, 10)
		checkMemory(t, s, operation{5, time.Hour}, operation{-5, time.Hour}, operation{10, time.Hour})
	})
	t.Run("a peak of 0 is never replaced", func(t *testing.T) { // so it is upstream
		s := hour.NewState(0)
		var c Container
		c.AddMemory(s, start, 0)
		c.AddMemory(s, start+time.Minute, 10)
		checkMemory(t, s, operation{0, time.Hour})
	})
	t.Run("an OOM kill's peak ends with its interval", func(t *testing.T) {
		s := hour.NewState(0)
		var c Container
		if err := c.RecordOOM(s, start, 1000*mebi); err != nil {
			t.Fatal(err)
		}
		c.AddMemory(s, start+time.Hour, 5)
		c.AddMemory(s, start+time.Hour, 10)
		checkMemory(t, s, operation{1200 * mebi, time.Hour}, operation{5, 2 * time.Hour}, operation{-5, 2 * time.Hour}, operation{10, 2 * time.Hour})
	})
	t.Run("samples may follow an OOM kill that lies before the last", func(t *testing.T) {
		s := hour.NewState(0)
		var c Container
		c.AddMemory(s, start, 1000*mebi)
		if err := c.RecordOOM(s, start-10*time.Minute, 0); err != nil {
			t.Fatal(err)
		}
		if !c.AddMemory(s, start-5*time.Minute, 10) || c.AddMemory(s, start-15*time.Minute, 10) {
			t.Error("want the sample after the OOM kill accepted and the one before refused")
		}
	})
	t.Run("old OOM kill", func(t *testing.T) {
		s := hour.NewState(0)
		var c Container
		c.AddMemory(s, start+2*time.Hour, 5)
		if err := c.RecordOOM(s, start, 1000*mebi); !errors.Is(err, ErrOldOOM) {
			t.Errorf("OOM kill 2 h before the last sample: %v, want ErrOldOOM", err)
		}
	})
}

func TestRecordOOM(t *testing.T) {
	type event struct {
		at    time.Duration
		oom   bool
		bytes int64
	}
	for _, c := range []struct {
		name   string
		events []event
		want   []operation
	}{
		{"first", []event{{0, true, 1000 * mebi}}, []operation{{1200 * mebi, day}}},
		{"smaller ones later", []event{{0, true, 1000 * mebi}, {0, true, 999 * mebi}, {0, true, 999 * mebi}},
			[]operation{{1200 * mebi, day}}},
		{"a larger one later", []event{{0, true, 1000 * mebi}, {0, true, 999 * mebi}, {0, true, 2000 * mebi}},
			[]operation{{1200 * mebi, day}, {-1200 * mebi, day}, {2400 * mebi, day}}},
		{"small request", []event{{0, true, 1 * mebi}}, []operation{{101 * mebi, day}}},
		{"usage above the request", []event{{0, false, 3000 * mebi}, {0, true, 1000 * mebi}},
			[]operation{{3000 * mebi, day}, {-3000 * mebi, day}, {3600 * mebi, day}}},
		{"two intervals after a usage", []event{{0, false, 2000 * mebi}, {2 * day, true, 1000 * mebi}},
			[]operation{{2000 * mebi, day}, {2400 * mebi, 3 * day}}},
		{"just before a sample that opened an interval", []event{{0, false, 500 * mebi}, {day, false, 2000 * mebi}, {day - time.Second, true, 1000 * mebi}},
			[]operation{{500 * mebi, day}, {2000 * mebi, 2 * day}, {-2000 * mebi, 2 * day}, {2400 * mebi, 2 * day}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := defaultRecommender(t).NewState(0)
			var container Container
			for _, e := range c.events {
				if !e.oom {
					container.AddMemory(s, start+e.at, e.bytes)
				} else if err := container.RecordOOM(s, start+e.at, e.bytes); err != nil {
					t.Fatal(err)
				}
			}
			checkMemory(t, s, c.want...)
		})
	}
	s := defaultRecommender(t).NewState(0)
	var c Container
	c.AddMemory(s, start, 1000*mebi)
	for _, bad := range []struct {
		at      time.Duration
		request int64
		want    error
	}{
		{start - 30*time.Hour, 1000 * mebi, ErrOldOOM},
		{century + 1, 1000 * mebi, ErrInvalidOOM},
		{start, math.MaxInt64, ErrInvalidOOM},
	} {
		if err := c.RecordOOM(s, bad.at, bad.request); !errors.Is(err, bad.want) {
			t.Errorf("RecordOOM(%v, %d): %v, want %v", bad.at, bad.request, err, bad.want)
		}
	}
	checkMemory(t, s, operation{1000 * mebi, day})
}

func TestExpired(t *testing.T) {
	s := defaultRecommender(t).NewState(start)
	if s.Expired(start+7*day) || !s.Expired(start+8*day) {
		t.Error("an empty state expires 8 days after its creation, not after 7")
	}
	var c Container
	c.AddCPU(s, start+day, 100)
	if s.Expired(start+8*day) || !s.Expired(start+9*day) {
		t.Error("a state expires 8 days after its last CPU sample, not after 7")
	}
}

// A state is a value: a copy goes its own way.
func TestCopyState(t *testing.T) {
	r := defaultRecommender(t)
	s := r.NewState(0)
	var c Container
	c.AddCPU(s, 0, 100)
	c.AddMemory(s, 0, 1<<30)
	before := *s
	containerBefore := c
	c.AddCPU(s, time.Minute, 4000)
	c.AddMemory(s, time.Minute, 1<<33)
	containerBefore.AddCPU(&before, time.Minute, 100)
	var got, want Recommendation
	before.Recommend(&got)
	if want.Target = (Amounts{126, 1238659775}); got.Target != want.Target {
		t.Errorf("target of the copy %v, want %v", got.Target, want.Target)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"CPU percentiles 0.9, 0.5, 0.95", func(c *Config) { c.CPU.LowerPercentile, c.CPU.TargetPercentile = 0.9, 0.5 }},
		{"Memory percentiles 0.5, 0.9, 1.5", func(c *Config) { c.Memory.UpperPercentile = 1.5 }},
		{"CPU percentiles NaN", func(c *Config) { c.CPU.LowerPercentile = math.NaN() }},
		{"CPU.ConfidenceInterval 0s", func(c *Config) { c.CPU.ConfidenceInterval = 0 }},
		{"Memory.HalfLife 0s", func(c *Config) { c.Memory.HalfLife = 0 }},
		{"CPU.HalfLife 8784h0m0s", func(c *Config) { c.CPU.HalfLife = 366 * day }},
		{"MarginFraction -0.1", func(c *Config) { c.MarginFraction = -0.1 }},
		{"MinCPUMillicores NaN", func(c *Config) { c.MinCPUMillicores = math.NaN() }},
		{"MinMemoryMB +Inf", func(c *Config) { c.MinMemoryMB = math.Inf(1) }},
		{"Containers 0", func(c *Config) { c.Containers = 0 }},
		{"MemoryInterval 0s", func(c *Config) { c.MemoryInterval = 0 }},
		{"MemoryIntervalCount 0", func(c *Config) { c.MemoryIntervalCount = 0 }},
		{"MemoryIntervalCount 101", func(c *Config) { c.MemoryIntervalCount = 101 }},
		{"OOMBumpUpRatio 0.9", func(c *Config) { c.OOMBumpUpRatio = 0.9 }},
		{"OOMMinBumpUpBytes -1", func(c *Config) { c.OOMMinBumpUpBytes = -1 }},
		{"RoundCPUMillicores 0", func(c *Config) { c.RoundCPUMillicores = 0 }},
		{"RoundMemoryBytes 0", func(c *Config) { c.RoundMemoryBytes = 0 }},
	} {
		config := DefaultConfig()
		c.change(&config)
		if _, err := New(config); err == nil || !contains(err.Error(), c.name) {
			t.Errorf("New: %v, want an error with %q", err, c.name)
		}
	}
}
