package gang

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/gang/series"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// gangData returns the folder of series and profile, or skips.
func gangData(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(cli.DataFolder(), "gang")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("%v: set %s to the folder that holds gang/ to enable this test", err, cli.DataVariable)
	}
	return dir
}

func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestGangForecast compares generated series: the output, the file and the JSON agree.
func TestGangForecast(t *testing.T) {
	dir := t.TempDir()
	args := []string{"gang", "forecast", "--draws", "12", "--seed", "3", "--csv", filepath.Join(dir, "f.csv"), "--plot", filepath.Join(dir, "f.png")}
	all := clitest.Decode[[]series.ForecastError](t, mustExecute(t, append(args, "--json")...))
	text := mustExecute(t, args...)
	clitest.CheckPNG(t, filepath.Join(dir, "f.png"), 750)
	rows := readCSV(t, filepath.Join(dir, "f.csv"))
	if len(rows) != 1+20*len(all) {
		t.Fatalf("%d rows, want a header and 20 of each of %d", len(rows), len(all))
	}
	lines := map[string]bool{}
	for line := range strings.Lines(text) {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	drawn, mean := 0, map[string]float64{}
	for i, e := range all {
		for h, want := range e.RMSE {
			row := rows[1+20*i+h]
			if got, err := strconv.ParseFloat(row[5], 64); err != nil || got != want || row[0] != e.Series || row[2] != e.Forecaster || row[3] != strconv.Itoa(h+1) {
				t.Fatalf("row %v, want %s of %s, %d ahead: %v", row, e.Forecaster, e.Series, h+1, want)
			}
		}
		want := fmt.Sprintf("%s %d %s %.2f %.2f %.2f %.2f %s", e.Series, e.Count, e.Forecaster, e.RMSE[0], e.RMSE[4], e.RMSE[9], e.RMSE[19], fitText(e.Fits))
		if !lines[strings.TrimSpace(want)] {
			t.Errorf("no line %q in\n%s", want, text)
		}
		if e.Forecaster == series.Persistence {
			drawn += e.Count
		}
		mean[e.Forecaster] += e.RMSE[9]
	}
	if drawn != 12 {
		t.Errorf("%d series, want 12", drawn)
	}
	count := 0.0
	for _, e := range all {
		if e.Forecaster == series.Seasonal {
			count++
		}
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "mean of the above") {
			continue
		}
		f := strings.Fields(line) // mean, of, the, above, count, forecaster, 1, 5, 10 and 20 steps ahead
		if got, err := strconv.ParseFloat(f[8], 64); err != nil || math.Abs(got-mean[f[5]]/count) > 0.0051 {
			t.Errorf("%s: mean %v at 10 steps ahead, want %v", f[5], f[8], mean[f[5]]/count)
		}
	}
	if !strings.Contains(text, "mean of the above") || strings.Contains(text, "file") {
		t.Errorf("want means over generated series, and none of a file:\n%s", text)
	}
}

func TestFitText(t *testing.T) {
	half := series.Predictor{Period: 48, Fade: 0.5}
	for _, tc := range []struct {
		fits []series.Predictor
		want string
	}{
		{nil, ""},
		{[]series.Predictor{{}}, "the last value"},
		{[]series.Predictor{half}, "period 48, fade 0.50"},
		{[]series.Predictor{half, {Period: 7, Fade: 1}, {}, {Period: 48, Fade: 0.7}}, "the last value (1); period 7, fade 1.00 (1); period 48, fade 0.60 (2)"},
	} {
		if got := fitText(tc.fits); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.fits, got, tc.want)
		}
	}
}

// TestGangForecastOfData: with data the series are the folder's, held out unless asked for otherwise,
// and forecasts of files are the published ones.
func TestGangForecastOfData(t *testing.T) {
	of := func(args ...string) map[string]series.ForecastError {
		args = append([]string{"gang", "forecast", "--json", "--env-kwargs", "data:" + gangData(t), "--env-kwargs", "series:[nyc_taxi_1]"}, args...)
		all := clitest.Decode[[]series.ForecastError](t, mustExecute(t, args...))
		found := map[string]series.ForecastError{}
		for _, e := range all {
			found[e.Forecaster] = e
		}
		return found
	}
	held, trained := of(), of("--env-kwargs", "split:train")
	if e := held["file"]; len(held) != 5 || e.Series != "nyc_taxi_1" || e.Count != 1 || e.Steps != 1000 {
		t.Errorf("%d forecasters; of the file: %+v", len(held), e)
	}
	if _, ok := trained["file"]; ok || len(trained) != 4 || trained["seasonal"].Steps == 0 || trained["seasonal"].Steps == 1000 {
		t.Errorf("training part: %d forecasters, %d steps, want 4 without the file's and other steps than those held out", len(trained), trained["seasonal"].Steps)
	}
	// Published errors, on a scale of other extremes, are in this proportion.
	if got := held["file"].RMSE[9] / held["persistence"].RMSE[9]; math.Abs(got-10.44/15.76) > 0.001 {
		t.Errorf("the file's errors are %v of persistence's, want %v", got, 10.44/15.76)
	}
}

func TestGangForecastRefuses(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--draws", "0"}, "0 generated series"},
		{[]string{"--env-kwargs", "data"}, "want key:value"},
		{[]string{"--env-kwargs", "nothing:1"}, "nothing"},
		{[]string{"--env-kwargs", "data:nowhere"}, "nowhere"},
		{[]string{"--env-kwargs", "split:all"}, "split"},
		{[]string{"--draws", "1", "--csv", "nowhere/f.csv"}, "nowhere/f.csv"},
		{[]string{"--draws", "1", "--plot", "nowhere/f.png"}, "nowhere/f.png"},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"gang", "forecast"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("gang forecast %v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
