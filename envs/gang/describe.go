package gang

import (
	"math"
	"slices"
)

// A TaskProfile tells of one task of a profile how long it takes and how well it behaves: a measured
// profile is neither smooth nor monotone, and planners chase what is not.
type TaskProfile struct {
	Law                // zeros but for Task where the points determine none, as those of a size of 0
	R2         float64 `json:"r2"`  // of the law, on log D
	Min        float64 `json:"min"` // seconds, as are the next three
	Max        float64 `json:"max"`
	Mean       float64 `json:"mean"`
	Median     float64 `json:"median"`
	Slower     int     `json:"slower_with_more_cpu"` // steps from a share to the next, of ShareSteps, that take longer
	ShareSteps int     `json:"share_steps"`
	Faster     int     `json:"faster_with_more_work"` // steps from a size to the next, of SizeSteps, that take less
	SizeSteps  int     `json:"size_steps"`
	WorstRise  float64 `json:"worst_rise"` // greatest part by which a duration rises from a share to the next; 0 if none does
}

// Describe returns what there is to tell of a task, by its index.
func (p *Profile) Describe(task int) TaskProfile {
	points := p.points(task)
	d := make([]float64, len(points))
	var sum, logs float64
	for i, point := range points {
		d[i] = point.duration
		sum, logs = sum+d[i], logs+math.Log(d[i])
	}
	n := float64(len(d))
	t := TaskProfile{Law: FitLaw(p, task), Min: slices.Min(d), Max: slices.Max(d), Mean: sum / n}
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

// A Replanning tells what plans for a window of supersteps are worth as they age, and so how long to
// keep them.
type Replanning struct {
	Window       int       `json:"window"`
	Seconds      []float64 `json:"seconds"`       // by age: mean true duration of a superstep under a plan made so many supersteps before
	Interval     int       `json:"interval"`      // between plans, for which a superstep takes least
	PerSuperstep float64   `json:"per_superstep"` // seconds that it then takes, the penalty's part included
}

// Replannings returns it for each window of the instance's table and the ages 0 … ages-1, over those
// supersteps of the episode at which there can be plans of all ages. Of equal intervals the shortest
// is taken. ages is at least 1 and at most the episode's steps.
func (in *Instance) Replannings(ep Episode, ages int) []Replanning {
	all := make([]Replanning, in.windows)
	first, end := ep.First+ages-1, ep.First+ep.Steps
	for w := range all {
		r := &all[w]
		r.Window, r.Seconds, r.PerSuperstep = w+1, make([]float64, ages), math.Inf(1)
		for t := first; t < end; t++ {
			for age := range r.Seconds {
				d, _ := in.Execute(t, in.Config(t-age, w+1))
				r.Seconds[age] += d / float64(end-first)
			}
		}
		sum := ep.Penalty
		for age, d := range r.Seconds {
			sum += d
			if mean := sum / float64(age+1); mean < r.PerSuperstep {
				r.Interval, r.PerSuperstep = age+1, mean
			}
		}
	}
	return all
}

// Clipped returns the part of the durations that plans of the episode predict for their first
// superstep, all windows together, that observations clip, and the seconds between which all but
// the lowest and the highest hundredth of them are: duration_low and duration_high that fit. It is
// to be called after a reset.
func (t *Task) Clipped() (part, low, high float64) {
	var all []float64
	ep := t.Episode()
	for at := ep.First; at < ep.First+ep.Steps; at++ {
		for w := 1; w <= t.in.Windows(); w++ {
			all = append(all, t.in.Predicted(at, w)[0])
		}
	}
	for _, d := range all {
		if d < t.opts.DurationLow || d > t.opts.DurationHigh {
			part += 1 / float64(len(all))
		}
	}
	slices.Sort(all)
	cut := len(all) / 100
	return part, all[cut], all[len(all)-1-cut]
}
