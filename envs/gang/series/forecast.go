package series

import (
	"fmt"
	"math"
)

// Names of the forecasters. At step t they predict the values of t, t+1, … from the earlier values.
const (
	Seasonal    = "seasonal"    // the value of a day or a week ago, plus a fading part of the current deviation
	Weekly      = "weekly"      // Seasonal that also tries a week if the training part has just two, as half-hourly series have
	Persistence = "persistence" // the last value
	Perfect     = "perfect"     // the true values
	FromFile    = "file"        // the predictions of a file
)

// Raw is a series before scaling.
type Raw struct {
	Name   string
	Values []float64
	Day    int   // steps of a day; 0 if unknown
	File   *Rows // predictions for the last rows, or nil
}

// Predictor forecasts value[t+h−Period·m] + Fade^(h+1) · (value[t−1] − value[t−1−Period]) for
// step t+h, with the least m that reaches back before t. A Period of 0 repeats the last value.
type Predictor struct {
	Period int     `json:"period"` // steps
	Fade   float64 `json:"fade"`   // part of a deviation that remains one step later, 0 to 1
}

// FitPredictor chooses the period and the fading of the seasonal forecaster with the least squared error over the next
// ten steps of values, which must be training data. day is the steps of a day, or 0. FitPredictor tries a period if
// values hold more than two of it; with twoWeeks, two weeks are enough. Repeating the last value is one of the choices.
func FitPredictor(values []float64, day int, twoWeeks bool) Predictor {
	candidates := []Predictor{{}}
	for _, period := range []int{day, 7 * day} {
		if n := 2 * period; n > 0 && (n < len(values) || twoWeeks && period == 7*day && n == len(values)) {
			candidates = append(candidates, Predictor{period, fitFade(values, period)})
		}
	}
	first := candidates[len(candidates)-1].History() // the longest, so that all are compared on the same steps
	best, bestErr := Predictor{}, math.Inf(1)
	for _, p := range candidates {
		if e := p.error(values, first); e < bestErr {
			best, bestErr = p, e
		}
	}
	return best
}

// fitFade returns the correlation of the seasonal deviation from one step to the next, by
// least squares, within [0, 1].
func fitFade(values []float64, period int) float64 {
	var xy, xx float64
	for t := period + 1; t < len(values); t++ {
		x, y := values[t-1]-values[t-1-period], values[t]-values[t-period]
		xy, xx = xy+x*y, xx+x*x
	}
	if xx == 0 {
		return 0
	}
	return min(max(xy/xx, 0), 1)
}

// fitHorizon is the number of steps ahead over which forecasters are compared. Every fitStride-th step is a sample,
// which is enough to choose among three.
const fitHorizon, fitStride = 10, 5

// error returns the mean squared error over the steps from first on.
func (p Predictor) error(values []float64, first int) float64 {
	var row [fitHorizon]float64
	sum, n := 0.0, 0
	for t := first; t+fitHorizon <= len(values); t += fitStride {
		p.Predict(values, t, row[:])
		for h, v := range row {
			d := v - values[t+h]
			sum, n = sum+d*d, n+1
		}
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n)
}

// Predict writes predictions of t, t+1, … made from values[:t]; t is at least History.
func (p Predictor) Predict(values []float64, t int, dst []float64) {
	last := values[t-1]
	if p.Period == 0 {
		for h := range dst {
			dst[h] = last
		}
		return
	}
	deviation := last - values[t-1-p.Period]
	back := t - p.Period
	for h := range dst {
		deviation *= p.Fade
		dst[h] = values[back+h%p.Period] + deviation
	}
}

// History returns how many values Predict needs before t.
func (p Predictor) History() int { return p.Period + 1 }

// Forecaster predicts one series.
type Forecaster struct {
	Kind      string // one of the names above
	Predictor        // of Seasonal and Persistence
}

// newForecaster makes a forecaster of a kind, fitted to the first train values.
func newForecaster(kind string, s Raw, train int) (Forecaster, error) {
	f := Forecaster{Kind: kind}
	switch kind {
	case Seasonal, Weekly:
		f.Predictor = FitPredictor(s.Values[:train], s.Day, kind == Weekly)
	case Persistence, Perfect:
	case FromFile:
		if s.File == nil {
			return f, fmt.Errorf("gang: series %s has no file of forecasts", s.Name)
		}
	default:
		return f, fmt.Errorf("gang: forecaster %q, want %s, %s, %s, %s or %s", kind,
			Seasonal, Weekly, Persistence, Perfect, FromFile)
	}
	return f, nil
}

// Row writes the predictions of t, t+1, … to dst.
func (f *Forecaster) Row(s *Raw, t int, dst []float64) {
	switch f.Kind {
	case Perfect:
		copy(dst, s.Values[t:])
	case FromFile:
		i := t - (len(s.Values) - HeldOutRows)
		copy(dst, s.File.Values[i*s.File.Columns:])
	default:
		f.Predict(s.Values, t, dst)
	}
}
