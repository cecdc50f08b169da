package published_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/published"
	"github.com/kubernasium/kubernasium/envs/gang/series"
)

func TestNewTrace(t *testing.T) {
	planned := []*series.Rows{
		{Name: "a", Columns: 2, Values: []float64{1, 2, 3, 4}},
		{Name: "b", Columns: 2, Values: []float64{5, 6, 7, 8}},
	}
	truth := []*series.Rows{
		{Name: "a", Columns: 1, Values: []float64{9, 10}},
		{Name: "b", Columns: 2, Values: []float64{11, 0, 12, 0}},
	}
	got, err := published.NewTrace(planned, truth)
	if err != nil {
		t.Fatal(err)
	}
	want := &planner.Trace{Steps: 2, Columns: 2, Tasks: 2,
		Planned: []float64{1, 5, 2, 6, 3, 7, 4, 8}, True: []float64{9, 11, 10, 12}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trace differs (-want +got):\n%s", diff)
	}
	truth[1].Values = truth[1].Values[:2]
	message := "gang: b: 2×2 planned and 1 true rows, want 2×2 and 2 like a"
	if _, err := published.NewTrace(planned, truth); err == nil || err.Error() != message {
		t.Errorf("NewTrace: error %v, want %s", err, message)
	}
	message = "gang: 2 planned and 1 true tables, want one of each for every task"
	if _, err := published.NewTrace(planned, truth[:1]); err == nil || err.Error() != message {
		t.Errorf("NewTrace: error %v, want %s", err, message)
	}
}

func TestReferenceSizes(t *testing.T) {
	dir := envstest.Data(t, "gang", gangtest.ProfileFile)
	data, err := published.ReadDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows := gangtest.Reference(t, dir, "sizes_h0.csv")
	if len(rows) != 620 {
		t.Errorf("%d rows, want 620", len(rows))
	}
	n, tasks := data.Forecast.Tasks, data.Model.Profile().Tasks
	for i, row := range rows {
		for k, task := range tasks {
			actual, forecast := data.Actual.True[i*n+k], data.Forecast.Planned[i*data.Forecast.Columns*n+k]
			// The files of the earlier project, from which the reference is made, hold
			// float32; the series differ by up to 2.3e-6 of a size.
			if want := gangtest.Number(t, row, "actual_"+task); math.Abs(actual-want) > 2.3e-6 {
				t.Errorf("true size of %s at %d = %v, want %v", task, i, actual, want)
			}
			if want := gangtest.Number(t, row, "forecast_"+task); math.Abs(forecast-want) > 1e-9 {
				t.Errorf("forecast size of %s at %d = %v, want %v", task, i, forecast, want)
			}
			if got := data.Actual.Planned[i*data.Actual.Columns*n+k]; got != actual {
				t.Errorf("planned size of %s at %d with perfect knowledge = %v, want %v", task, i, got, actual)
			}
		}
	}
}
