package gang

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang/series"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Notes names the series of the option data with missing rows, and where the rows are missing.
func Notes(o Options) ([]string, error) {
	o.Forecaster = series.Seasonal
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &source{opts: o}
	if o.Data == "" || o.Dynamics != DynamicsSound {
		return nil, nil
	}
	err := s.loadSeries()
	return s.notes, err
}

// ForecastErrors compares the forecasters on the series that the options select: in their split, after fitting and
// scaling on the training part. In the held-out split it includes forecasts from files for series that have one.
// Without the option data it draws generated series as episodes do, from the random seed onward, and groups those of
// one law. The error wraps [envs.ErrInvalidOption] for options that select no series.
func ForecastErrors(o Options, generated int, seed uint64) ([]series.ForecastError, error) {
	o.Forecaster = series.Seasonal
	if err := o.complete(); err != nil {
		return nil, err
	}
	if o.Dynamics != DynamicsSound {
		return nil, fmt.Errorf("%w: dynamics %s has its forecasts in files; series are of the sound dynamics", envs.ErrInvalidOption, o.Dynamics)
	}
	s := &source{opts: o}
	var sums series.Errors
	if o.Data == "" {
		if generated < 1 {
			return nil, fmt.Errorf("%w: %d generated series, want at least 1, or data", envs.ErrInvalidOption, generated)
		}
		for i := range uint64(generated) {
			one, err := s.fit(series.Generate(rand.New(pcg.New(seed+i)), series.GeneratedHistory+series.HeldOutRows), series.GeneratedHistory)
			if err != nil {
				return nil, err
			}
			one.Name = fmt.Sprintf("generated, %d steps a day", one.Day)
			sums.Add(&one, one.Train, len(one.Values))
		}
		results := sums.Results()
		slices.SortStableFunc(results, func(a, b series.ForecastError) int { return strings.Compare(b.Series, a.Series) })
		return results, nil
	}
	if err := s.loadSeries(); err != nil {
		return nil, err
	}
	for i := range s.series {
		one := &s.series[i]
		name := strings.TrimSuffix(filepath.Base(one.Name), ".csv")
		if err := one.ReadForecasts(filepath.Join(o.Data, "forecasts", name+"_forecasts.csv")); err != nil {
			return nil, err
		}
		first, end := s.part(one)
		if max(first, one.Forecaster.History())+series.ForecastColumns > end {
			return nil, fmt.Errorf("%w: the %s part of series %s has no step at which to forecast %d steps", envs.ErrInvalidOption, o.Split, name, series.ForecastColumns)
		}
		one.Name = name
		sums.Add(one, first, end)
	}
	return sums.Results(), nil
}
