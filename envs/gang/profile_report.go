package gang

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// A ProfileReport describes the profile that a Task uses, and how much re-planning saves in its episode.
type ProfileReport struct {
	Sizes     []float64             `json:"sizes"`
	Shares    []float64             `json:"shares"`           // millicores
	Filled    *profile.Filled       `json:"filled,omitempty"` // how the profile was made, if by [profile.Fill]; else nil
	Tasks     []profile.Description `json:"tasks"`
	Size      float64               `json:"size"`      // of the durations
	At        []float64             `json:"at"`        // millicores, of the durations
	Durations map[string][]float64  `json:"durations"` // seconds of each task
	Penalty   float64               `json:"penalty"`   // expected seconds of a re-planning
	Method    string                `json:"penalty_model"`
	Windows   []planner.Replanning  `json:"windows"`
	Notes     []string              `json:"notes"` // where instances exceed the profile or the observations
}

// ReportProfile describes the profile of the running episode, with durations for a workload size and with plans that
// are kept for 1 to ages supersteps, at most the length of the episode.
func (t *Task) ReportProfile(size float64, ages int) *ProfileReport {
	ep, m := t.Episode(), t.in.Model()
	p := m.Profile()
	r := &ProfileReport{Sizes: p.Sizes, Shares: p.Shares, Size: size, Durations: map[string][]float64{},
		Penalty: ep.Penalty, Method: t.PenaltyModel(), Windows: t.in.Replannings(ep, ages), Notes: t.profileNotes(p)}
	last := p.Shares[len(p.Shares)-1]
	for share := p.Shares[0]; share <= last; share *= 2 {
		r.At = append(r.At, share)
	}
	for k, name := range p.Tasks {
		r.Tasks = append(r.Tasks, p.Describe(k))
		for _, share := range r.At {
			r.Durations[name] = append(r.Durations[name], m.Duration(k, size, share))
		}
	}
	return r
}

// profileNotes lists the parts of the instances that the profile does not cover or that observations clip.
func (t *Task) profileNotes(p *profile.Profile) []string {
	notes := []string{}
	o := t.opts
	if low, high := p.Sizes[0], p.Sizes[len(p.Sizes)-1]; o.SizeLow < low || o.SizeHigh > high {
		notes = append(notes, fmt.Sprintf("sizes are %v to %v by the options size_low and size_high, and the profile's %v to %v: beyond, durations are those of its edge", o.SizeLow, o.SizeHigh, low, high))
	}
	if low := p.Shares[0]; float64(o.StartCPU) < low {
		notes = append(notes, fmt.Sprintf("tasks start with %d millicores by the option start_cpu_m, and the profile begins at %v: below, durations are those of its edge", o.StartCPU, low))
	}
	if part, low, high := t.Clipped(); part > 0.1 && !t.compatible() {
		notes = append(notes, fmt.Sprintf("%.0f %% of predicted durations are beyond what observations show: set duration_low:%v and duration_high:%v", 100*part, math.Floor(low), math.Ceil(high)))
	}
	return notes
}
