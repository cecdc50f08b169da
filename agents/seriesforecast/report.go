package seriesforecast

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs/gang/series"
)

// Errors are root mean square errors of forecasts. Element h is for h+1 steps ahead.
type Errors struct {
	Units []float64 `json:"rmse_units"` // in units of the series
	Sizes []float64 `json:"rmse_sizes"` // in workload sizes: see [Measure]
}

// Measure compares forecasts with the true values of the same steps. Sizes are on a scale that all
// forecasters share: it maps the extremes of the true values of a column to 10 and 50.
func Measure(forecast, truth *series.Rows) (Errors, error) {
	var e Errors
	if forecast.Columns > truth.Columns || forecast.Len() != truth.Len() || forecast.Len() == 0 {
		return e, fmt.Errorf("seriesforecast: %d×%d forecasts of %d×%d values", forecast.Len(), forecast.Columns, truth.Len(), truth.Columns)
	}
	for h := range forecast.Columns {
		low, high, sum := math.Inf(1), math.Inf(-1), 0.0
		for i := range forecast.Len() {
			y := truth.Values[i*truth.Columns+h]
			d := forecast.Values[i*forecast.Columns+h] - y
			low, high, sum = min(low, y), max(high, y), sum+d*d
		}
		if low == high {
			return e, fmt.Errorf("seriesforecast: the values of column %d are %v throughout, which has no scale", h+1, low)
		}
		rmse := math.Sqrt(sum / float64(forecast.Len()))
		e.Units = append(e.Units, rmse)
		e.Sizes = append(e.Sizes, rmse*(series.MaxSize-series.MinSize)/(high-low))
	}
	return e, nil
}
