package series

import (
	"fmt"
	"slices"
	"time"
)

// Scaled is a series with the scaler and the forecaster fitted on its training part.
type Scaled struct {
	Raw
	Forecaster Forecaster
	Train      int        // rows of the training part, the first ones
	low, high  float64    // extremes of the training part
	sizes      [2]float64 // that the scaler maps them to
}

// StepsPerDay returns the number of samples in a day by the usual interval between them, or 0 if a day is not a
// multiple of it.
func (s *Series) StepsPerDay() int {
	var gaps []time.Duration
	for i := 1; i < len(s.Times); i++ {
		gaps = append(gaps, s.Times[i].Sub(s.Times[i-1]))
	}
	slices.Sort(gaps)
	usual := gaps[len(gaps)/2]
	if 24*time.Hour%usual != 0 {
		return 0
	}
	return int(24 * time.Hour / usual)
}

// Fit fits scaler and forecaster on the first train values. The scaler maps their extremes to sizes.
func Fit(kind string, raw Raw, train int, sizes [2]float64) (Scaled, error) {
	f, err := newForecaster(kind, raw, train)
	if err != nil {
		return Scaled{}, err
	}
	one := Scaled{Raw: raw, Forecaster: f, Train: train, sizes: sizes}
	one.low, one.high = slices.Min(raw.Values[:train]), slices.Max(raw.Values[:train])
	if one.low == one.high {
		return one, fmt.Errorf("gang: %s: the training part is %v throughout, which has no scale", raw.Name, one.low)
	}
	return one, nil
}

// Before returns the sizes of the last n values before row, or of all if there are fewer.
func (s *Scaled) Before(row, n int) []float64 {
	sizes := make([]float64, min(row, n))
	for i := range sizes {
		sizes[i] = s.Size(s.Values[row-len(sizes)+i])
	}
	return sizes
}

// Size maps a value to a workload size, within the range of the training part.
func (s *Scaled) Size(v float64) float64 {
	low, high := s.sizes[0], s.sizes[1]
	return min(max(low+(v-s.low)*(high-low)/(s.high-s.low), low), high)
}
