package recommender

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

const mebi = 1 << 20

// A Scenario is a computed usage trace: one sample of each resource every Step from Start.
type Scenario struct {
	Name   string
	Start  time.Duration // since the Unix epoch
	Step   time.Duration
	Points []int         // ascending numbers of samples with a recommendation to record
	OOMs   map[int]int64 // memory request at an OOM kill, by index of the sample before it

	trace func() func(i int) (milli, bytes int64) // a new trace, called for its samples in order
}

// Scenarios returns the eight traces of the golden recommendations: idle, alternating, with a step up or down,
// pseudo-random, with an OOM kill, and of 130 days, after which weights are scaled down.
func Scenarios() []Scenario {
	lowHigh := func() func(int) (int64, int64) {
		return func(i int) (int64, int64) {
			if i%2 == 0 {
				return 500, 2500 * mebi
			}
			return 1000, 5000 * mebi
		}
	}
	step := func(at int, milli0, bytes0, milli1, bytes1 int64) func() func(int) (int64, int64) {
		return func() func(int) (int64, int64) {
			return func(i int) (int64, int64) {
				if i < at {
					return milli0, bytes0
				}
				return milli1, bytes1
			}
		}
	}
	every := func(n, last int) (points []int) {
		for i := n; i <= last; i += n {
			points = append(points, i)
		}
		return points
	}
	scenarios := []Scenario{
		{Name: "lowhigh", trace: lowHigh, Points: []int{1, 2, 5, 10, 31, 61, 721, 1441, 2881, 4320}},
		{Name: "lowhigh_5min", Step: 5 * time.Minute, trace: lowHigh, Points: []int{2, 13, 289, 577, 1440}},
		{Name: "idle", trace: step(0, 0, 0, 1, mebi), Points: []int{1, 2, 1441}},
		{Name: "stepup", trace: step(4320, 200, 1000*mebi, 800, 3000*mebi),
			Points: []int{4320, 4321, 4400, 4510, 4511, 4512, 4513, 4514, 4515, 4600, 5000, 5600, 5700, 5760, 7200}},
		{Name: "stepdown", trace: step(4320, 800, 3000*mebi, 200, 1000*mebi),
			Points: []int{4320, 4321, 5760, 5761, 7200, 7201, 8640, 8641, 8855, 8860, 8900, 10080, 10081, 12960}},
		{Name: "lcg", trace: pseudoRandom, Points: every(360, 4320)},
		{Name: "oom", trace: lowHigh, OOMs: map[int]int64{600: 5000 * mebi}, Points: []int{600, 601, 602, 1440, 1441, 3000}},
		{Name: "long", trace: step(43200, 700, 900*mebi, 90, 400*mebi), Points: []int{43200, 86400, 142560, 145440, 187200}},
	}
	for i := range scenarios {
		s := &scenarios[i]
		s.Start = 1704067200 * time.Second // 2024-01-01
		s.Step = cmp.Or(s.Step, time.Minute)
	}
	return scenarios
}

// pseudoRandom draws from the linear congruential generator of ISO C's example of rand.
func pseudoRandom() func(int) (int64, int64) {
	x := int64(42)
	draw := func() int64 {
		x = (1103515245*x + 12345) % (1 << 31)
		return x >> 8
	}
	return func(int) (int64, int64) {
		milli := 50 + draw()%2000
		return milli, (200 + draw()%1800) * mebi
	}
}

// A Row is the recommendation after a number of samples of a scenario.
type Row struct {
	Scenario string `json:"scenario"`
	Samples  int    `json:"samples"`
	Bounds
	Expected *Bounds `json:"expected,omitempty"` // known golden values
}

// Equal reports whether the row has the expected values; without them, it is true.
func (r *Row) Equal() bool { return r.Expected == nil || *r.Expected == r.Bounds }

// Run runs the scenario and calls row after each of its points.
func (s *Scenario) Run(r *Recommender, row func(Row)) {
	state := r.NewState(s.Start)
	var c Container
	var rec Recommendation
	trace := s.trace()
	for i := range s.Points[len(s.Points)-1] {
		t := s.Start + time.Duration(i)*s.Step
		milli, bytes := trace(i)
		c.AddCPU(state, t, milli)
		c.AddMemory(state, t, bytes)
		if request, ok := s.OOMs[i]; ok {
			c.RecordOOM(state, t, request) // never too old, since it is at the last sample
		}
		if slices.Contains(s.Points, i+1) {
			state.Recommend(&rec)
			row(Row{Scenario: s.Name, Samples: i + 1, Bounds: rec.Bounds})
		}
	}
}

// Reproduce runs every scenario with the default configuration. If golden is not nil, Reproduce reads the expected
// values from it, in the format of golden_recommender.json. It returns an error if golden is malformed or its rows are
// not those of the scenarios.
func Reproduce(golden io.Reader) ([]Row, error) {
	r, err := New(DefaultConfig())
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, s := range Scenarios() {
		s.Run(r, func(row Row) { rows = append(rows, row) })
	}
	if golden == nil {
		return rows, nil
	}
	var file struct {
		Scenarios []struct {
			Name string
			Rows []struct {
				Samples int
				Bounds
			}
		}
	}
	if err := json.NewDecoder(golden).Decode(&file); err != nil {
		return nil, fmt.Errorf("golden recommendations: %w", err)
	}
	n := 0
	for _, s := range file.Scenarios {
		for _, want := range s.Rows {
			i := slices.IndexFunc(rows, func(r Row) bool { return r.Scenario == s.Name && r.Samples == want.Samples })
			if i < 0 {
				return nil, fmt.Errorf("golden recommendations: no scenario %q with a point at %d samples", s.Name, want.Samples)
			}
			rows[i].Expected = &want.Bounds
			n++
		}
	}
	if n != len(rows) {
		return nil, fmt.Errorf("golden recommendations: %d rows, want %d", n, len(rows))
	}
	return rows, nil
}
