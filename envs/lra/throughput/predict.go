package throughput

import (
	"fmt"
	"strings"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// Prediction describes a table that a [Regressor] predicts.
type Prediction struct {
	Measured int         `json:"measured_states"`
	HeldOut  *TableError `json:"held_out"` // of the unmeasured states; nil if the truth is unknown

	Extrapolated []Extrapolation `json:"extrapolated"` // where the profile has no measurement nearby
	Clipped      []Clipping      `json:"clipped"`      // predictions clipped to the measured range
}

// Predict completes a profile, and compares the predicted states with truth, which may be nil.
func Predict(profile []Measurement, truth *lra.Table) (*lra.Table, *Prediction, error) {
	r, err := FitRegressor(profile)
	if err != nil {
		return nil, nil, err
	}
	table, p := r.Table(), &Prediction{Extrapolated: r.Extrapolations(), Clipped: r.Clippings()}
	for _, ok := range r.Measured {
		if ok {
			p.Measured++
		}
	}
	if truth != nil {
		p.HeldOut = new(Compare(table, truth, func(s lra.State) bool { return !r.Measured[s] }))
	}
	return table, p, nil
}

// Warnings describes the unreliable parts of the prediction in sentences.
func (p *Prediction) Warnings() []string {
	features := map[string][]string{}
	for _, e := range p.Extrapolated {
		features[e.App] = append(features[e.App], e.String())
	}
	var all []string
	for _, app := range lra.Apps {
		if f := features[app]; len(f) > 0 {
			all = append(all, fmt.Sprintf("throughputs of %s are extrapolated: %s", app, strings.Join(f, "; ")))
		}
	}
	for _, c := range p.Clipped {
		all = append(all, fmt.Sprintf("%d throughputs of %s, predicted as %.3g to %.3g, are clipped to the measured %.3g to %.3g",
			c.States, c.App, c.Lowest, c.Most, c.Low, c.High))
	}
	return all
}
