package cli

import (
	"sync"

	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// SumProgress shows several trainings in one progress bar.
type SumProgress struct {
	bar *tracking.ProgressBar

	mu    sync.Mutex
	steps []int64 // of each training
}

// NewSumProgress returns the progress of several trainings in bar; steps holds the timesteps that each has
// already made.
func NewSumProgress(bar *tracking.ProgressBar, steps []int64) *SumProgress {
	return &SumProgress{bar: bar, steps: steps}
}

// Part returns the progress of training i.
func (s *SumProgress) Part(i int) *PartProgress { return &PartProgress{s, i} }

// PartProgress is the progress of one training among several.
type PartProgress struct {
	sum *SumProgress
	i   int
}

// Episode reports the return of an episode.
func (p *PartProgress) Episode(ret float64) { p.sum.bar.Episode(ret) }

// Update reports the total timesteps of the training.
func (p *PartProgress) Update(step int64) {
	p.sum.mu.Lock()
	defer p.sum.mu.Unlock()
	p.sum.steps[p.i] = step
	total := int64(0)
	for _, s := range p.sum.steps {
		total += s
	}
	p.sum.bar.Update(total)
}

// Write prints lines above the bar.
func (p *PartProgress) Write(b []byte) (int, error) { return p.sum.bar.Write(b) }

// Close does nothing; the bar is closed after the last training.
func (p *PartProgress) Close() error { return nil }
