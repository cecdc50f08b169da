package gang_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/series"
)

// forecastErrors returns the errors by series and forecaster.
func forecastErrors(tb testing.TB, change func(o *gang.Options), generated int, seed uint64) map[[2]string]series.ForecastError {
	tb.Helper()
	o := gang.DefaultOptions()
	o.Split = gang.SplitHeldOut
	change(&o)
	all, err := gang.ForecastErrors(o, generated, seed)
	if err != nil {
		tb.Fatal(err)
	}
	found := map[[2]string]series.ForecastError{}
	for _, e := range all {
		found[[2]string{e.Series, e.Forecaster}] = e
	}
	if len(found) != len(all) {
		tb.Fatalf("%d errors of %d series and forecasters", len(all), len(found))
	}
	return found
}

// TestForecastErrorsByHand: series that alternate between 0 and 40, sizes 10 and 50, for 60 hours and
// are 10, size 20, from then on. The last value is wrong once, by 30. What was a day ago, to which
// seasonal is fitted since it is right throughout the training part, is wrong as long as it looks back
// into that: a step ahead 12 times by −10 and 12 times by 30, twenty ahead twice and three times.
func TestForecastErrorsByHand(t *testing.T) {
	found := forecastErrors(t, func(o *gang.Options) { o.Data, o.Steps = handData(t), 3 }, 0, 0)
	for forecaster, want := range map[string][5]float64{ // RMSE 1 and 20 steps ahead, MAE and bias 1 step ahead, raw RMSE 20 ahead
		series.Persistence: {math.Sqrt(0.9), math.Sqrt(0.9), 0.03, 0.03, math.Sqrt(0.9)},
		series.Seasonal:    {math.Sqrt(12), math.Sqrt(2.9), 0.48, 0.24, math.Sqrt(2.9)},
		series.PreviousDay: {math.Sqrt(12), math.Sqrt(2.9), 0.48, 0.24, math.Sqrt(2.9)},
	} {
		e := found[[2]string{"y", forecaster}]
		if len(e.RMSE) != 20 || e.Steps != 1000 || e.Count != 1 {
			t.Fatalf("%s: %d steps ahead at %d steps of %d series, want 20, 1000 and 1", forecaster, len(e.RMSE), e.Steps, e.Count)
		}
		for i, got := range []float64{e.RMSE[0], e.RMSE[19], e.MAE[0], e.Bias[0], e.RMSERaw[19]} {
			if math.Abs(got-want[i]) > 1e-12 {
				t.Errorf("%s: number %d is %v, want %v", forecaster, i, got, want[i])
			}
		}
	}
	if diff := cmp.Diff([]series.Predictor{{Period: 24}}, found[[2]string{"x", series.Seasonal}].Fits); diff != "" {
		t.Errorf("fit (-want +got):\n%s", diff)
	}
	if len(found) != 9 { // a week is longer than the training part
		t.Errorf("%d series and forecasters, want 3 of 3", len(found))
	}
}

