package throughput

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// NumFeatures is the number of features that describe where measurements exist: the containers of each application,
// then all containers of the node.
const NumFeatures = lra.NumApps + 1

// FeatureName returns the display name of a feature.
func FeatureName(f int) string {
	if f == lra.NumApps {
		return "all containers"
	}
	return lra.Apps[f]
}

// Range is a closed range of counts.
type Range struct {
	Low  int `json:"low"`
	High int `json:"high"`
}

// features counts the features of a state.
func features(s lra.State) (f [NumFeatures]int) {
	c := s.Counts()
	copy(f[:], c[:])
	f[lra.NumApps] = c.Total()
	return f
}

// supportOf returns the range of each feature over states.
func supportOf(states []lra.State) (r [NumFeatures]Range) {
	for i, s := range states {
		for f, v := range features(s) {
			if i == 0 {
				r[f] = Range{v, v}
			}
			r[f].Low, r[f].High = min(r[f].Low, v), max(r[f].High, v)
		}
	}
	return r
}

// Extrapolation describes predictions for an application whose feature lies outside the measured range.
type Extrapolation struct {
	App      string `json:"app"`      // index of the application
	Feature  string `json:"feature"`  // [FeatureName]
	Given    Range  `json:"given"`    // range of the predicted states outside Measured
	Measured Range  `json:"measured"` // range of the measurements
	States   int    `json:"states"`   // number of predicted states outside Measured
}

// String names the feature, and the ranges given and measured.
func (e Extrapolation) String() string {
	return fmt.Sprintf("%s given %s, measured %s", e.Feature, e.Given, e.Measured)
}

// String returns one count, or the range.
func (r Range) String() string {
	if r.Low == r.High {
		return fmt.Sprint(r.Low)
	}
	return fmt.Sprintf("%d to %d", r.Low, r.High)
}

// Extrapolations returns where [Regressor.Table] predicts beyond the measurements, by application, then by feature.
// States without the application do not count.
func (r *Regressor) Extrapolations() []Extrapolation {
	var all []Extrapolation
	for a := range r.apps {
		for f, have := range r.apps[a].support {
			e := Extrapolation{App: lra.Apps[a], Feature: FeatureName(f), Measured: have}
			for s := range lra.State(lra.NumStates) {
				v := features(s)[f]
				if s.Counts()[a] == 0 || v >= have.Low && v <= have.High {
					continue
				}
				if e.States == 0 {
					e.Given = Range{v, v}
				}
				e.States++
				e.Given.Low, e.Given.High = min(e.Given.Low, v), max(e.Given.High, v)
			}
			if e.States > 0 {
				all = append(all, e)
			}
		}
	}
	return all
}

// Clipping counts the predictions of an application that were clipped to the measured range.
type Clipping struct {
	App    string  `json:"app"`
	Low    float64 `json:"low"` // least measured throughput of a container
	High   float64 `json:"high"`
	States int     `json:"states"`
	Lowest float64 `json:"lowest"`  // prediction before clipping
	Most   float64 `json:"highest"` // likewise
}

// Clippings returns the clipped predictions, by application.
func (r *Regressor) Clippings() []Clipping {
	var all []Clipping
	for a := range r.apps {
		one := &r.apps[a]
		c := Clipping{App: lra.Apps[a], Low: one.low, High: one.high}
		for s := range lra.State(lra.NumStates) {
			if s.Counts()[a] == 0 {
				continue
			}
			v := one.unclipped(s)
			if v >= one.low && v <= one.high {
				continue
			}
			if c.States == 0 {
				c.Lowest, c.Most = v, v
			}
			c.States++
			c.Lowest, c.Most = min(c.Lowest, v), max(c.Most, v)
		}
		if c.States > 0 {
			all = append(all, c)
		}
	}
	return all
}
