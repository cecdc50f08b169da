package gang

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/seriesforecast"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/envs/gang/series"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// gangForecastConfig holds the arguments of `gang forecast`.
type gangForecastConfig struct {
	given map[string]any
	draws int
	seed  uint64
	csv   string
	plot  string
	train trainForecast
}

func newGangForecast() *cobra.Command {
	var c gangForecastConfig
	cmd := &cobra.Command{
		Use:   "forecast",
		Short: "Compare the errors of forecasters of workload sizes by steps ahead",
		Long: `Compare the errors of forecasters of workload sizes by steps ahead.

Planners of ` + gangEnv + ` see forecasts of the series that give its tasks their sizes. With the
option data it takes the series of that folder, with their own forecasts where the folder has some,
and else series as episodes generate them. Forecasts are made at every step of the held-out part, or by
split:train of the training part, on which all is fitted; split:fit and split:validation are the two parts
of that. One step ahead is the present superstep.
The table has root mean squares in workload sizes; --csv and --json have every step ahead, with mean
absolute errors, biases, and root mean squares in units of the series.

With --train, it fits a forecaster to all but the last 1000 forecasts of each file of --series, and writes its
forecasts of these to --out as NAME_forecasts.csv, which the environment reads from the folder forecasts of the
option data. The model ridge is a regression of what the seasonal forecaster is off by, holt-winters exponential
smoothing, lstm a network trained by gradient descent, and best the one of these that is best on the last quarter
of the fitted part.`,
		Example: `  trainer gang forecast
  trainer gang forecast --env-kwargs data:../shared/data/gang --plot forecast.png
  trainer gang forecast --train --model lstm --series ../shared/data/gang/series/nyc_taxi_1.csv --out mine/forecasts
  trainer gang forecast --env-kwargs data:mine --env-kwargs 'series:[web, db]' --csv forecast.csv --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.train.on {
				return c.train.run(cmd, c.seed, c.csv, c.plot)
			}
			for _, name := range []string{"model", "series", "out", "horizon"} {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s has no effect without --train", name)
				}
			}
			all, err := cli.Computed(cmd.Context(), c.run)
			if err != nil {
				return err
			}
			if err := cli.WriteTo(c.csv, func(w io.Writer) error { return series.WriteErrors(w, all) }); err != nil {
				return err
			}
			if c.plot != "" {
				if err := plotForecasts(c.plot, all); err != nil {
					return err
				}
			}
			return cli.Print(cmd, all, forecastTable(all).WriteText)
		},
	}
	f := cmd.Flags()
	cli.KwargsVar(f, &c.given, "env-kwargs", "option key:value of the environment: data, series, split, steps, size_low, size_high (repeat)")
	f.IntVar(&c.draws, "draws", 60, "number of generated series, if there are no data")
	f.Uint64Var(&c.seed, "seed", play.CompareSeed, "random seed of the first generated series, or of an LSTM's training")
	f.StringVar(&c.csv, "csv", "", "CSV file with a row for each series, forecaster and step ahead")
	f.StringVar(&c.plot, "plot", "", "PNG file: the mean over the series, and their band")
	f.BoolVar(&c.train.on, "train", false, "fit a forecaster to series, and write its forecasts")
	f.StringVar(&c.train.model, "model", seriesforecast.Best, "with --train: "+strings.Join(seriesforecast.Names(), ", "))
	f.StringArrayVar(&c.train.files, "series", nil, "with --train: CSV file with the columns timestamp and value (repeat)")
	f.IntVar(&c.train.horizon, "horizon", series.ForecastColumns, "with --train: steps ahead; environments read files of at least 20")
	f.StringVar(&c.train.out, "out", "", "with --train: folder to write forecasts to")
	return cmd
}

func (c *gangForecastConfig) run() ([]series.ForecastError, error) {
	spec, err := envs.Lookup(gangEnv)
	if err != nil {
		return nil, err
	}
	o := gang.DefaultOptions()
	if err := envs.DecodeOptions(play.HeldOut(spec, nil, c.given), &o); err != nil {
		return nil, err
	}
	notes, err := gang.Notes(o)
	if err != nil {
		return nil, err
	}
	play.WarnOnce(notes)
	if err := play.CheckSeed(c.seed, c.draws); err != nil {
		return nil, err
	}
	return gang.ForecastErrors(o, c.draws, c.seed)
}

// forecastTable returns a row for each series and forecaster, and the means of the forecasters that all series
// have.
func forecastTable(all []series.ForecastError) *tracking.Table {
	ahead := []int{1, 5, 10, 20}
	names := []string{"series", ">count", "forecaster"}
	for _, h := range ahead {
		names = append(names, fmt.Sprintf(">RMSE at %d", h))
	}
	t := tracking.NewTable(append(names, "fitted to")...)
	appendRow := func(series string, count int, forecaster string, rmse []float64, fit string) {
		cells := []string{series, strconv.Itoa(count), forecaster}
		for _, h := range ahead {
			cells = append(cells, fmt.Sprintf("%.2f", rmse[h-1]))
		}
		t.Append(append(cells, fit)...)
	}
	for _, e := range all {
		appendRow(e.Series, e.Count, e.Forecaster, e.RMSE, fitText(e.Fits))
	}
	n, curves := series.ErrorCurves(all)
	if n < 2 {
		return t
	}
	for _, c := range curves {
		appendRow("mean of the above", n, c.Forecaster, c.Mean, "")
	}
	return t
}

// fitText describes the data to which forecasters of series were fitted, by period.
func fitText(fits []series.Predictor) string {
	count, fade := map[int]int{}, map[int]float64{}
	var periods []int
	for _, f := range fits {
		if count[f.Period]++; count[f.Period] == 1 {
			periods = append(periods, f.Period)
		}
		fade[f.Period] += f.Fade
	}
	slices.Sort(periods)
	var parts []string
	for _, p := range periods {
		text := "the last value"
		if p > 0 {
			text = fmt.Sprintf("period %d, fade %.2f", p, fade[p]/float64(count[p]))
		}
		if len(fits) > 1 {
			text += fmt.Sprintf(" (%d)", count[p])
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func plotForecasts(path string, all []series.ForecastError) error {
	n, curves := series.ErrorCurves(all)
	title := fmt.Sprintf("Error of forecasts of workload sizes: mean of %d series, lowest to highest", n)
	if n == 1 {
		title = "Error of forecasts of workload sizes: " + all[0].Series
	}
	var lines []tracking.Series
	for _, c := range curves {
		line := tracking.Series{Name: c.Forecaster, Mean: c.Mean}
		for h := range c.Mean {
			line.Steps = append(line.Steps, int64(h+1))
		}
		if n > 1 {
			line.Low, line.High = c.Low, c.High
		}
		lines = append(lines, line)
	}
	return tracking.Curves(path, title, "steps ahead", "RMSE in workload sizes", lines, nil)
}
