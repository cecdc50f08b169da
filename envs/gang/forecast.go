package gang

import (
	"fmt"
	"math"
)

// Names of the forecasters, which predict at step t the values of t, t+1, … from those before
// t.
const (
	ForecasterSeasonal    = "seasonal"    // what was a day or a week ago, plus a fading part of the present deviation
	ForecasterPersistence = "persistence" // the last value
	ForecasterPerfect     = "perfect"     // what will be
	ForecasterFile        = "file"        // the predictions of a file
)

// rawSeries is a series before scaling.
type rawSeries struct {
	name   string
	values []float64
	day    int   // steps of a day; 0 if it is not known
	file   *Rows // predictions for the last rows, or nil
}

// predictor predicts by value[t+h−Period·m] + Fade^(h+1) · (value[t−1] − value[t−1−Period]),
// for the least m that reaches back before t. A Period of 0 repeats the last value.
type predictor struct {
	period int
	fade   float64
}

// fitPredictor chooses the period and the fading of the seasonal forecaster that have the
// least squared error over values, which are to be training data, for the next ten steps.
// Repeating the last value is among the choices.
func fitPredictor(values []float64, day int) predictor {
	candidates := []predictor{{}}
	for _, period := range []int{day, 7 * day} {
		if period > 0 && 2*period < len(values) {
			candidates = append(candidates, predictor{period, fitFade(values, period)})
		}
	}
	first := candidates[len(candidates)-1].history() // the longest: all are compared on the same steps
	best, bestErr := predictor{}, math.Inf(1)
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

// fitHorizon is the number of steps ahead over which forecasters are compared; every
// fitStride-th step is a sample, which is enough to choose among three.
const fitHorizon, fitStride = 10, 5

// error returns the mean squared error over the steps from first on.
func (p predictor) error(values []float64, first int) float64 {
	var row [fitHorizon]float64
	sum, n := 0.0, 0
	for t := first; t+fitHorizon <= len(values); t += fitStride {
		p.predict(values, t, row[:])
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

// predict writes predictions of t, t+1, … made from values[:t]; t is at least history().
func (p predictor) predict(values []float64, t int, dst []float64) {
	last := values[t-1]
	if p.period == 0 {
		for h := range dst {
			dst[h] = last
		}
		return
	}
	deviation := last - values[t-1-p.period]
	back := t - p.period
	for h := range dst {
		deviation *= p.fade
		dst[h] = values[back+h%p.period] + deviation
	}
}

// history returns how many values predict needs before t.
func (p predictor) history() int { return p.period + 1 }

// forecaster predicts one series.
type forecaster struct {
	kind string
	predictor
}

// newForecaster makes the forecaster of that kind, fitted to the first train values.
func newForecaster(kind string, s rawSeries, train int) (forecaster, error) {
	f := forecaster{kind: kind}
	switch kind {
	case ForecasterSeasonal:
		f.predictor = fitPredictor(s.values[:train], s.day)
	case ForecasterPersistence, ForecasterPerfect:
	case ForecasterFile:
		if s.file == nil {
			return f, fmt.Errorf("gang: series %s has no file of forecasts", s.name)
		}
	default:
		return f, fmt.Errorf("gang: forecaster %q, want %s, %s, %s or %s", kind,
			ForecasterSeasonal, ForecasterPersistence, ForecasterPerfect, ForecasterFile)
	}
	return f, nil
}

// row writes the predictions of t, t+1, … to dst.
func (f *forecaster) row(s *rawSeries, t int, dst []float64) {
	switch f.kind {
	case ForecasterPerfect:
		copy(dst, s.values[t:])
	case ForecasterFile:
		i := t - (len(s.values) - heldOutRows)
		copy(dst, s.file.Values[i*s.file.Columns:])
	default:
		f.predict(s.values, t, dst)
	}
}
