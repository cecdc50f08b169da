package profile

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// A Filled is a profile whose missing points were filled in.
type Filled struct {
	*Profile `json:"-"`
	Measured int   `json:"measured"` // points of the file
	Missing  int   `json:"missing"`  // points that were filled in by the laws
	Laws     []Law `json:"fits"`     // of the tasks, fitted to the measured points
}

// Fill reads the profile file at path and fills in missing points by the law of their task, fitted to the points that
// exist. The grid has every size and every share of any task, and the given ones. With smooth, the law replaces every
// point. Each task needs at least three points, with two sizes and two shares. Errors name the file and the line, as
// those of [Parse] do.
func Fill(path string, sizes, shares []float64, smooth bool) (*Filled, error) {
	return dataset.ReadFile(path, func(name string, r io.Reader) (*Filled, error) {
		return FillFrom(name, r, sizes, shares, smooth)
	})
}

// FillFrom is Fill for a reader; name stands for it in errors.
func FillFrom(path string, r io.Reader, sizes, shares []float64, smooth bool) (*Filled, error) {
	g, err := readGrid(path, r)
	if err != nil {
		return nil, err
	}
	for _, v := range sizes {
		g.sizes = insertSorted(g.sizes, v)
	}
	for _, v := range shares {
		g.shares = insertSorted(g.shares, v)
	}
	if err := g.checkAxes(); err != nil {
		return nil, err
	}
	p := &Filled{Profile: &Profile{Tasks: g.tasks, Sizes: g.sizes, Shares: g.shares}, Measured: len(g.points)}
	if err := checkGrid(p.Profile); err != nil {
		return nil, err
	}
	for _, task := range g.tasks {
		law, err := g.law(task)
		if err != nil {
			return nil, fmt.Errorf("gang: %s: %w", path, err)
		}
		p.Laws = append(p.Laws, law)
		for _, size := range p.Sizes {
			for _, share := range p.Shares {
				d, ok := g.points[gridPoint{task, size, share}]
				if !ok {
					p.Missing++
				}
				if !ok || smooth {
					if d, err = law.at(size, share); err != nil {
						return nil, fmt.Errorf("gang: %s: %w", path, err)
					}
				}
				p.Durations = append(p.Durations, d)
			}
		}
	}
	return p, nil
}

// law fits the law of a task to its points.
func (g *grid) law(task string) (Law, error) {
	var points []Point
	for _, size := range g.sizes {
		for _, share := range g.shares {
			if d, ok := g.points[gridPoint{task, size, share}]; ok {
				points = append(points, Point{size, share, d})
			}
		}
	}
	return FitPoints(task, points)
}

// FitPoints fits the law of a task to measured points, at least three, with two sizes and two shares.
func FitPoints(task string, points []Point) (Law, error) {
	var sizes, shares []float64
	for _, p := range points {
		sizes, shares = insertSorted(sizes, p.Size), insertSorted(shares, p.MilliCPU)
	}
	if len(points) < 3 || len(sizes) < 2 || len(shares) < 2 {
		return Law{}, fmt.Errorf("task %s has %d points of %d sizes and %d shares, want at least 3 of 2 and 2 to fit its law", task, len(points), len(sizes), len(shares))
	}
	l := fitLaw(points, shares[1], shares[len(shares)-1])
	if math.IsInf(l.RMS, 1) {
		return Law{}, fmt.Errorf("task %s: its %d points determine no law, want sizes and shares that differ by more", task, len(points))
	}
	l.Task = task
	return l, nil
}

// at is Duration, or an error if a profile cannot hold the result: a point that takes no time or forever.
func (l Law) at(size, milliCPU float64) (float64, error) {
	d := l.Duration(size, milliCPU)
	if !(d > 0) || math.IsInf(d, 1) {
		return 0, fmt.Errorf("law of task %s gives %v s for size %v on %v millicores, want more than 0 and less than forever", l.Task, d, size, milliCPU)
	}
	return d, nil
}

