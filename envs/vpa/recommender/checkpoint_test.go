package recommender

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSaveHistogram(t *testing.T) {
	for _, c := range []struct {
		name    string
		samples []sample
		weights map[int]uint32
		total   float64
	}{
		{"empty", nil, map[int]uint32{}, 0},
		{"one", []sample{{1, 1, 0}}, map[int]uint32{1: 10000}, 1},
		{"one too light", []sample{{1, 1, 0}, {2, 100000, 0}}, map[int]uint32{2: 10000}, 100001},
		{"rounded", []sample{{1, 2, 0}, {2, 3, 0}}, map[int]uint32{1: 6667, 2: 10000}, 5},
		{"three", []sample{{1, 1, 0}, {2, 10000, 0}, {3, 50, 0}}, map[int]uint32{1: 1, 2: 10000, 3: 50}, 10051},
	} {
		t.Run(c.name, func(t *testing.T) {
			// At the reference, so that weights are those given.
			a := newAxis(0.01, time.Hour)
			h := new(histogram)
			h.reset(&a)
			for _, s := range c.samples {
				h.add(h.middle(s.bucket), s.weight, 1000*time.Hour)
			}
			got := h.save()
			if diff := cmp.Diff(c.weights, got.BucketWeights); diff != "" || got.TotalWeight != c.total {
				t.Errorf("total %v, want %v; buckets (-want +got):\n%s", got.TotalWeight, c.total, diff)
			}
		})
	}
}

func TestLoadHistogram(t *testing.T) {
	a := newAxis(0.01, time.Hour)
	h := new(histogram)
	h.reset(&a)
	h.load(&HistogramCheckpoint{TotalWeight: 6, BucketWeights: map[int]uint32{0: 1, 1: 2}})
	if h.weight[0] != 2 || h.weight[1] != 4 || h.total != 6 || h.low != 0 || h.high != 1 {
		t.Errorf("weights %v and %v of %v, buckets %d to %d; want 2 and 4 of 6, 0 to 1", h.weight[0], h.weight[1], h.total, h.low, h.high)
	}
	// A weight that rounds below epsilon must not make the histogram look empty.
	g := new(histogram)
	g.reset(&a)
	g.add(g.middle(1), epsilon, 0)
	g.add(g.middle(2), 10000*epsilon-epsilon, 0)
	saved := g.save()
	h.reset(&a)
	if h.load(&saved); h.empty() {
		t.Error("a loaded histogram is empty")
	}
}

func TestCheckpointLeavesOutOngoingPeak(t *testing.T) {
	s := defaultRecommender(t).NewState(0)
	var c Container
	c.AddCPU(s, start, 100)
	c.AddMemory(s, start, 1<<30)
	if got := s.Save(start+day-1, &c).MemoryHistogram; len(got.BucketWeights) != 0 || got.TotalWeight != 0 {
		t.Errorf("during the interval: %v, want no peak", got)
	}
	if got := s.Save(start+day, &c).MemoryHistogram; len(got.BucketWeights) != 1 {
		t.Errorf("after the interval: %v, want one peak", got)
	}
	if got := s.Save(start+day-1, new(Container)).MemoryHistogram; len(got.BucketWeights) != 1 {
		t.Errorf("of a container that fed nothing: %v, want one peak", got)
	}
}

// After a restart from JSON, recommendations continue from where they were, up to the rounding of
// weights to 1/10000.
func TestRestore(t *testing.T) {
	r := defaultRecommender(t)
	s := r.NewState(start)
	var c Container
	trace := pseudoRandom()
	now := start
	for i := range 3 * 1440 {
		milli, bytes := trace(i)
		c.AddCPU(s, now, milli)
		c.AddMemory(s, now, bytes)
		now += time.Minute
	}
	text, err := json.Marshal(s.Save(now+day, &c))
	if err != nil {
		t.Fatal(err)
	}
	var stored Checkpoint
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	restored := r.NewState(now)
	if err := restored.Load(&stored); err != nil {
		t.Fatal(err)
	}
	var want, got Recommendation
	s.Recommend(&want)
	if restored.Recommend(&got); got != want {
		t.Errorf("after a restart %+v, want %+v", got, want)
	}
	if restored.Samples() != 3*1440 || restored.Expired(now) {
		t.Errorf("%d samples, expired %v", restored.Samples(), restored.Expired(now))
	}
	// Kept apart and merged, as upstream does it.
	live, total := r.NewState(now), r.NewState(now)
	c = Container{}
	c.AddCPU(live, now, 1000)
	total.Merge(live)
	total.Merge(restored)
	if total.Samples() != 3*1440+1 {
		t.Errorf("%d samples in total, want %d", total.Samples(), 3*1440+1)
	}
}

func TestLoadErrors(t *testing.T) {
	r := defaultRecommender(t)
	s := r.NewState(0)
	var c Container
	c.AddCPU(s, start, 100)
	c.AddMemory(s, start, 1<<30)
	for _, bad := range []struct {
		want   string
		change func(*Checkpoint)
	}{
		{`version "v2", want "v3"`, func(c *Checkpoint) { c.Version = "v2" }},
		{"cpuHistogram: bucket -1, want 0 to 175", func(c *Checkpoint) { c.CPUHistogram.BucketWeights[-1] = 1 }},
		{"memoryHistogram: bucket 176, want 0 to 175", func(c *Checkpoint) { c.MemoryHistogram.BucketWeights[176] = 1 }},
		{"cpuHistogram: totalWeight -1", func(c *Checkpoint) { c.CPUHistogram.TotalWeight = -1 }},
		{"memoryHistogram: totalWeight NaN", func(c *Checkpoint) { c.MemoryHistogram.TotalWeight = math.NaN() }},
		{"totalSamplesCount -1", func(c *Checkpoint) { c.TotalSamplesCount = -1 }},
		{"no firstSampleStart, but 1 samples", func(c *Checkpoint) { c.FirstSampleStart = time.Time{} }},
		{"lastSampleStart 2170", func(c *Checkpoint) { c.LastSampleStart = time.Date(2170, 1, 1, 0, 0, 0, 0, time.UTC) }},
	} {
		stored := s.Save(start+day, &c)
		bad.change(stored)
		fresh := r.NewState(0)
		err := fresh.Load(stored)
		if !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("error %v, want one with %q", err, bad.want)
		}
		if !reflect.DeepEqual(fresh, r.NewState(0)) {
			t.Errorf("%s: the state has changed", bad.want)
		}
	}
	if err := s.Load(nil); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("Load(nil): %v, want ErrCheckpoint", err)
	}
}

func FuzzCheckpoint(f *testing.F) {
	r := defaultRecommender(f)
	s := r.NewState(0)
	var c Container
	c.AddCPU(s, start, 100)
	c.AddMemory(s, start, 1<<30)
	text, err := json.Marshal(s.Save(start+day, &c))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":"v3","cpuHistogram":{"totalWeight":1e308,"bucketWeights":{"175":4294967295}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var stored Checkpoint
		if json.Unmarshal(text, &stored) != nil {
			return
		}
		s := r.NewState(0)
		if err := s.Load(&stored); err != nil {
			if !errors.Is(err, ErrCheckpoint) {
				t.Errorf("error %v, want one that wraps ErrCheckpoint", err)
			}
			return
		}
		var c Container
		c.AddCPU(s, start, 100)
		c.AddMemory(s, start, 1<<30)
		var rec Recommendation
		if s.Recommend(&rec); rec.Lower.MilliCPU < 25 || rec.Target.MemoryBytes < 250*mebi {
			t.Errorf("%+v is below the minimum", rec)
		}
		s.Save(start+day, &c)
	})
}
