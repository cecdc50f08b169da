package recommender

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// CheckpointVersion is the format of checkpoints.
const CheckpointVersion = "v3"

const maxCheckpointWeight = 10000

// ErrCheckpoint means that a checkpoint is invalid. Errors of [State.Load] wrap it.
var ErrCheckpoint = errors.New("recommender: invalid checkpoint")

// A Checkpoint is the state of a VerticalPodAutoscalerCheckpoint, in upstream's format v3. As
// JSON it has the form that a cluster stores; a cluster drops fractions of seconds.
type Checkpoint struct {
	LastUpdateTime    time.Time           `json:"lastUpdateTime,omitzero"`
	Version           string              `json:"version,omitempty"`
	CPUHistogram      HistogramCheckpoint `json:"cpuHistogram"`
	MemoryHistogram   HistogramCheckpoint `json:"memoryHistogram"`
	FirstSampleStart  time.Time           `json:"firstSampleStart,omitzero"`
	LastSampleStart   time.Time           `json:"lastSampleStart,omitzero"`
	TotalSamplesCount int                 `json:"totalSamplesCount,omitempty"`
}

// A HistogramCheckpoint is a stored histogram.
type HistogramCheckpoint struct {
	ReferenceTimestamp time.Time      `json:"referenceTimestamp,omitzero"`
	BucketWeights      map[int]uint32 `json:"bucketWeights,omitempty"` // relative: 10000 for the heaviest; without empty ones
	TotalWeight        float64        `json:"totalWeight,omitempty"`
}

// Save returns a checkpoint of s at an instant, without the peaks of the ongoing memory intervals of the containers
// that fed it: after a restart these intervals start again.
func (s *State) Save(now time.Duration, containers ...*Container) *Checkpoint {
	saved := s.r.NewState(s.created)
	saved.Merge(s)
	for _, c := range containers {
		if c.hasMemory && now < c.windowEnd {
			saved.memory.subtract(float64(max(c.memoryPeak, c.oomPeak)), 1, c.windowEnd)
		}
	}
	return &Checkpoint{
		LastUpdateTime:    timestamp(now),
		Version:           CheckpointVersion,
		CPUHistogram:      saved.cpu.save(),
		MemoryHistogram:   saved.memory.save(),
		FirstSampleStart:  timestamp(saved.first),
		LastSampleStart:   timestamp(saved.last),
		TotalSamplesCount: saved.samples,
	}
}

func (h *histogram) save() HistogramCheckpoint {
	c := HistogramCheckpoint{
		ReferenceTimestamp: timestamp(h.reference),
		BucketWeights:      make(map[int]uint32),
		TotalWeight:        h.total,
	}
	var heaviest float64
	for b := h.low; b <= h.high; b++ {
		heaviest = max(heaviest, h.weight[b])
	}
	ratio := maxCheckpointWeight / heaviest
	for b := h.low; b <= h.high; b++ {
		if w := uint32(math.Floor(float64(h.weight[b]*ratio) + 0.5)); w > 0 {
			c.BucketWeights[b] = w
		}
	}
	return c
}

// Load replaces the state of s by a checkpoint. It returns an error that wraps [ErrCheckpoint], and
// leaves s as it was, if the checkpoint is nil, of another version, or holds a bucket, weight,
// count or instant out of range.
//
// Upstream keeps a loaded state separate, and for each recommendation merges it with the later samples into a new
// state. Adding the samples to s gives the same result, except that it sums weights in another order.
func (s *State) Load(c *Checkpoint) error {
	if c == nil {
		return fmt.Errorf("%w: none", ErrCheckpoint)
	}
	if c.Version != CheckpointVersion {
		return fmt.Errorf("%w: version %q, want %q", ErrCheckpoint, c.Version, CheckpointVersion)
	}
	if c.TotalSamplesCount < 0 {
		return fmt.Errorf("%w: totalSamplesCount %d, want at least 0", ErrCheckpoint, c.TotalSamplesCount)
	}
	for _, t := range []struct {
		name string
		time time.Time
	}{
		{"firstSampleStart", c.FirstSampleStart},
		{"lastSampleStart", c.LastSampleStart},
		{"cpuHistogram.referenceTimestamp", c.CPUHistogram.ReferenceTimestamp},
		{"memoryHistogram.referenceTimestamp", c.MemoryHistogram.ReferenceTimestamp},
	} {
		if i, ok := instant(t.time); !ok {
			return fmt.Errorf("%w: %s %v, want a time at most a century from 1970", ErrCheckpoint, t.name, t.time)
		} else if i == never && c.TotalSamplesCount > 0 && t.name != "memoryHistogram.referenceTimestamp" {
			return fmt.Errorf("%w: no %s, but %d samples", ErrCheckpoint, t.name, c.TotalSamplesCount)
		}
	}
	if err := c.CPUHistogram.validate(); err != nil {
		return fmt.Errorf("%w: cpuHistogram: %v", ErrCheckpoint, err)
	}
	if err := c.MemoryHistogram.validate(); err != nil {
		return fmt.Errorf("%w: memoryHistogram: %v", ErrCheckpoint, err)
	}
	s.Reset(s.r, s.created)
	s.samples = c.TotalSamplesCount
	s.first, _ = instant(c.FirstSampleStart)
	s.last, _ = instant(c.LastSampleStart)
	s.cpu.load(&c.CPUHistogram)
	s.memory.load(&c.MemoryHistogram)
	return nil
}

func (c *HistogramCheckpoint) validate() error {
	if !(c.TotalWeight >= 0 && c.TotalWeight <= math.MaxFloat64) {
		return fmt.Errorf("totalWeight %v, want a number of at least 0", c.TotalWeight)
	}
	for b := range c.BucketWeights {
		if b < 0 || b >= numBuckets {
			return fmt.Errorf("bucket %d, want 0 to %d", b, numBuckets-1)
		}
	}
	return nil
}

func (h *histogram) load(c *HistogramCheckpoint) {
	h.reference, _ = instant(c.ReferenceTimestamp)
	var sum int64
	for _, w := range c.BucketWeights {
		sum += int64(w)
	}
	if sum == 0 {
		return
	}
	ratio := c.TotalWeight / float64(sum)
	for b, w := range c.BucketWeights {
		h.low = min(h.low, b)
		h.high = max(h.high, b)
		h.weight[b] = float64(w) * ratio
	}
	h.total = c.TotalWeight
	h.trim()
}

// timestamp returns an instant as the calendar time that checkpoints hold.
func timestamp(t time.Duration) time.Time {
	if t == never {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// instant is the inverse of timestamp; it returns false for a time out of range.
func instant(t time.Time) (time.Duration, bool) {
	if t.IsZero() {
		return never, true
	}
	i := t.Sub(time.Unix(0, 0)) // saturates
	return i, valid(i)
}
