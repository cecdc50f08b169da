package planner

import (
	"math"
	"slices"
)

// A Replanning measures how plans for a window of supersteps age, and thus how long to keep them.
type Replanning struct {
	Window       int       `json:"window"`
	Seconds      []float64 `json:"seconds"`       // by age: mean true duration of a superstep under a plan of that age in supersteps
	Interval     int       `json:"interval"`      // between plans, with the shortest mean superstep
	PerSuperstep float64   `json:"per_superstep"` // that mean superstep, including its part of the penalty
}

// Replannings returns a Replanning for each window of the instance's table and the ages 0 … ages-1. It averages over
// the supersteps of the episode at which plans of all ages exist, and takes the shortest of equal intervals. ages is at
// least 1 and at most the episode's steps.
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

// Outside returns the part of the predicted first durations of plans that are below low or above high, and the seconds
// between which all but the lowest and the highest hundredth are. It considers all windows of the instance's table at
// each step of the episode.
func (in *Instance) Outside(ep Episode, low, high float64) (part, from, to float64) {
	var all []float64
	for t := ep.First; t < ep.First+ep.Steps; t++ {
		for w := 1; w <= in.windows; w++ {
			all = append(all, in.Predicted(t, w)[0])
		}
	}
	for _, d := range all {
		if d < low || d > high {
			part += 1 / float64(len(all))
		}
	}
	slices.Sort(all)
	cut := len(all) / 100
	return part, all[cut], all[len(all)-1-cut]
}
