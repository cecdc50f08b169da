package profile

import (
	"math"
	"slices"
)

// Description sums up the durations of one task, and how smooth and monotone they are. A measured profile is neither,
// and planners exploit its noise.
type Description struct {
	Law                // zero except for Task if the points determine no law, such as those of a size of 0
	R2         float64 `json:"r2"`  // of the law, on log D
	Min        float64 `json:"min"` // seconds, as are the next three
	Max        float64 `json:"max"`
	Mean       float64 `json:"mean"`
	Median     float64 `json:"median"`
	Slower     int     `json:"slower_with_more_cpu"` // steps from a share to the next, of ShareSteps, that take longer
	ShareSteps int     `json:"share_steps"`
	Faster     int     `json:"faster_with_more_work"` // steps from a size to the next, of SizeSteps, that take less
	SizeSteps  int     `json:"size_steps"`
	WorstRise  float64 `json:"worst_rise"` // largest relative rise of a duration from a share to the next; 0 if none rises
}

// Describe describes a task, given by its index.
func (p *Profile) Describe(task int) Description {
	points := p.points(task)
	d := make([]float64, len(points))
	var sum, logs float64
	for i, point := range points {
		d[i] = point.Seconds
		sum, logs = sum+d[i], logs+math.Log(d[i])
	}
	n := float64(len(d))
	t := Description{Law: FitLaw(p, task), Min: slices.Min(d), Max: slices.Max(d), Mean: sum / n}
	total := 0.0
	for _, x := range d {
		total += (math.Log(x) - logs/n) * (math.Log(x) - logs/n)
	}
	if math.IsInf(t.RMS, 1) {
		t.Law = Law{Task: t.Task}
	} else if total > 0 {
		t.R2 = 1 - n*t.RMS*t.RMS/total
	}
	slices.Sort(d)
	t.Median = (d[(len(d)-1)/2] + d[len(d)/2]) / 2
	for i := range p.Sizes {
		for j := range p.Shares {
			now := p.Duration(task, i, j)
			if j > 0 {
				before := p.Duration(task, i, j-1)
				t.ShareSteps++
				if now > before {
					t.Slower++
				}
				t.WorstRise = max(t.WorstRise, now/before-1)
			}
			if i > 0 {
				t.SizeSteps++
				if now < p.Duration(task, i-1, j) {
					t.Faster++
				}
			}
		}
	}
	return t
}
