package profile

import (
	"fmt"
	"math"
	"sync"
	"unsafe"
)

// ModelConfig sets how to divide CPU shares among the tasks of a job.
type ModelConfig struct {
	StartMilliCPU     int     // shares of every task before allocation, ≥ 1; default 1000
	IncrementMilliCPU int     // step of the allocation, ≥ 1; default 100
	TotalMilliCPU     int     // shares of the whole job, which every configuration spends; default 24000
	StaticMaxMilliCPU int     // cap of one task's shares in Model.Static only; default 8000
	StaticSize        float64 // workload size that Model.Static assumes; default 30
	Discount          float64 // weight of a gain one superstep later, in (0, 1]; default 0.95
}

// DefaultModelConfig returns the constants of Kube_Gang_Scheduling (E. Wang, 2021).
func DefaultModelConfig() ModelConfig {
	return ModelConfig{
		StartMilliCPU:     1000,
		IncrementMilliCPU: 100,
		TotalMilliCPU:     24000,
		StaticMaxMilliCPU: 8000,
		StaticSize:        30,
		Discount:          0.95,
	}
}

// MaxIncrements keeps levels within uint16 with room for the next one.
const MaxIncrements = math.MaxUint16 - 2

// Model predicts the durations of tasks. Shares are counted in levels: level l stands for StartMilliCPU +
// l·IncrementMilliCPU. A Model is immutable and safe for concurrent use.
type Model struct {
	cfg        ModelConfig
	profile    *Profile
	surfaces   []*surface
	increments int
	levels     int     // levels in table; higher ones have the last one's durations
	table      []cubic // of shape (task, size interval, level)

	columnsOnce sync.Once
	columns     *Columns // the same for vector code, made on first use
}

// NewModel fits the splines of a profile and tabulates them at every level that the
// budget can reach.
func NewModel(p *Profile, cfg ModelConfig) (*Model, error) {
	if err := cfg.validate(len(p.Tasks)); err != nil {
		return nil, err
	}
	m := &Model{cfg: cfg, profile: p}
	m.increments = (cfg.TotalMilliCPU - len(p.Tasks)*cfg.StartMilliCPU) / cfg.IncrementMilliCPU
	// One level beyond the budget, since the allocator looks one ahead; none beyond the
	// first at the grid's edge, since the spline is clamped there.
	edge := p.Shares[len(p.Shares)-1]
	for m.levels < m.increments+2 {
		m.levels++
		if float64(m.MilliCPU(m.levels-1)) >= edge {
			break
		}
	}
	m.fill()
	return m, nil
}

func (c ModelConfig) validate(tasks int) error {
	spare := c.TotalMilliCPU - tasks*c.StartMilliCPU
	switch {
	case c.StartMilliCPU < 1:
		return fmt.Errorf("gang: StartMilliCPU %d, want at least 1", c.StartMilliCPU)
	case c.IncrementMilliCPU < 1:
		return fmt.Errorf("gang: IncrementMilliCPU %d, want at least 1", c.IncrementMilliCPU)
	case spare < 0 || spare%c.IncrementMilliCPU != 0:
		return fmt.Errorf("gang: TotalMilliCPU %d, want %d tasks of %d and a multiple of %d more",
			c.TotalMilliCPU, tasks, c.StartMilliCPU, c.IncrementMilliCPU)
	case spare/c.IncrementMilliCPU > MaxIncrements:
		return fmt.Errorf("gang: TotalMilliCPU %d is %d increments of %d, want at most %d",
			c.TotalMilliCPU, spare/c.IncrementMilliCPU, c.IncrementMilliCPU, MaxIncrements)
	case c.StaticMaxMilliCPU < c.StartMilliCPU:
		return fmt.Errorf("gang: StaticMaxMilliCPU %d, want at least StartMilliCPU %d", c.StaticMaxMilliCPU, c.StartMilliCPU)
	case math.IsNaN(c.StaticSize) || math.IsInf(c.StaticSize, 0):
		return fmt.Errorf("gang: StaticSize %v, want a finite size", c.StaticSize)
	case !(c.Discount > 0 && c.Discount <= 1):
		return fmt.Errorf("gang: Discount %v not in (0, 1]", c.Discount)
	}
	return nil
}

func (m *Model) fill() {
	intervals := len(m.profile.Sizes) - 1
	m.table = make([]cubic, len(m.profile.Tasks)*intervals*m.levels)
	column := make([]cubic, intervals)
	for k := range m.profile.Tasks {
		s := newSurface(m.profile, k)
		m.surfaces = append(m.surfaces, s)
		for l := range m.levels {
			s.atShares(column, float64(m.MilliCPU(l)))
			for i, c := range column {
				m.table[(k*intervals+i)*m.levels+l] = c
			}
		}
	}
}

// Config returns the configuration that the model was made with.
func (m *Model) Config() ModelConfig { return m.cfg }

// Profile returns the profile that the model was fitted to; it must not be changed.
func (m *Model) Profile() *Profile { return m.profile }

// NumTasks returns the number of tasks.
func (m *Model) NumTasks() int { return len(m.profile.Tasks) }

// Increments returns the number of increments that a configuration divides: the sum of the levels of its tasks.
func (m *Model) Increments() int { return m.increments }

// Levels returns the number of levels with different durations; higher levels have those of the last one.
func (m *Model) Levels() int { return m.levels }

// MilliCPU returns the shares that a level stands for.
func (m *Model) MilliCPU(level int) int {
	return m.cfg.StartMilliCPU + level*m.cfg.IncrementMilliCPU
}

