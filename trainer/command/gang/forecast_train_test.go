package gang

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/seriesforecast"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/series"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// writeSeries writes n hourly values of a daily wave that grows, and returns the file.
func writeSeries(t *testing.T, name string, n int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("timestamp,value\n")
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		fmt.Fprintf(&b, "%s,%.6f\n", at.Format("2006-01-02 15:04:05"), 100+0.01*float64(i)+20*math.Sin(2*math.Pi*float64(i%24)/24))
		at = at.Add(time.Hour)
	}
	return envstest.TempFile(t, name+".csv", b.String())
}

// TestGangForecastTrain fits a forecaster to two series: its files are those that environments read, and
// the errors that it reports are those of the files.
func TestGangForecastTrain(t *testing.T) {
	a, b, out := writeSeries(t, "a", 1500), writeSeries(t, "b", 1400), t.TempDir()
	args := []string{"gang", "forecast", "--train", "--model", "holt-winters", "--series", a, "--series", b, "--out", out,
		"--csv", filepath.Join(out, "errors.csv"), "--plot", filepath.Join(out, "errors.png")}
	all := clitest.Decode[[]trainedForecast](t, mustExecute(t, append(args, "--json")...))
	if len(all) != 2*4 {
		t.Fatalf("%d rows, want the model, persistence, and a day and a week ago, of two series", len(all))
	}
	for i, file := range []string{a, b} {
		r := all[4*i]
		s, err := series.Read(file, 1)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := series.ReadForecasts(filepath.Join(out, r.Series+"_forecasts.csv"), series.ForecastRows)
		if err != nil {
			t.Fatal(err)
		}
		truth, err := s.Actual()
		if err != nil {
			t.Fatal(err)
		}
		got, err := seriesforecast.Measure(rows, truth)
		if err != nil {
			t.Fatal(err)
		}
		for h := range got.Units {
			if math.Abs(got.Units[h]-r.Units[h]) > 1e-5 || math.Abs(got.Sizes[h]-r.Sizes[h]) > 1e-5 {
				t.Errorf("%s, %d steps ahead: the file is off by %v and %v, told are %v and %v", r.Series, h+1, got.Units[h], got.Sizes[h], r.Units[h], r.Sizes[h])
			}
		}
		// By hand: a day ago the value was 24·0.01 less, a week ago seven times that.
		if d, w := all[4*i+2], all[4*i+3]; math.Abs(d.Units[9]-0.24) > 1e-5 || math.Abs(w.Units[9]-1.68) > 1e-5 || d.Forecaster != series.PreviousDay {
			t.Errorf("%s is off by %v and %s by %v, want 0.24 and 1.68", d.Forecaster, d.Units[9], w.Forecaster, w.Units[9])
		}
		if r.Units[9] > 0.24/2 || r.Trained != len(s.Values)-1019 {
			t.Errorf("%+v: want an error below that of the day before, from %d values", r, len(s.Values)-1019)
		}
	}
	clitest.CheckPNG(t, filepath.Join(out, "errors.png"), 750)
	if rows := readCSV(t, filepath.Join(out, "errors.csv")); len(rows) != 1+8*20 {
		t.Errorf("%d rows of errors, want a header and 160", len(rows))
	}
	text := mustExecute(t, args...)
	if !strings.Contains(text, "mean of 2") || !strings.Contains(text, "previous_week") {
		t.Errorf("the table lacks means or baselines:\n%s", text)
	}
	// The environment plays on the files.
	data := filepath.Join(t.TempDir(), "data")
	for from, to := range map[string]string{a: "series/a.csv", filepath.Join(out, "a_forecasts.csv"): "forecasts/a_forecasts.csv"} {
		envstest.Write(t, filepath.Join(data, to), envstest.Read(t, from))
	}
	errs := clitest.Decode[[]series.ForecastError](t, mustExecute(t, "gang", "forecast", "--env-kwargs", "data:"+data, "--env-kwargs", "series:[a]", "--json"))
	found := false
	for _, e := range errs {
		if e.Forecaster == series.FromFile {
			found = true
			if diff := cmp.Diff(all[0].Units[9], e.RMSERaw[9], cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) < 1e-5 })); diff != "" {
				t.Errorf("the environment's forecasts of the file are off otherwise:\n%s", diff)
			}
		}
	}
	if !found {
		t.Error("the environment does not read the file")
	}
}

func TestGangForecastTrainRefuses(t *testing.T) {
	short := writeSeries(t, "short", 1060)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--train", "--out", t.TempDir()}, "--train needs --series FILE and --out DIR"},
		{[]string{"--train", "--series", short}, "--train needs --series FILE and --out DIR"},
		{[]string{"--train", "--series", short, "--out", t.TempDir(), "--model", "arima"}, `--model "arima", want one of lstm, ridge, holt-winters, best`},
		{[]string{"--train", "--series", short, "--out", t.TempDir(), "--horizon", "0"}, "--horizon 0"},
		{[]string{"--train", "--series", short, "--out", t.TempDir()}, "for 41 training values"},
		{[]string{"--train", "--series", "missing.csv", "--out", t.TempDir()}, "missing.csv"},
		{[]string{"--model", "ridge"}, "--model has no effect without --train"},
	} {
		if _, _, err := execute(t, t.Context(), append([]string{"gang", "forecast"}, tc.args...)...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: error %v, want one with %q", tc.args, err, tc.want)
		}
	}
}
