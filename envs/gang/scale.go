package gang

import (
	"fmt"
	"slices"
	"time"
)

// scaledSeries is a series with the scaler and the forecaster fitted on its training part.
type scaledSeries struct {
	rawSeries
	forecaster forecaster
	low, high  float64 // values that are the sizes of the options size_low and size_high
	sizes      [2]float64
	train      int // rows of the training part, the first ones
}

// stepsPerDay returns the number of samples in a day by the usual interval between them, or 0
// if that is not a part of a day.
func stepsPerDay(times []time.Time) int {
	var gaps []time.Duration
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, times[i].Sub(times[i-1]))
	}
	slices.Sort(gaps)
	usual := gaps[len(gaps)/2]
	if 24*time.Hour%usual != 0 {
		return 0
	}
	return int(24 * time.Hour / usual)
}

// fit fits scaler and forecaster on the first train values.
func (s *source) fit(raw rawSeries, train int) (scaledSeries, error) {
	f, err := newForecaster(s.opts.Forecaster, raw, train)
	if err != nil {
		return scaledSeries{}, err
	}
	one := scaledSeries{rawSeries: raw, forecaster: f, train: train, sizes: [2]float64{s.opts.SizeLow, s.opts.SizeHigh}}
	one.low, one.high = slices.Min(raw.values[:train]), slices.Max(raw.values[:train])
	if one.low == one.high {
		return one, fmt.Errorf("gang: %s: the training part is %v throughout, which has no scale", raw.name, one.low)
	}
	return one, nil
}

// size maps a value to a workload size, within the range that was seen in training.
func (s *scaledSeries) size(v float64) float64 {
	low, high := s.sizes[0], s.sizes[1]
	return min(max(low+(v-s.low)*(high-low)/(s.high-s.low), low), high)
}
