package bsp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// Limits of a measured profile.
const (
	maxRepeats = 100
	maxSize    = 1e6
)

// defaultNoise is the standard deviation assumed for the logarithm of a measurement until a point has been
// measured twice.
const defaultNoise = 0.05

// ProfileConfig holds the arguments of [MeasureProfile].
type ProfileConfig struct {
	Executor  Executor
	Works     []Work
	Sizes     []float64     // workload sizes of the grid
	Shares    []float64     // of the grid, whole millicores
	Repeats   int           // maximum number of measurements of a point, 1 to 100
	Budget    time.Duration // no measurement starts after it; 0 measures all
	Limit     time.Duration // time limit of one measurement
	StateFile string
	Done      func(ProfileProgress) // called after each measurement, unless nil
}

// ProfileProgress reports a measurement.
type ProfileProgress struct {
	Measurement
	Measured, Of int           // measurements so far; measurements in total
	Error        float64       // expected standard deviation of the logarithms of the fit, by [profile.Design]
	Left         time.Duration // expected time of the remaining measurements, within the budget
}

// Measured is the result of [MeasureProfile].
type Measured struct {
	Setting string          `json:"setting"`
	Resumed int             `json:"resumed"` // measurements that the state file already had
	Now     int             `json:"now"`     // measurements of this call
	Of      int             `json:"of"`      // measurements of the whole grid
	Tasks   []MeasuredTask  `json:"tasks"`
	Points  []MeasuredPoint `json:"points"` // in the order of tasks, sizes and shares
}

// MeasuredTask sums up the measurements of a task.
type MeasuredTask struct {
	Task    string  `json:"task"`
	Work    string  `json:"work"`
	Points  int     `json:"points"`
	Noise   float64 `json:"noise"` // standard deviation of log D between repeats of a point, pooled over all points; 0 without repeats
	Repeats int     `json:"repeats"`
	Error   float64 `json:"error"` // expected standard deviation of log D of the fit over the grid
}

// MeasuredPoint sums up the measurements of a point.
type MeasuredPoint struct {
	Task     string  `json:"task"`
	Size     float64 `json:"size"`
	MilliCPU float64 `json:"milli_cpu"`
	Tries    int     `json:"tries"`
	Mean     float64 `json:"mean_s"`
	SD       float64 `json:"sd_s"` // 0 after a single measurement
}

// MeasureProfile measures how long each work takes alone, by workload size and share. It always measures the
// point next that most reduces the error of the laws fitted to all measurements. It writes every measurement to
// the state file at once, so that an interrupted call resumes.
func MeasureProfile(ctx context.Context, c ProfileConfig) (*Measured, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	s, err := openProfileState(c.StateFile, c.Executor.Setting(), c.Works)
	if err != nil {
		return nil, err
	}
	m := newMeasuring(c, s)
	begin, resumed := time.Now(), len(s.Measurements)
	for c.Budget == 0 || time.Since(begin) < c.Budget {
		k, point := m.next()
		if k < 0 {
			break
		}
		x, err := m.measure(ctx, k, point)
		if err != nil {
			return nil, err
		}
		s.Measurements = append(s.Measurements, x)
		if err := s.write(c.StateFile); err != nil {
			return nil, err
		}
		m.add(x)
		if c.Done != nil {
			left := m.remaining()
			if c.Budget > 0 {
				left = max(0, min(left, c.Budget-time.Since(begin)))
			}
			c.Done(ProfileProgress{x, m.measured, m.total(), m.error(), left})
		}
	}
	return m.result(resumed), nil
}

