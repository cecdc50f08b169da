package workload

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset"
)

// Series is the demand of one container over time.
type Series struct {
	ID       string
	Interval time.Duration       // between samples
	Usage    []cluster.Resources // its demand in each interval
	Requests cluster.Resources   // of the container in the trace; zero if unknown
	Limits   cluster.Resources   // likewise
}

// Max returns the largest CPU and the largest memory of usage, which may occur at different times.
func Max(usage []cluster.Resources) cluster.Resources {
	var m cluster.Resources
	for _, u := range usage {
		m.MilliCPU, m.MemoryBytes = max(m.MilliCPU, u.MilliCPU), max(m.MemoryBytes, u.MemoryBytes)
	}
	return m
}

// Grid sets how samples of a trace, which may be irregular, become a [Series]. Each interval has the mean of its CPU
// samples and the largest of its memory samples. An interval without samples has the values of the previous one; the
// first interval is the earliest that has or follows a sample of CPU and one of memory.
type Grid struct {
	Interval time.Duration // between samples of the result; default 1 minute
	MaxGap   time.Duration // longest gap that is filled so; a longer one is an error; default 1 hour
}

func (g Grid) complete() Grid {
	g.Interval, g.MaxGap = cmp.Or(g.Interval, time.Minute), cmp.Or(g.MaxGap, time.Hour)
	return g
}

// Report counts the corrections of a reader to the samples of a trace.
type Report struct {
	Samples int `json:"samples"` // used
	Dropped int `json:"dropped"` // marked as invalid by the format itself: omitted
	Filled  int `json:"filled"`  // intervals without a sample, filled with the previous values

	// Holes names the containers with missing samples, relative to their usual interval.
	Holes []string `json:"holes,omitempty"`
}

// maxAmount bounds a sample, so that no sum over pods overflows: the amount of a thousand machines.
const maxAmount = 1 << 50

// sample is one reading of a trace.
type sample struct {
	seconds  float64
	cpu, mem float64 // millicores and bytes; NaN if not in this reading
	line     int     // of the file; 0 if there are none
}

// trace collects the samples of one container.
type trace struct {
	id               string
	samples          []sample
	requests, limits cluster.Resources
}

// collector collects samples by container, and then puts them on a grid.
type collector struct {
	name   string // of the file, if samples have its lines
	grid   Grid
	ids    map[string]*trace
	order  []*trace
	sorted bool // samples must be in the order of time; otherwise they are sorted
	report Report
}

func newCollector(g Grid, sorted bool) *collector {
	return &collector{grid: g.complete(), ids: map[string]*trace{}, sorted: sorted}
}

// of returns the trace of a container; the first call makes it.
func (c *collector) of(id string) *trace {
	t := c.ids[id]
	if t == nil {
		t = &trace{id: id}
		c.ids[id] = t
		c.order = append(c.order, t)
	}
	return t
}

// add checks a sample and appends it. A NaN means that the sample lacks a resource: number has already rejected NaN as
// a value.
func (c *collector) add(id string, s sample) error {
	t := c.of(id)
	switch {
	case !(math.Abs(s.seconds) <= 1e12):
		return fmt.Errorf("time %v of %q, want seconds between -1e12 and 1e12", s.seconds, id)
	case s.cpu < 0 || s.cpu > maxAmount:
		return fmt.Errorf("CPU usage %v m of %q, want 0 to %d", s.cpu, id, maxAmount)
	case s.mem < 0 || s.mem > maxAmount:
		return fmt.Errorf("memory usage %v bytes of %q, want 0 to %d", s.mem, id, maxAmount)
	}
	if n := len(t.samples); c.sorted && n > 0 && s.seconds <= t.samples[n-1].seconds {
		return fmt.Errorf("time %v of %q after %v, want later and later times", s.seconds, id, t.samples[n-1].seconds)
	}
	t.samples = append(t.samples, s)
	c.report.Samples++
	return nil
}

// maxIntervals bounds a series: 19 years of minutes.
const maxIntervals = 10_000_000

