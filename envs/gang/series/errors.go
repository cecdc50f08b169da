package series

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
)

// ForecastError measures the forecasts of a series. Element h of an array is about forecasts h+1 steps after the last
// known value: a plan made at step t uses those of t (h = 0), t+1, ….
type ForecastError struct {
	Series     string      `json:"series"` // name of its file, or the law of generated series
	Count      int         `json:"count"`  // series of that name
	Forecaster string      `json:"forecaster"`
	Fits       []Predictor `json:"fits,omitempty"` // of seasonal: the fit to each series
	Steps      int         `json:"steps"`          // steps with a forecast, of all series together
	RMSE       []float64   `json:"rmse"`           // in workload sizes
	MAE        []float64   `json:"mae"`            // likewise
	Bias       []float64   `json:"bias"`           // likewise: mean of forecast less truth
	RMSERaw    []float64   `json:"rmse_raw"`       // in units of the series
}

// Names of two more forecasts for comparison: the values a day ago, and a week ago.
const (
	PreviousDay  = "previous_day"
	PreviousWeek = "previous_week"
)

// ReadForecasts reads a file of forecasts for s, which must have [ForecastColumns] steps each. It ignores a missing
// file.
func (s *Raw) ReadForecasts(path string) (err error) {
	s.File, err = ReadForecasts(path, ForecastRows)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && s.File.Columns < ForecastColumns:
		return fmt.Errorf("gang: %s: %d columns, want at least %d", s.File.Name, s.File.Columns, ForecastColumns)
	}
	return err
}

// errorSums adds up a ForecastError.
type errorSums struct {
	ForecastError
	square, abs, diff, raw [ForecastColumns]float64
}

// Errors collects the errors of forecasts by series and forecaster.
type Errors struct{ all []*errorSums }

// Results returns the errors in the order in which their series were added.
func (e *Errors) Results() []ForecastError {
	results := make([]ForecastError, len(e.all))
	for i, one := range e.all {
		results[i] = one.result()
	}
	return results
}

// Add adds the errors of the forecasts of rows first … end-1 of a series to those of the same series name and
// forecaster. Rows from the held-out part on include the forecasts of the series' file. Forecasters that look back too
// far for these rows are left out.
func (e *Errors) Add(s *Scaled, first, end int) {
	type named struct {
		name string
		Forecaster
	}
	candidates := []named{
		{Seasonal, s.Forecaster},
		{Persistence, Forecaster{Kind: Persistence}},
	}
	file := first >= s.Train && s.File != nil
	if file {
		end = min(end, s.Train+s.File.Len()+ForecastColumns-1)
	}
	offer := func(name string, f Forecaster) {
		if max(first, f.History())+ForecastColumns <= end {
			candidates = append(candidates, named{name, f})
		}
	}
	if weekly := FitPredictor(s.Values[:s.Train], s.Day, true); 14*s.Day == s.Train { // otherwise it equals seasonal
		offer(Weekly, Forecaster{Kind: Weekly, Predictor: weekly})
	}
	if file {
		offer(FromFile, Forecaster{Kind: FromFile})
	}
	for _, c := range []struct {
		name   string
		period int
	}{{PreviousDay, s.Day}, {PreviousWeek, 7 * s.Day}} {
		if c.period > 0 && 2*c.period <= s.Train {
			offer(c.name, Forecaster{Kind: Seasonal, Predictor: Predictor{Period: c.period}})
		}
	}
	for _, c := range candidates { // all are compared at the same steps
		first = max(first, c.History())
	}
	for _, c := range candidates {
		i := slices.IndexFunc(e.all, func(e *errorSums) bool { return e.Series == s.Name && e.Forecaster == c.name })
		if i < 0 {
			i = len(e.all)
			e.all = append(e.all, &errorSums{ForecastError: ForecastError{Series: s.Name, Forecaster: c.name}})
		}
		e.all[i].Count++
		if c.name == Seasonal || c.name == Weekly {
			e.all[i].Fits = append(e.all[i].Fits, c.Predictor)
		}
		for t := first; t+ForecastColumns <= end; t++ {
			e.all[i].add(s, &c.Forecaster, t)
		}
	}
}

// add adds the errors of the forecasts made at step t.
func (e *errorSums) add(s *Scaled, f *Forecaster, t int) {
	var row [ForecastColumns]float64
	f.Row(&s.Raw, t, row[:])
	e.Steps++
	for h, v := range row {
		truth := s.Values[t+h]
		d := s.Size(v) - s.Size(truth)
		e.square[h] += d * d
		e.abs[h] += math.Abs(d)
		e.diff[h] += d
		e.raw[h] += (v - truth) * (v - truth)
	}
}

func (e *errorSums) result() ForecastError {
	n := float64(e.Steps)
	for h := range ForecastColumns {
		e.RMSE, e.RMSERaw = append(e.RMSE, math.Sqrt(e.square[h]/n)), append(e.RMSERaw, math.Sqrt(e.raw[h]/n))
		e.MAE, e.Bias = append(e.MAE, e.abs[h]/n), append(e.Bias, e.diff[h]/n)
	}
	return e.ForecastError
}

// An ErrorCurve is the root mean square error of a forecaster over several series, in workload sizes. Element h of an
// array is about forecasts h+1 steps ahead.
type ErrorCurve struct {
	Forecaster      string
	Mean, Low, High []float64 // over the series
}

// ErrorCurves returns the number of series, and the curves of the forecasters that all of them have, in the
// order of the first series.
func ErrorCurves(all []ForecastError) (n int, curves []ErrorCurve) {
	names, of := map[string]bool{}, map[string][]ForecastError{}
	var order []string
	for _, e := range all {
		names[e.Series] = true
		if len(of[e.Forecaster]) == 0 {
			order = append(order, e.Forecaster)
		}
		of[e.Forecaster] = append(of[e.Forecaster], e)
	}
	for _, name := range order {
		errors := of[name]
		if len(errors) != len(names) {
			continue
		}
		c := ErrorCurve{Forecaster: name}
		for h := range errors[0].RMSE {
			sum, low, high := 0.0, math.Inf(1), 0.0
			for _, e := range errors {
				sum, low, high = sum+e.RMSE[h], min(low, e.RMSE[h]), max(high, e.RMSE[h])
			}
			c.Mean, c.Low, c.High = append(c.Mean, sum/float64(len(errors))), append(c.Low, low), append(c.High, high)
		}
		curves = append(curves, c)
	}
	return len(names), curves
}

// WriteErrors writes errors of forecasts as CSV, a row for each series, forecaster and step ahead.
func WriteErrors(w io.Writer, all []ForecastError) error {
	rows := [][]string{{"series", "count", "forecaster", "ahead", "steps", "rmse", "mae", "bias", "rmse_raw"}}
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, e := range all {
		for h := range e.RMSE {
			rows = append(rows, []string{e.Series, strconv.Itoa(e.Count), e.Forecaster, strconv.Itoa(h + 1), strconv.Itoa(e.Steps),
				text(e.RMSE[h]), text(e.MAE[h]), text(e.Bias[h]), text(e.RMSERaw[h])})
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}