func (c *ProfileConfig) check() error {
	if c.Executor == nil || c.StateFile == "" || len(c.Works) == 0 {
		return errors.New("bsp: want an executor, a state file and at least one workload")
	}
	if c.Repeats < 1 || c.Repeats > maxRepeats {
		return fmt.Errorf("bsp: %d repeats, want 1 to %d", c.Repeats, maxRepeats)
	}
	if c.Budget < 0 || c.Limit <= 0 {
		return fmt.Errorf("bsp: a budget of %v and a limit of %v for a measurement, want at least 0 and more than 0", c.Budget, c.Limit)
	}
	if len(c.Sizes) == 0 || len(c.Shares) == 0 || len(c.Sizes)*len(c.Shares) > profile.MaxDesign {
		return fmt.Errorf("bsp: %d sizes and %d shares, want at least one of each and at most %d points", len(c.Sizes), len(c.Shares), profile.MaxDesign)
	}
	c.Sizes, c.Shares = sorted(c.Sizes), sorted(c.Shares)
	for _, size := range c.Sizes {
		if !(size > 0 && size <= maxSize) {
			return fmt.Errorf("bsp: a size of %v, want more than 0 and up to %g", size, float64(maxSize))
		}
		for _, w := range c.Works {
			if _, err := w.Count(size); err != nil {
				return err
			}
		}
	}
	most := c.Executor.MaxMilliCPU()
	for _, share := range c.Shares {
		if !(share >= MinMilliCPU && share <= float64(most)) || share != math.Trunc(share) {
			return fmt.Errorf("bsp: a share of %v millicores, want whole ones from %d to the %d that there are", share, MinMilliCPU, most)
		}
	}
	return nil
}

func sorted(values []float64) []float64 { return slices.Compact(slices.Sorted(slices.Values(values))) }

// measuring is the state of a call of MeasureProfile.
type measuring struct {
	ProfileConfig
	designs  []*profile.Design
	tries    [][][]float64 // seconds, of shape (task, point, try)
	measured int
	overhead time.Duration // of this call's measurements, beside their seconds
	now      int
}

func newMeasuring(c ProfileConfig, s *profileState) *measuring {
	m := &measuring{ProfileConfig: c, tries: make([][][]float64, len(c.Works))}
	noise := defaultNoise
	for k := range m.tries {
		m.tries[k] = make([][]float64, len(c.Sizes)*len(c.Shares))
	}
	for _, x := range s.Measurements {
		if k, i := m.place(x); k >= 0 {
			m.tries[k][i] = append(m.tries[k][i], x.Seconds)
		}
	}
	if v, n := variance(slices.Concat(m.tries...)); n >= 3 && v > 0 {
		noise = math.Sqrt(v)
	}
	for k := range c.Works {
		d := profile.NewDesign(c.Sizes, c.Shares, noise)
		for i, tries := range m.tries[k] {
			for range tries {
				d.Measured(i)
				m.measured++
			}
		}
		m.designs = append(m.designs, d)
	}
	return m
}

// variance returns the variance of the logarithms between repeats of points, and its degrees of freedom.
func variance(points [][]float64) (v float64, freedom int) {
	sum := 0.0
	for _, tries := range points {
		mean := 0.0
		for _, s := range tries {
			mean += math.Log(s) / float64(len(tries))
		}
		for _, s := range tries {
			sum += (math.Log(s) - mean) * (math.Log(s) - mean)
		}
		freedom += max(len(tries)-1, 0)
	}
	if freedom == 0 {
		return 0, 0
	}
	return sum / float64(freedom), freedom
}

// place returns the task and the point of a measurement; the task is −1 if the measurement is not on the grid.
func (m *measuring) place(x Measurement) (task, point int) {
	k := slices.IndexFunc(m.Works, func(w Work) bool { return w.Task == x.Task })
	i, okSize := slices.BinarySearch(m.Sizes, x.Size)
	j, okShare := slices.BinarySearch(m.Shares, x.MilliCPU)
	if k < 0 || !okSize || !okShare {
		return -1, 0
	}
	return k, i*len(m.Shares) + j
}

func (m *measuring) at(point int) (size, share float64) {
	return m.Sizes[point/len(m.Shares)], m.Shares[point%len(m.Shares)]
}

func (m *measuring) total() int { return len(m.Works) * len(m.Sizes) * len(m.Shares) * m.Repeats }

