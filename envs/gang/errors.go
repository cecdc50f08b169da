package gang

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
)

// ForecastError is how far the forecasts of a series are from what comes. Element h of an array is
// of the forecasts h+1 steps ahead of the last known value: a plan made at step t goes by those of
// t (h = 0), t+1, ….
type ForecastError struct {
	Series     string      `json:"series"` // its file's name or, of generated ones, their law
	Count      int         `json:"count"`  // series of that name
	Forecaster string      `json:"forecaster"`
	Fits       []Predictor `json:"fits,omitempty"` // of seasonal: what it was fitted to, for each series
	Steps      int         `json:"steps"`          // at which it forecast, of all series together
	RMSE       []float64   `json:"rmse"`           // in workload sizes, as planners see them and supersteps execute them
	MAE        []float64   `json:"mae"`            // likewise
	Bias       []float64   `json:"bias"`           // likewise: mean of forecast less truth
	RMSERaw    []float64   `json:"rmse_raw"`       // in units of the series
}

// Predictor forecasts from what was Period steps ago and the part Fade of its present deviation that
// is left a step later; a Period of 0 repeats the last value.
type Predictor struct {
	Period int     `json:"period"`
	Fade   float64 `json:"fade"`
}

// Forecasts beside those of the option forecaster, with which [ForecastErrors] compares: what was a
// day, and a week, ago.
const (
	PreviousDay  = "previous_day"
	PreviousWeek = "previous_week"
)

// readForecasts reads the file of forecasts, if there is one, which must reach as far ahead as those
// that it is compared with.
func (s *scaledSeries) readForecasts(dir, name string) (err error) {
	s.file, err = ReadForecasts(filepath.Join(dir, "forecasts", name+"_forecasts.csv"), forecastRows)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && s.file.Columns < forecastColumns:
		return fmt.Errorf("gang: %s: %d columns, want at least %d", s.file.Name, s.file.Columns, forecastColumns)
	}
	return err
}

// errorSums is a ForecastError in the making.
type errorSums struct {
	ForecastError
	square, abs, diff, raw [forecastColumns]float64
}

// addErrors adds the errors of the forecasters of a series to those of its name and theirs.
func (s *scaledSeries) addErrors(all []*errorSums, split string) []*errorSums {
	type named struct {
		name string
		forecaster
	}
	candidates := []named{
		{ForecasterSeasonal, s.forecaster},
		{ForecasterPersistence, forecaster{kind: ForecasterPersistence}},
	}
	first, end := 1, s.train
	if split == SplitHeldOut {
		first, end = s.train, len(s.values)
		if s.file != nil {
			candidates = append(candidates, named{ForecasterFile, forecaster{kind: ForecasterFile}})
			end = min(end, s.train+s.file.Len()+forecastColumns-1)
		}
	}
	for _, c := range []struct {
		name   string
		period int
	}{{PreviousDay, s.day}, {PreviousWeek, 7 * s.day}} {
		if c.period > 0 && 2*c.period <= s.train {
			candidates = append(candidates, named{c.name, forecaster{kind: ForecasterSeasonal, predictor: predictor{period: c.period}}})
		}
	}
	for _, c := range candidates { // all are compared at the same steps
		first = max(first, c.history())
	}
	for _, c := range candidates {
		i := slices.IndexFunc(all, func(e *errorSums) bool { return e.Series == s.name && e.Forecaster == c.name })
		if i < 0 {
			i = len(all)
			all = append(all, &errorSums{ForecastError: ForecastError{Series: s.name, Forecaster: c.name}})
		}
		all[i].Count++
		if c.name == ForecasterSeasonal {
			all[i].Fits = append(all[i].Fits, Predictor{c.period, c.fade})
		}
		for t := first; t+forecastColumns <= end; t++ {
			all[i].add(s, &c.forecaster, t)
		}
	}
	return all
}

// add adds the errors of the forecasts made at step t.
func (e *errorSums) add(s *scaledSeries, f *forecaster, t int) {
	var row [forecastColumns]float64
	f.row(&s.rawSeries, t, row[:])
	e.Steps++
	for h, v := range row {
		truth := s.values[t+h]
		d := s.size(v) - s.size(truth)
		e.square[h] += d * d
		e.abs[h] += math.Abs(d)
		e.diff[h] += d
		e.raw[h] += (v - truth) * (v - truth)
	}
}

func (e *errorSums) result() ForecastError {
	n := float64(e.Steps)
	for h := range forecastColumns {
		e.RMSE, e.RMSERaw = append(e.RMSE, math.Sqrt(e.square[h]/n)), append(e.RMSERaw, math.Sqrt(e.raw[h]/n))
		e.MAE, e.Bias = append(e.MAE, e.abs[h]/n), append(e.Bias, e.diff[h]/n)
	}
	return e.ForecastError
}