// TestForecastErrorsOnRecord compares with errors on record, of the same forecasts at the same steps
// but in sizes on another scale, on which the extremes of the steps themselves are 10 and 50.
func TestForecastErrorsOnRecord(t *testing.T) {
	dir := envstest.Data(t, "gang", gangtest.ProfileFile)
	found := forecastErrors(t, func(o *gang.Options) { o.Data = dir }, 0, 0)
	for name, forecasters := range map[string]map[string][4]float64{ // 1, 5, 10 and 20 steps ahead
		"nyc_taxi_1":                           {"file": {1.60, 6.35, 10.44, 13.74}, "persistence": {2.54, 10.11, 15.76, 17.11}, "previous_day": {5.90, 5.97, 6.02, 6.01}, "previous_week": {1.70, 1.71, 1.71, 1.69}},
		"nyc_taxi_2":                           {"file": {1.58, 6.51, 10.34, 12.16}, "persistence": {2.41, 9.31, 14.33, 15.64}, "previous_day": {5.71, 5.84, 6.11, 6.22}, "previous_week": {3.53, 3.51, 3.50, 3.35}},
		"nyc_taxi_3":                           {"file": {1.86, 7.58, 14.46, 14.29}, "persistence": {2.08, 7.43, 11.39, 12.21}, "previous_day": {4.79, 4.79, 4.77, 4.60}, "previous_week": {1.51, 1.52, 1.51, 1.50}},
		"nyc_taxi_4":                           {"file": {1.67, 6.41, 10.51, 13.27}, "persistence": {2.31, 8.90, 13.76, 15.70}, "previous_day": {7.65, 7.66, 7.66, 7.65}, "previous_week": {4.73, 4.71, 4.68, 4.60}},
		"art_daily_small_noise":                {"file": {3.95, 7.67, 11.45, 16.99}, "persistence": {4.17, 7.88, 11.61, 17.15}, "previous_day": {2.42, 2.42, 2.42, 2.42}},
		"ambient_temperature_system_failure_1": {"file": {1.97, 3.28, 4.60, 5.33}, "persistence": {2.17, 3.91, 5.67, 5.72}, "previous_day": {5.65, 5.66, 5.66, 5.65}},
		"ambient_temperature_system_failure_2": {"file": {2.09, 2.95, 3.67, 4.20}, "persistence": {2.42, 3.57, 4.70, 4.63}, "previous_day": {4.55, 4.54, 4.55, 4.59}},
		"ambient_temperature_system_failure_3": {"file": {2.55, 5.87, 8.53, 7.81}, "persistence": {2.56, 5.85, 8.74, 8.16}, "previous_day": {7.86, 7.86, 7.85, 7.90}},
	} {
		s, err := series.Read(filepath.Join(dir, "series", name+".csv"), 1019)
		if err != nil {
			t.Fatal(err)
		}
		last := s.Values[len(s.Values)-1019:]
		unit := (slices.Max(last) - slices.Min(last)) / 40
		for forecaster, want := range forecasters {
			e := found[[2]string{name, forecaster}]
			if e.Steps != 1000 {
				t.Fatalf("%s of %s at %d steps, want 1000", forecaster, name, e.Steps)
			}
			for i, h := range []int{1, 5, 10, 20} {
				if got := e.RMSERaw[h-1] / unit; math.Abs(got-want[i]) > 0.0051 { // two decimals
					t.Errorf("%s of %s, %d steps ahead: RMSE %.4f, want %.2f", forecaster, name, h, got, want[i])
				}
			}
		}
	}
}

// TestForecastErrorsOfTheTrainingPart: seasonal is fitted there, by the error up to ten steps ahead,
// and repeating the last value is among its choices.
func TestForecastErrorsOfTheTrainingPart(t *testing.T) {
	found := forecastErrors(t, func(o *gang.Options) {
		o.Data, o.Split = envstest.Data(t, "gang", gangtest.ProfileFile), gang.SplitTrain
	}, 0, 0)
	mean := func(e series.ForecastError) (sum float64) {
		for _, x := range e.RMSERaw[:10] {
			sum += x * x / 10
		}
		return math.Sqrt(sum)
	}
	count := 0
	for key, e := range found {
		if key[1] == series.FromFile {
			t.Errorf("forecasts of a file, which has none of the training part: %v", key)
		}
		if key[1] != series.Seasonal {
			continue
		}
		count++
		for _, other := range []string{series.Persistence, series.PreviousDay, series.PreviousWeek} {
			// The fit takes every fifth step.
			if o, ok := found[[2]string{key[0], other}]; ok && mean(e) > 1.02*mean(o) {
				t.Errorf("%s: seasonal %v, %s %v", key[0], mean(e), other, mean(o))
			}
		}
	}
	if count != 8 {
		t.Errorf("%d series, want 8", count)
	}
}

// TestForecastErrorsOfParts: hourly series whose training part is of size 50 and 10 in turn for 60 rows, and of size 30
// for the 30 of validation, its last third. Forecasts of 20 steps in them are made at rows 60 to 70. There the last
// value is wrong at row 60 only, by 20; in the rows of fit by 40 at every step. What was a day ago needs 25 rows before.
func TestForecastErrorsOfParts(t *testing.T) {
	data := handData(t)
	text := strings.Builder{}
	text.WriteString("timestamp,value\n")
	for i := range 90 + series.HeldOutRows {
		value := 50 - 40*(i%2)
		if i >= 60 {
			value = 30
		}
		fmt.Fprintf(&text, "2026-%02d-%02d %02d:00:00,%d\n", 1+i/24/28, 1+i/24%28, i%24, value)
	}
	write(t, filepath.Join(data, "series", "y.csv"), text.String())
	for _, tc := range []struct {
		split string
		steps int     // with a forecast
		rmse  float64 // of the last value, one step ahead
	}{
		{gang.SplitTrain, 46, math.Sqrt((35*40*40 + 20*20) / 46.)},
		{gang.SplitFit, 16, 40},
		{gang.SplitValidation, 11, math.Sqrt(20 * 20 / 11.)},
		{gang.SplitHeldOut, 1000, 0},
	} {
		e := forecastErrors(t, func(o *gang.Options) {
			o.Data, o.Series, o.Split, o.Steps = data, []string{"y"}, tc.split, 10
		}, 0, 0)[[2]string{"y", series.Persistence}]
		if e.Steps != tc.steps || math.Abs(e.RMSE[0]-tc.rmse) > 1e-12 {
			t.Errorf("split %s: RMSE %v over %d steps, want %v over %d", tc.split, e.RMSE[0], e.Steps, tc.rmse, tc.steps)
		}
	}
}

