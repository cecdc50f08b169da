package published

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/envs/gang/series"
)

// Tasks names the tasks of Kube_Gang_Scheduling (E. Wang, 2021), in its order,
// with the series of the Numenta Anomaly Benchmark that drives each.
var Tasks = []struct{ Task, Series string }{
	{"affinity", "nyc_taxi_1"},
	{"atomic", "nyc_taxi_2"},
	{"bsearch", "nyc_taxi_3"},
	{"cap", "nyc_taxi_4"},
	{"chmod", "art_daily_small_noise"},
	{"memcpy", "ambient_temperature_system_failure_1"},
	{"vecmath", "ambient_temperature_system_failure_2"},
	{"zero", "ambient_temperature_system_failure_3"},
}

// SeriesNames returns the given series. If none is given, it returns those of Tasks if all of them are in dir, or else
// all series in dir.
func SeriesNames(dir string, given []string) ([]string, error) {
	if len(given) > 0 {
		return given, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "series", "*.csv"))
	if err != nil {
		return nil, fmt.Errorf("gang: list series: %w", err)
	}
	var there, wanted []string
	for _, f := range files {
		there = append(there, strings.TrimSuffix(filepath.Base(f), ".csv"))
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("gang: no file *.csv in %s", filepath.Join(dir, "series"))
	}
	for _, c := range Tasks {
		if !slices.Contains(there, c.Series) {
			return there, nil
		}
		wanted = append(wanted, c.Series)
	}
	return wanted, nil
}

// Dataset is the public data of Kube_Gang_Scheduling (E. Wang, 2021).
type Dataset struct {
	Model    *profile.Model
	Forecast *planner.Trace // planned sizes are forecasts
	Actual   *planner.Trace // planned sizes are the true ones
}

// ReadDataset reads profile/workload_profiling.csv, the series and the forecasts of the
// eight tasks below dir.
func ReadDataset(dir string) (*Dataset, error) {
	path := filepath.Join(dir, "profile", "workload_profiling.csv")
	measured, err := profile.Read(path)
	if err != nil {
		return nil, err
	}
	if len(measured.Tasks) != len(Tasks) {
		return nil, fmt.Errorf("gang: %s: %d tasks, want %d", path, len(measured.Tasks), len(Tasks))
	}
	var forecast, actual []*series.Rows
	for k, c := range Tasks {
		if measured.Tasks[k] != c.Task {
			return nil, fmt.Errorf("gang: %s: task %d is %s, want %s", path, k, measured.Tasks[k], c.Task)
		}
		f, a, err := readTask(dir, c.Series)
		if err != nil {
			return nil, err
		}
		forecast, actual = append(forecast, f), append(actual, a)
	}
	d := &Dataset{}
	if d.Model, err = profile.NewModel(measured, profile.DefaultModelConfig()); err != nil {
		return nil, err
	}
	if d.Forecast, err = NewTrace(forecast, actual); err != nil {
		return nil, err
	}
	d.Actual, err = NewTrace(actual, actual)
	return d, err
}

// readTask returns the scaled forecasts and actual values of one series.
func readTask(dir, name string) (forecast, actual *series.Rows, err error) {
	forecast, err = series.ReadForecasts(filepath.Join(dir, "forecasts", name+"_forecasts.csv"), series.ForecastRows)
	if err != nil {
		return nil, nil, err
	}
	s, err := series.Read(filepath.Join(dir, "series", name+".csv"), series.ForecastRows+series.ForecastColumns)
	if err != nil {
		return nil, nil, err
	}
	if actual, err = s.Actual(); err != nil {
		return nil, nil, err
	}
	if forecast, err = forecast.Scale(); err != nil {
		return nil, nil, err
	}
	actual, err = actual.Scale()
	return forecast, actual, err
}

// NewTrace joins scaled rows, one table for each task, to a trace. Planners see planned; executed sizes are the first
// columns of truth. All tables must have equally many rows, and those of planned equally many columns.
func NewTrace(planned, truth []*series.Rows) (*planner.Trace, error) {
	if len(planned) == 0 || len(planned) != len(truth) {
		return nil, fmt.Errorf("gang: %d planned and %d true tables, want one of each for every task", len(planned), len(truth))
	}
	tr := &planner.Trace{Steps: planned[0].Len(), Columns: planned[0].Columns, Tasks: len(planned)}
	tr.Planned = make([]float64, tr.Steps*tr.Columns*tr.Tasks)
	tr.True = make([]float64, tr.Steps*tr.Tasks)
	for k, rows := range planned {
		if rows.Len() != tr.Steps || rows.Columns != tr.Columns || truth[k].Len() != tr.Steps {
			return nil, fmt.Errorf("gang: %s: %d×%d planned and %d true rows, want %d×%d and %d like %s",
				rows.Name, rows.Len(), rows.Columns, truth[k].Len(), tr.Steps, tr.Columns, tr.Steps, planned[0].Name)
		}
		for i, v := range rows.Values {
			tr.Planned[i*tr.Tasks+k] = v
		}
		for t := range tr.Steps {
			tr.True[t*tr.Tasks+k] = truth[k].Values[t*truth[k].Columns]
		}
	}
	return tr, nil
}
