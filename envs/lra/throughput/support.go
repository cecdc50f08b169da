package throughput

import (
	"fmt"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// NumFeatures is the number of features that measurements are counted by: the containers of each
// application, then all containers of the node.
const NumFeatures = lra.NumApps + 1

// FeatureName returns the name of a feature, for people.
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

// supportOf returns the range of each feature in some states.
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

// Extrapolation says that throughputs of an application are predicted where a feature lies
// outside of what was measured of the application.
type Extrapolation struct {
	App      string `json:"app"`      // whose throughput is predicted
	Feature  string `json:"feature"`  // [FeatureName]
	Given    Range  `json:"given"`    // that the predicted states have outside of Measured
	Measured Range  `json:"measured"` // that the measurements have
	States   int    `json:"states"`   // predicted ones outside of Measured
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

// Extrapolations returns where [Regressor.Table] predicts beyond the measurements, by application,
// then by feature. An application that is absent from a state has no throughput to predict there.
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

// Clipping says how many predictions of an application were moved to the nearest measured
// throughput.
type Clipping struct {
	App    string  `json:"app"`
	Low    float64 `json:"low"` // least measured throughput of a container
	High   float64 `json:"high"`
	States int     `json:"states"`
	Lowest float64 `json:"lowest"`  // prediction before it was clipped
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
