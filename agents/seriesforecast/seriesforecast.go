// Package seriesforecast trains forecasters of workload series: ridge regression, exponential smoothing by Holt and
// Winters, and an LSTM. Each is fitted to the earlier part of a series; the later part is only input of its forecasts.
package seriesforecast

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs/gang/series"
)

// Names of the forecasters.
const (
	Ridge       = "ridge"
	HoltWinters = "holt-winters"
	LSTM        = "lstm"
	Best        = "best" // the one of the others with the lowest error on the last quarter of the training values
)

// Names lists the forecasters.
func Names() []string { return []string{LSTM, Ridge, HoltWinters, Best} }

// A Model forecasts a series.
type Model interface {
	// Forecast writes predictions of the values after past to dst, which is as long as the horizon that the model was
	// fitted for. past starts with the series that the model was fitted to.
	Forecast(past, dst []float64) error
	// Describe describes the fitted model in a few words.
	Describe() string
}

// Config configures the fit of a model.
type Config struct {
	Model   string
	Day     int    // steps of a day; 0 if unknown
	Horizon int    // steps ahead
	Seed    uint64 // of the LSTM's first weights and the order of its batches
}

// validationShare is the share of the training values, at their end, on which settings are chosen.
const validationShare = 0.25

// minTrain is the least number of training values, beside those of the longest lag.
const minTrain = 100

// Fit fits a model to train, the earlier part of a series.
func Fit(ctx context.Context, c Config, train []float64) (Model, error) {
	if c.Horizon < 1 || c.Horizon > len(train)/10 {
		return nil, fmt.Errorf("seriesforecast: horizon %d for %d training values, want 1 to a tenth of them", c.Horizon, len(train))
	}
	if len(train) < minTrain {
		return nil, fmt.Errorf("seriesforecast: %d training values, want at least %d", len(train), minTrain)
	}
	for i, v := range train {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("seriesforecast: training value %d is %v", i, v)
		}
	}
	switch c.Model {
	case Ridge:
		return fitRidge(c, train)
	case HoltWinters:
		return fitHoltWinters(c, train)
	case LSTM:
		return fitLSTM(ctx, c, train)
	case Best:
		return fitBest(ctx, c, train)
	}
	return nil, fmt.Errorf("seriesforecast: no model %q, want %s", c.Model, strings.Join(Names(), ", "))
}

// named is the model that [Best] chose.
type named struct {
	Model
	name string
}

// Describe implements [Model].
func (m named) Describe() string { return m.name + ": " + m.Model.Describe() }

// fitBest fits each model to the first part of train, and the one with the lowest error on the rest to
// all of it.
func fitBest(ctx context.Context, c Config, train []float64) (Model, error) {
	split, best, lowest := validation(c.Day, train), "", math.Inf(1)
	var failed error
	for _, name := range []string{LSTM, Ridge, HoltWinters} {
		c.Model = name
		m, err := Fit(ctx, c, train[:split])
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil { // the series is too short for the model
			failed = err
			continue
		}
		if e := meanSquare(m, train, split, c.Horizon); e < lowest {
			best, lowest = name, e
		}
	}
	if best == "" {
		return nil, failed
	}
	c.Model = best
	m, err := Fit(ctx, c, train)
	return named{m, best}, err
}

// Rows returns the forecasts that m makes at each of the given number of steps from first on: row i
// holds those of values[first+i], values[first+i+1], …, made from the values before.
func Rows(ctx context.Context, m Model, values []float64, first, rows, horizon int) (*series.Rows, error) {
	r := &series.Rows{Columns: horizon, Values: make([]float64, rows*horizon)}
	for i := range rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := m.Forecast(values[:first+i], r.Values[i*horizon:(i+1)*horizon]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// seasons returns the periods, a day and a week, that fit into train at least twice.
func seasons(day int, train []float64) []int {
	var periods []int
	for _, p := range []int{day, 7 * day} {
		if p > 1 && 2*p+minTrain/2 <= len(train) {
			periods = append(periods, p)
		}
	}
	return periods
}

// ago returns the last value in past that lies a whole number of periods before the h-th step after past.
func ago(past []float64, h, period int) float64 {
	return past[len(past)-period+h%period]
}

// validation returns the first step of the validation part of train: the last quarter, or two days
// if that is more, but at most half.
func validation(day int, train []float64) int {
	n := max(int(validationShare*float64(len(train))), 2*day)
	return len(train) - min(n, len(train)/2)
}

// leastStd is the least deviation that meanStd returns. Callers divide by it.
const leastStd = 1e-9

// meanStd returns mean and standard deviation, the latter at least leastStd.
func meanStd(x []float64) (mean, std float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		std += (v - mean) * (v - mean)
	}
	return mean, max(math.Sqrt(std/float64(len(x))), leastStd)
}

// longest returns the largest of the periods, or 0.
func longest(periods []int) int {
	if len(periods) == 0 {
		return 0
	}
	return slices.Max(periods)
}
