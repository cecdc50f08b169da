package gang

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Notes says of which series of the option data rows are missing, and where.
func Notes(o Options) ([]string, error) {
	o.Forecaster = ForecasterSeasonal
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

// ForecastErrors compares the forecasters on the series that the options select: in the part of
// their split, fitted and scaled on the training part. Forecasts of files are among them where a
// series has some, and the split is the held-out one. Without the option data it draws that many
// series as episodes have them, from the random seed on, and puts those of one law together. The
// error wraps [envs.ErrInvalidOption] for options that have no series of their own.
func ForecastErrors(o Options, generated int, seed uint64) ([]ForecastError, error) {
	o.Forecaster = ForecasterSeasonal
	if err := o.complete(); err != nil {
		return nil, err
	}
	if o.Dynamics != DynamicsSound {
		return nil, fmt.Errorf("%w: dynamics %s has its forecasts in files; series are of the sound dynamics", envs.ErrInvalidOption, o.Dynamics)
	}
	s := &source{opts: o}
	var all []*errorSums
	if o.Data == "" {
		if generated < 1 {
			return nil, fmt.Errorf("%w: %d generated series, want at least 1, or data", envs.ErrInvalidOption, generated)
		}
		for i := range uint64(generated) {
			one, err := s.fit(generateSeries(rand.New(pcg.New(seed+i)), generatedHistory+heldOutRows), generatedHistory)
			if err != nil {
				return nil, err
			}
			one.name = fmt.Sprintf("generated, %d steps a day", one.day)
			all = one.addErrors(all, SplitHeldOut)
		}
		slices.SortStableFunc(all, func(a, b *errorSums) int { return strings.Compare(b.Series, a.Series) })
	} else {
		if err := s.loadSeries(); err != nil {
			return nil, err
		}
		for i := range s.series {
			one := &s.series[i]
			name := strings.TrimSuffix(filepath.Base(one.name), ".csv")
			if err := one.readForecasts(o.Data, name); err != nil {
				return nil, err
			}
			one.name = name
			all = one.addErrors(all, o.Split)
		}
	}
	results := make([]ForecastError, len(all))
	for i, e := range all {
		results[i] = e.result()
	}
	return results, nil
}
