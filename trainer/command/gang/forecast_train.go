package gang

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/seriesforecast"
	"github.com/kubernasium/kubernasium/envs/gang/series"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// trainForecast holds the arguments of `gang forecast --train`.
type trainForecast struct {
	on      bool
	model   string
	files   []string
	horizon int
	out     string
}

// trainedForecast is a row of the JSON of `gang forecast --train --json`: a forecaster trained on a series, or
// one to compare it with.
type trainedForecast struct {
	Series     string `json:"series"`
	Forecaster string `json:"forecaster"`
	Fit        string `json:"fit,omitempty"`
	File       string `json:"file,omitempty"`
	Trained    int    `json:"trained_on"` // number of values
	Steps      int    `json:"steps"`      // number of times at which it forecast
	seriesforecast.Errors
}

// run fits a forecaster to each file, writes its forecasts, and reports the errors.
func (c *trainForecast) run(cmd *cobra.Command, seed uint64, csv, plot string) error {
	if len(c.files) == 0 || c.out == "" {
		return errors.New("--train needs --series FILE and --out DIR")
	}
	if !slices.Contains(seriesforecast.Names(), c.model) {
		return fmt.Errorf("--model %q, want one of %s", c.model, strings.Join(seriesforecast.Names(), ", "))
	}
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return err
	}
	var all []trainedForecast
	for i, file := range c.files {
		results, err := c.fit(cmd, file, seed)
		if cmd.Context().Err() != nil {
			return fmt.Errorf("%w: forecasts of %d of %d series are in %s", cli.ErrInterrupted, i, len(c.files), c.out)
		}
		if err != nil {
			return err
		}
		all = append(all, results...)
	}
	if err := cli.WriteCSV(csv, []string{"series", "forecaster", "ahead", "rmse_sizes", "rmse_units"}, errorRows(all)); err != nil {
		return err
	}
	if plot != "" {
		if err := plotForecasts(plot, forecastErrors(all)); err != nil {
			return err
		}
	}
	return cli.Print(cmd, all, trainedTable(all).WriteText)
}

// fit fits a forecaster to the series in file, writes its forecasts, and measures them and those of simple
// forecasters.
func (c *trainForecast) fit(cmd *cobra.Command, file string, seed uint64) ([]trainedForecast, error) {
	if c.horizon < 1 {
		return nil, fmt.Errorf("--horizon %d, want at least 1", c.horizon)
	}
	held := series.ForecastRows + c.horizon - 1
	s, err := series.Read(file, held+1)
	if err != nil {
		return nil, err
	}
	values, day := s.Used(), s.StepsPerDay()
	first := len(values) - held
	if first < 1 {
		return nil, fmt.Errorf("%s: %d values, of which %d are to be forecast: none is left to learn from", file, len(values), held)
	}
	m, err := seriesforecast.Fit(cmd.Context(), seriesforecast.Config{Model: c.model, Day: day, Horizon: c.horizon, Seed: seed}, values[:first])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	rows, err := seriesforecast.Rows(cmd.Context(), m, values, first, series.ForecastRows, c.horizon)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(filepath.Base(file), ".csv")
	path := filepath.Join(c.out, name+"_forecasts.csv")
	if err := cli.WriteTo(path, rows.WriteForecasts); err != nil {
		return nil, err
	}
	results := []trainedForecast{{Series: name, Forecaster: c.model, Fit: m.Describe(), File: path}}
	forecasts := []*series.Rows{rows}
	for _, p := range []struct {
		name   string
		period int
	}{{series.Persistence, 0}, {series.PreviousDay, day}, {series.PreviousWeek, 7 * day}} {
		if p.period > 0 || p.name == series.Persistence {
			if predictor := (series.Predictor{Period: p.period}); predictor.History() <= first {
				results = append(results, trainedForecast{Series: name, Forecaster: p.name})
				forecasts = append(forecasts, predicted(predictor, values, first, c.horizon))
			}
		}
	}
	truth := series.Truth(values, first, series.ForecastRows, c.horizon)
	for i := range results {
		r := &results[i]
		r.Trained, r.Steps = first, series.ForecastRows
		if r.Errors, err = seriesforecast.Measure(forecasts[i], truth); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return results, nil
}

// predicted returns the forecasts of a predictor.
func predicted(p series.Predictor, values []float64, first, horizon int) *series.Rows {
	rows := &series.Rows{Columns: horizon, Values: make([]float64, series.ForecastRows*horizon)}
	for i := range series.ForecastRows {
		p.Predict(values, first+i, rows.Values[i*horizon:(i+1)*horizon])
	}
	return rows
}

// trainedTable returns a row for each series and forecaster, and the means of the forecasters that all series
// have.
func trainedTable(all []trainedForecast) *tracking.Table {
	ahead := slices.DeleteFunc([]int{1, 5, 10, 20}, func(h int) bool { return h > len(all[0].Sizes) })
	columns := []string{"series", "forecaster"}
	for _, h := range ahead {
		columns = append(columns, fmt.Sprintf(">RMSE at %d", h))
	}
	for _, h := range ahead {
		columns = append(columns, fmt.Sprintf(">in units at %d", h))
	}
	t := tracking.NewTable(append(columns, "fit")...)
	for _, r := range all {
		cells := []string{r.Series, r.Forecaster}
		for _, h := range ahead {
			cells = append(cells, fmt.Sprintf("%.2f", r.Sizes[h-1]))
		}
		for _, h := range ahead {
			cells = append(cells, fmt.Sprintf("%.4g", r.Units[h-1]))
		}
		t.Append(append(cells, r.Fit)...)
	}
	n, curves := series.ErrorCurves(forecastErrors(all))
	if n < 2 {
		return t
	}
	for _, c := range curves {
		cells := []string{fmt.Sprintf("mean of %d", n), c.Forecaster}
		for _, h := range ahead {
			cells = append(cells, fmt.Sprintf("%.2f", c.Mean[h-1]))
		}
		t.Append(append(cells, make([]string, len(ahead)+1)...)...)
	}
	return t
}

// forecastErrors converts the errors to sizes, in the form that plots and means use.
func forecastErrors(all []trainedForecast) []series.ForecastError {
	errors := make([]series.ForecastError, len(all))
	for i, r := range all {
		errors[i] = series.ForecastError{Series: r.Series, Forecaster: r.Forecaster, RMSE: r.Sizes}
	}
	return errors
}

// errorRows returns a row for each series, forecaster and step ahead.
func errorRows(all []trainedForecast) [][]string {
	var rows [][]string
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, r := range all {
		for h := range r.Sizes {
			rows = append(rows, []string{r.Series, r.Forecaster, strconv.Itoa(h + 1), text(r.Sizes[h]), text(r.Units[h])})
		}
	}
	return rows
}