// FromLaws returns the profile of tasks that follow their laws, on a grid of sizes and shares in millicores. An empty
// axis selects that of generated profiles.
func FromLaws(laws []Law, sizes, shares []float64) (*Profile, error) {
	p := emptyProfile()
	for _, axis := range []struct {
		given []float64
		to    *[]float64
	}{{sizes, &p.Sizes}, {shares, &p.Shares}} {
		if len(axis.given) > 0 {
			*axis.to = slices.Compact(slices.Sorted(slices.Values(axis.given)))
		}
	}
	if err := checkGrid(p); err != nil {
		return nil, err
	}
	if len(laws) == 0 {
		return nil, errors.New("gang: no laws, want one for each task")
	}
	for _, l := range laws {
		positive := l.A > 0 && l.CMax > 0
		finite := !math.IsInf(l.A+l.CMax, 0) && !math.IsNaN(l.SizeExp-l.SizeExp) && !math.IsNaN(l.ShareExp-l.ShareExp)
		switch {
		case l.Task == "" || slices.Contains(p.Tasks, l.Task):
			return nil, fmt.Errorf("gang: law of task %q, want a name that no other has", l.Task)
		case !positive || !finite:
			return nil, fmt.Errorf("gang: law of task %s with a %v, size_exp %v, share_exp %v and c_max %v, want a and c_max above 0 and finite exponents",
				l.Task, l.A, l.SizeExp, l.ShareExp, l.CMax)
		}
		p.Tasks = append(p.Tasks, l.Task)
		for _, size := range p.Sizes {
			for _, share := range p.Shares {
				d, err := l.at(size, share)
				if err != nil {
					return nil, fmt.Errorf("gang: %w", err)
				}
				p.Durations = append(p.Durations, d)
			}
		}
	}
	return p, nil
}

// checkGrid returns an error if a law cannot be evaluated on an axis.
func checkGrid(p *Profile) error {
	for _, axis := range []struct {
		name   string
		values []float64
		most   float64
	}{{"workload sizes", p.Sizes, math.MaxFloat64}, {"CPU shares", p.Shares, maxShare}} {
		if len(axis.values) < minKnots {
			return fmt.Errorf("gang: %d distinct %s, want at least %d for the cubic spline", len(axis.values), axis.name, minKnots)
		}
		for _, v := range axis.values {
			if !(v > 0) || math.IsInf(v, 1) {
				return fmt.Errorf("gang: %v among the %s, want numbers above 0, of which a power can be taken", v, axis.name)
			}
			if v > axis.most {
				return fmt.Errorf("gang: %v among the %s, want at most %d millicores", v, axis.name, maxShare)
			}
		}
	}
	return nil
}

// ReadLaws reads a JSON list of laws, with the keys of [Law]'s fields. The list may omit rms and worst, which describe
// a fit.
func ReadLaws(path string) ([]Law, error) {
	return dataset.ReadFile(path, func(name string, r io.Reader) (laws []Law, err error) {
		dec := json.NewDecoder(r)
		dec.DisallowUnknownFields()
		if err := dec.Decode(&laws); err != nil {
			return nil, fmt.Errorf("gang: %s: %w", name, err)
		}
		return laws, nil
	})
}

// Write writes p as [Parse] reads it, task by task, share by share.
func Write(w io.Writer, p *Profile) error {
	out := csv.NewWriter(w)
	if err := out.Write(profileColumns); err != nil {
		return err
	}
	text := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	for k, task := range p.Tasks {
		for j, share := range p.Shares {
			for i, size := range p.Sizes {
				if err := out.Write([]string{task, text(size), text(share), text(p.Duration(k, i, j))}); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// WriteModel writes the durations of a model, at each size of its profile and each of its Shares, and beside them those
// of the profile itself if it has that share.
func WriteModel(w io.Writer, m *Model) error {
	rows := [][]string{{"task", "size", "share_m", "duration_s", "profile_s"}}
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	p := m.profile
	for k, task := range p.Tasks {
		for i, size := range p.Sizes {
			for _, share := range m.Shares() {
				point := ""
				if j, ok := slices.BinarySearch(p.Shares, float64(share)); ok {
					point = text(p.Duration(k, i, j))
				}
				rows = append(rows, []string{task, text(size), strconv.Itoa(share), text(m.Duration(k, size, float64(share))), point})
			}
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}