// TestForecastErrorsOfGeneratedSeries: equal seeds give equal series, of each of the three laws some.
// The law with a week repeats it but for disturbances that are a twenty-fifth of its height.
func TestForecastErrorsOfGeneratedSeries(t *testing.T) {
	none := func(*gang.Options) {}
	found, again := forecastErrors(t, none, 24, 7), forecastErrors(t, none, 24, 7)
	if diff := cmp.Diff(found, again); diff != "" {
		t.Errorf("equal seeds differ:\n%s", diff)
	}
	count := 0
	for _, day := range []string{"24", "48", "144"} {
		count += found[[2]string{"generated, " + day + " steps a day", series.Seasonal}].Count
	}
	if count != 24 {
		t.Errorf("%d series of three laws, want 24: %v", count, found)
	}
	e := found[[2]string{"generated, 48 steps a day", series.Seasonal}]
	if len(e.Fits) != e.Count || e.Steps != 1000*e.Count {
		t.Errorf("%d series at %d steps with %d fits, want 1000 steps of each and a fit", e.Count, e.Steps, len(e.Fits))
	}
	// Of the disturbance, whose deviation is 0.04, a week later nothing is left: 0.04·√2.
	week := found[[2]string{"generated, 48 steps a day", series.PreviousWeek}]
	if math.Abs(week.RMSERaw[0]-0.04*math.Sqrt2) > 0.003 {
		t.Errorf("what was a week ago is off by %v, want %v", week.RMSERaw[0], 0.04*math.Sqrt2)
	}
	// Their training part has two weeks, which weekly repeats and seasonal does not.
	weekly := found[[2]string{"generated, 48 steps a day", series.Weekly}]
	for i, fit := range weekly.Fits {
		if fit.Period != 7*48 || e.Fits[i].Period != 48 {
			t.Errorf("series %d: weekly has a period of %d, seasonal of %d, want 336 and 48", i, fit.Period, e.Fits[i].Period)
		}
	}
	t.Logf("off by %.2f one step ahead and %.2f ten steps ahead with weekly, %.2f and %.2f with seasonal, %.2f and %.2f a week ago",
		weekly.RMSE[0], weekly.RMSE[9], e.RMSE[0], e.RMSE[9], week.RMSE[0], week.RMSE[9])
	if len(weekly.Fits) != e.Count || weekly.RMSE[0] >= week.RMSE[0] || weekly.RMSE[9] > 1.02*week.RMSE[9] || weekly.RMSE[9] > e.RMSE[9]/2 {
		t.Errorf("%d fits; errors %v, seasonal %v, a week ago %v", len(weekly.Fits), weekly.RMSE, e.RMSE, week.RMSE)
	}
}

func TestForecastErrorsRefuses(t *testing.T) {
	compatible := gang.DefaultOptions()
	compatible.Dynamics, compatible.Data, compatible.Forecaster = gang.DynamicsCompatible, t.TempDir(), series.FromFile
	if _, err := gang.ForecastErrors(compatible, 1, 0); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("compatible dynamics: %v, want ErrInvalidOption", err)
	}
	if _, err := gang.ForecastErrors(gang.DefaultOptions(), 0, 0); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("no series: %v, want ErrInvalidOption", err)
	}
	short := gang.DefaultOptions() // of 30 rows of training, 11 are of validation: a step and the ten that it predicts
	short.Data, short.Steps, short.Split = gangtest.HandData(t, 1, 30), 1, gang.SplitFit
	if _, err := gang.ForecastErrors(short, 0, 0); !errors.Is(err, envs.ErrInvalidOption) || !strings.Contains(err.Error(), "the fit part of series x has no step at which to forecast 20 steps") {
		t.Errorf("a part of 19 rows: %v, want ErrInvalidOption", err)
	}
	broken := gang.DefaultOptions()
	broken.Data, broken.Steps = handData(t), 3
	for text, want := range map[string]string{
		"# t,t+2\n": `column 2 is "t+2"`,
		"# t,t+1" + strings.Repeat("\n10,10", 1000): "2 columns, want at least 20", // none of them 20 steps ahead
	} {
		write(t, filepath.Join(broken.Data, "forecasts", "y_forecasts.csv"), text)
		if _, err := gang.ForecastErrors(broken, 0, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a broken file of forecasts: %v, want %s", err, want)
		}
	}
}