// next returns the point whose measurement reduces the error most, the first of equal ones; the task is −1 if
// all are measured.
func (m *measuring) next() (task, point int) {
	task, most := -1, 0.0
	for k, d := range m.designs {
		for i, tries := range m.tries[k] {
			if len(tries) >= m.Repeats {
				continue
			}
			if gain := d.Gain(i); task < 0 || gain > most {
				task, point, most = k, i, gain
			}
		}
	}
	return task, point
}

// measure runs one work alone.
func (m *measuring) measure(ctx context.Context, k, point int) (x Measurement, err error) {
	size, share := m.at(point)
	w := m.Works[k]
	begin := time.Now()
	crew, err := m.Executor.Start(ctx, Job{Works: []Work{w}, MilliCPU: []int64{int64(share)}, Method: Resize, Limit: m.Limit})
	if err != nil {
		return x, fmt.Errorf("measure %s of size %v on %v millicores: %w", w.Task, size, share, err)
	}
	d, err := crew.Superstep(ctx, []float64{size})
	if err = errors.Join(err, crew.Close()); err != nil {
		return x, fmt.Errorf("measure %s of size %v on %v millicores: %w", w.Task, size, share, err)
	}
	m.overhead += max(0, time.Since(begin)-d[0])
	m.now++
	return Measurement{w.Task, w.String(), size, share, d[0].Seconds()}, nil
}

// add records a measurement.
func (m *measuring) add(x Measurement) {
	k, i := m.place(x)
	m.tries[k][i] = append(m.tries[k][i], x.Seconds)
	m.designs[k].Measured(i)
	m.measured++
}

// error returns the expected error of all tasks' fits together.
func (m *measuring) error() float64 {
	sum := 0.0
	for _, d := range m.designs {
		sum += d.Error() * d.Error()
	}
	return math.Sqrt(sum / float64(len(m.designs)))
}

// remaining predicts the time of the remaining measurements from each task's law, or else from the mean of all
// measurements.
func (m *measuring) remaining() time.Duration {
	var mean, seconds float64
	for _, points := range m.tries {
		for _, tries := range points {
			for _, s := range tries {
				mean += s / float64(m.measured)
			}
		}
	}
	for k, points := range m.tries {
		law, err := profile.FitPoints(m.Works[k].Task, m.means(k))
		for i, tries := range points {
			expected := mean
			if err == nil {
				expected = law.Duration(m.at(i))
			}
			seconds += float64(m.Repeats-len(tries)) * expected
		}
	}
	missing := time.Duration(m.total() - m.measured)
	return time.Duration(seconds*float64(time.Second)) + missing*(m.overhead/time.Duration(m.now))
}

// means returns the mean at each measured point of a task.
func (m *measuring) means(k int) (points []profile.Point) {
	for i, tries := range m.tries[k] {
		if len(tries) > 0 {
			size, share := m.at(i)
			points = append(points, profile.Point{Size: size, MilliCPU: share, Seconds: meanOf(tries)})
		}
	}
	return points
}

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func (m *measuring) result(resumed int) *Measured {
	r := &Measured{Setting: m.Executor.Setting(), Resumed: resumed, Now: m.now, Of: m.total(), Points: []MeasuredPoint{}}
	for k, w := range m.Works {
		v, freedom := variance(m.tries[k])
		t := MeasuredTask{Task: w.Task, Work: w.String(), Noise: math.Sqrt(v), Repeats: freedom, Error: m.designs[k].Error()}
		for i, tries := range m.tries[k] {
			if len(tries) == 0 {
				continue
			}
			t.Points++
			size, share := m.at(i)
			p := MeasuredPoint{Task: w.Task, Size: size, MilliCPU: share, Tries: len(tries), Mean: meanOf(tries)}
			for _, s := range tries {
				p.SD += (s - p.Mean) * (s - p.Mean) / float64(max(len(tries)-1, 1))
			}
			p.SD = math.Sqrt(p.SD)
			r.Points = append(r.Points, p)
		}
		r.Tasks = append(r.Tasks, t)
	}
	return r
}
