package recommender

import (
	"errors"
	"math"
	"time"
)

// A Recommender computes recommendations with one configuration. It does not change and may be
// shared by any number of states and goroutines.
type Recommender struct {
	config      Config
	cpu, memory estimator
}

// New returns a recommender, or an error if a field of the configuration is out of range.
func New(config Config) (*Recommender, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	r := &Recommender{config: config}
	share := 1 / float64(config.Containers)
	r.cpu = newEstimator(0.01, 1000, config.MarginFraction, config.CPU) // buckets in cores
	r.cpu.min = amount(float64(amount(config.MinCPUMillicores*0.001*1000)) * share)
	r.cpu.round = config.RoundCPUMillicores
	r.memory = newEstimator(1e7, 1, config.MarginFraction, config.Memory)
	r.memory.min = amount(float64(amount(config.MinMemoryMB*1024*1024)) * share)
	r.memory.round = config.RoundMemoryBytes
	return r, nil
}

// Config returns the configuration.
func (r *Recommender) Config() Config { return r.config }

// A State holds the history of a container's usage in all pods of a controller: upstream's
// AggregateContainerState. [Recommender.NewState] makes it; assignment copies it with its history.
// It is not safe for concurrent use.
type State struct {
	r           *Recommender
	cpu, memory histogram
	first, last time.Duration // instants of CPU samples
	samples     int           // CPU samples
	created     time.Duration

	memoryKnown  bool // memoryBounds are those of memory
	memoryBounds [3]int64
}

// NewState returns an empty state; the instant of its creation matters only to [State.Expired].
func (r *Recommender) NewState(created time.Duration) *State {
	s := new(State)
	s.Reset(r, created)
	return s
}

// Reset empties s and sets its recommender.
func (s *State) Reset(r *Recommender, created time.Duration) {
	s.r = r
	s.cpu.reset(&r.cpu.axis)
	s.memory.reset(&r.memory.axis)
	s.first, s.last, s.samples = never, never, 0
	s.created = created
	s.memoryKnown = false
}

// Samples returns the number of CPU samples.
func (s *State) Samples() int { return s.samples }

// Expired reports whether the recommender would drop the state at an instant: 8 memory intervals after its last CPU
// sample, or after its creation if it has none.
func (s *State) Expired(now time.Duration) bool {
	from := s.last
	if s.samples == 0 {
		from = s.created
	}
	return sub(now, from) >= s.r.config.MemoryInterval*time.Duration(s.r.config.MemoryIntervalCount)
}

// Merge adds the history of o, such as that of pods with other labels or of a checkpoint. Its
// recommender must have the same half-lives. As upstream does, Merge may move the reference of o's
// weights.
func (s *State) Merge(o *State) {
	s.cpu.merge(&o.cpu)
	s.memory.merge(&o.memory)
	s.memoryKnown, o.memoryKnown = false, false
	if s.first == never || o.first != never && o.first < s.first {
		s.first = o.first
	}
	s.last = max(s.last, o.last)
	s.samples += o.samples
}

// A Container holds the recommender's state of one container of one pod beside its usage history: upstream's
// ContainerState. Its zero value is a new container.
type Container struct {
	lastCPU, lastMemory time.Duration
	hasCPU, hasMemory   bool
	windowEnd           time.Duration // of the ongoing memory interval
	memoryPeak, oomPeak int64         // of the ongoing memory interval
}

// AddCPU adds a CPU usage in millicores to s. It returns false and adds nothing if the usage is
// negative, t out of range, or not after the last sample.
func (c *Container) AddCPU(s *State, t time.Duration, milli int64) bool {
	if milli < 0 || !valid(t) || c.hasCPU && t <= c.lastCPU {
		return false
	}
	s.cpu.add(float64(milli)/1000, minSampleWeight, t)
	s.last = max(s.last, t)
	if s.first == never || t < s.first {
		s.first = t
	}
	s.samples++
	c.lastCPU, c.hasCPU = t, true
	return true
}

// AddMemory adds a memory usage in bytes to s. It returns false and adds nothing if the usage
// is negative, t out of range, or before the last sample.
func (c *Container) AddMemory(s *State, t time.Duration, bytes int64) bool {
	if c.hasMemory && t < c.lastMemory {
		return false
	}
	return c.addMemory(s, t, bytes, &c.memoryPeak)
}

// Errors of [Container.RecordOOM].
var (
	ErrOldOOM     = errors.New("recommender: OOM kill more than a memory interval before the last memory sample")
	ErrInvalidOOM = errors.New("recommender: instant of an OOM kill or memory request out of range")
)

// RecordOOM records an OOM kill at t of the container, whose memory request was request bytes (0: none). It returns
// [ErrOldOOM] or [ErrInvalidOOM] and records nothing if the kill is too old, or t or the request out of range.
func (c *Container) RecordOOM(s *State, t time.Duration, request int64) error {
	config := &s.r.config
	if !valid(t) || request > math.MaxInt64/2 {
		return ErrInvalidOOM
	}
	if c.hasMemory && t < c.lastMemory-config.MemoryInterval {
		return ErrOldOOM
	}
	used := max(request, c.memoryPeak) // without oomPeak, so that repeated kills do not escalate
	needed := max(used+amount(config.OOMMinBumpUpBytes), amount(float64(used)*config.OOMBumpUpRatio))
	if !c.addMemory(s, t, needed, &c.oomPeak) {
		return ErrInvalidOOM
	}
	return nil
}

// addMemory adds a usage if it is the first or the largest of its interval; peak points to the
// interval's peak of this kind.
func (c *Container) addMemory(s *State, t time.Duration, bytes int64, peak *int64) bool {
	if bytes < 0 || !valid(t) {
		return false
	}
	c.lastMemory = t
	if !c.hasMemory {
		c.windowEnd, c.hasMemory = t, true
	}
	if t >= c.windowEnd {
		interval := s.r.config.MemoryInterval
		c.windowEnd += (t-c.windowEnd)/interval*interval + interval
		c.memoryPeak, c.oomPeak = 0, 0
	} else {
		// Upstream never replaces a peak of 0.
		old := max(c.memoryPeak, c.oomPeak)
		if old == 0 || bytes <= old {
			return true
		}
		s.memory.subtract(float64(old), 1, c.windowEnd)
	}
	s.memory.add(float64(bytes), 1, c.windowEnd)
	s.memoryKnown = false
	*peak = bytes
	return true
}

// amount truncates x to an amount from 0 to [MaxAmount]. NaN becomes 0: upstream converts it to a number that its
// minimum then replaces.
func amount(x float64) int64 {
	switch {
	case x > float64(MaxAmount):
		return MaxAmount
	case !(x > 0):
		return 0
	}
	return int64(x)
}