// Shares returns the shares in millicores that a plan can give to a task, up to the first at or beyond the edge of the
// profile.
func (m *Model) Shares() []int {
	var shares []int
	for l := 0; l <= m.increments; l++ {
		shares = append(shares, m.MilliCPU(l))
		if float64(shares[l]) >= m.profile.Shares[len(m.profile.Shares)-1] {
			break
		}
	}
	return shares
}

// Duration returns the seconds that a task needs for a workload size on any number of
// millicores: the clamped not-a-knot bicubic spline through the profile.
func (m *Model) Duration(task int, size, milliCPU float64) float64 {
	return m.surfaces[task].at(size, milliCPU)
}

// DurationAt is Duration at a level, looked up in the table.
func (m *Model) DurationAt(task int, size float64, level int) float64 {
	c := m.Curve(task, size)
	return c.At(level)
}

// Superstep returns the duration of a superstep, that of its slowest task, and the index of that task, the first of
// equally slow ones. Sizes and levels have one entry per task.
func (m *Model) Superstep(sizes []float64, levels []uint16) (duration float64, bottleneck int) {
	for k, l := range levels {
		if d := m.DurationAt(k, sizes[k], int(l)); d > duration || k == 0 {
			duration, bottleneck = d, k
		}
	}
	return duration, bottleneck
}

// Supersteps writes to dst the durations of successive supersteps under levels, each of which is that of Superstep.
// sizes is row-major of shape (len(dst), tasks).
func (m *Model) Supersteps(dst, sizes []float64, levels []uint16) {
	knots, n := m.profile.Sizes, len(levels)
	last := len(knots) - 1
	low, high := knots[0], knots[last]
	scale := float64(last) / (high - low)
	clear(dst)
	for k, l := range levels {
		// Of task k at its level; that of the next interval is m.levels further.
		cubics := m.table[k*last*m.levels+min(int(l), m.levels-1):]
		for h := range dst {
			v, i, u := sizes[h*n+k], 0, 0.0
			if v >= high {
				i, u = last-1, high-knots[last-1]
			} else if v > low {
				i = min(int((v-low)*scale), last-1) // as locate does, and with the same result
				if v < knots[i] || v >= knots[i+1] {
					i = search(knots, v)
				}
				u = v - knots[i]
			}
			if d := cubics[i*m.levels].at(u); d > dst[h] || k == 0 {
				dst[h] = d
			}
		}
	}
}

// Curve is the duration of one task at one workload size as a function of its level.
type Curve struct {
	cubics []cubic // by level
	u      float64 // distance of the size from the left knot of its interval
}

// Bytes estimates the memory of the model's table and of [Model.Columns].
func (m *Model) Bytes() int64 { return 2 * int64(len(m.table)) * int64(unsafe.Sizeof(cubic{})) }

// Curve prepares evaluations at one workload size.
func (m *Model) Curve(task int, size float64) Curve {
	sizes := m.profile.Sizes
	i, u := locate(sizes, size)
	first := (task*(len(sizes)-1) + i) * m.levels
	return Curve{m.table[first : first+m.levels], u}
}

// At returns the duration in seconds at a level ≥ 0.
func (c *Curve) At(level int) float64 {
	return c.cubics[min(level, len(c.cubics)-1)].at(c.u)
}

// MaxDuration returns the longest duration that the model gives for any task, workload size
// and level.
func (m *Model) MaxDuration() float64 {
	longest := 0.0
	intervals := len(m.profile.Sizes) - 1
	for i := range m.table {
		k := i / m.levels % intervals
		longest = max(longest, m.table[i].max(m.profile.Sizes[k+1]-m.profile.Sizes[k]))
	}
	return longest
}

// max returns the largest value of the polynomial on [0, h]: at an end, or where the
// derivative c1 + 2·c2·u + 3·c3·u² is 0.
func (c *cubic) max(h float64) float64 {
	highest := max(c.at(0), c.at(h))
	a, b := 3*c[3], 2*c[2]
	roots := [2]float64{math.NaN(), math.NaN()}
	if a == 0 {
		roots[0] = -c[1] / b
	} else {
		d := math.Sqrt(b*b - 4*a*c[1]) // NaN without extremes
		roots[0], roots[1] = (-b-d)/(2*a), (-b+d)/(2*a)
	}
	for _, u := range roots {
		if u > 0 && u < h {
			highest = max(highest, c.at(u))
		}
	}
	return highest
}

// Static writes to levels the configuration that is best for a workload of size StaticSize in every task: each
// increment goes to the slowest task below StaticMaxMilliCPU, the first of equally slow ones. Increments remain if
// every task is at the cap.
//
// Source: Y. Barve et al., "EXPPO: EXecution Performance Profiling and Optimization for
// CPS Co-simulation-as-a-Service", IEEE ISORC 2020, pages 184 to 191.
func (m *Model) Static(levels []uint16) {
	clear(levels)
	for range m.increments {
		slowest, d := -1, math.Inf(-1)
		for k, l := range levels {
			if m.MilliCPU(int(l)) >= m.cfg.StaticMaxMilliCPU {
				continue
			}
			if v := m.DurationAt(k, m.cfg.StaticSize, int(l)); v > d {
				slowest, d = k, v
			}
		}
		if slowest < 0 {
			return
		}
		levels[slowest]++
	}
}

// Equal writes to levels the configuration that divides the budget evenly; the first tasks get the remaining
// increments.
func (m *Model) Equal(levels []uint16) {
	each, rest := m.increments/len(levels), m.increments%len(levels)
	for k := range levels {
		levels[k] = uint16(each)
		if k < rest {
			levels[k]++
		}
	}
}