// finish returns the series in the order in which their containers appeared.
func (c *collector) finish() ([]Series, Report, error) {
	var all []Series
	for _, t := range c.order {
		if len(t.samples) == 0 {
			continue
		}
		s, err := c.series(t)
		if err != nil {
			return nil, c.report, err
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, c.report, fmt.Errorf("no sample of any container")
	}
	return all, c.report, nil
}

// series puts the samples of a trace on the grid.
func (c *collector) series(t *trace) (Series, error) {
	if !c.sorted {
		slices.SortStableFunc(t.samples, func(a, b sample) int { return cmp.Compare(a.seconds, b.seconds) })
	}
	c.noteHoles(t)
	step := c.grid.Interval.Seconds()
	first, last := t.samples[0].seconds, t.samples[len(t.samples)-1].seconds
	n := int(min((last-first)/step, maxIntervals)) + 1
	if n > maxIntervals {
		return Series{}, fmt.Errorf("%q spans %.0f s, which is more than %d intervals of %v", t.id, last-first, maxIntervals, c.grid.Interval)
	}
	out := Series{ID: t.id, Interval: c.grid.Interval, Requests: t.requests, Limits: t.limits, Usage: make([]cluster.Resources, 0, min(n, 1<<16))}
	var seen cluster.Resources
	at := [2]float64{first, first} // of the last sample with CPU, with memory
	have := [2]bool{}
	i := 0
	for k := range n {
		end := first + float64(k+1)*step
		cpu, cpus, mem := 0.0, 0, -1.0
		for ; i < len(t.samples) && t.samples[i].seconds < end; i++ {
			s := t.samples[i]
			if !math.IsNaN(s.cpu) {
				if err := c.gap(t.id, "CPU", at[0], s.seconds); err != nil {
					return out, err
				}
				cpu, cpus, at[0], have[0] = cpu+s.cpu, cpus+1, s.seconds, true
			}
			if !math.IsNaN(s.mem) {
				if err := c.gap(t.id, "memory", at[1], s.seconds); err != nil {
					return out, err
				}
				mem, at[1], have[1] = max(mem, s.mem), s.seconds, true
			}
		}
		if cpus > 0 {
			seen.MilliCPU = int64(math.Round(cpu / float64(cpus)))
		}
		if mem >= 0 {
			seen.MemoryBytes = int64(math.Round(mem))
		}
		if !have[0] || !have[1] {
			continue // the demand for the other resource is not known, and not 0
		}
		if cpus == 0 && mem < 0 {
			c.report.Filled++
		}
		out.Usage = append(out.Usage, seen)
	}
	for r, what := range []string{"CPU", "memory"} {
		if !have[r] {
			return out, fmt.Errorf("%q has no sample of %s", t.id, what)
		}
		if err := c.gap(t.id, what, at[r], last); err != nil {
			return out, err
		}
	}
	return out, nil
}

// noteHoles records missing samples of a trace.
func (c *collector) noteHoles(t *trace) {
	var seconds []float64
	var lines []int
	for _, s := range t.samples {
		if n := len(seconds); n == 0 || s.seconds > seconds[n-1] { // CPU and memory may have separate samples
			seconds, lines = append(seconds, s.seconds), append(lines, s.line)
		}
	}
	holes, usual := dataset.Holes(seconds)
	if text := dataset.HolesText(strconv.Quote(t.id), holes, usual, func(i int) string {
		if c.name == "" {
			return fmt.Sprintf("time %v s", seconds[i])
		}
		return fmt.Sprintf("%s:%d", c.name, lines[i])
	}); text != "" {
		c.report.Holes = append(c.report.Holes, text)
	}
}

// gap rejects a gap that is too long to fill.
func (c *collector) gap(id, what string, from, to float64) error {
	if d := to - from; d > c.grid.MaxGap.Seconds() {
		return fmt.Errorf("%q has no sample of %s for %.0f s from time %.0f, want at most %.0f s between samples",
			id, what, d, from, c.grid.MaxGap.Seconds())
	}
	return nil
}
