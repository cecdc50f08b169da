package series_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/series"
)

func TestParseSeries(t *testing.T) {
	got, err := series.Parse("s.csv", strings.NewReader("\ufeffvalue, timestamp\r\n1.5,2014-07-01 00:00:00\r\n-2,2014-07-01 00:30:00\r\n"), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := &series.Series{
		Name:   "s.csv",
		Times:  []time.Time{time.Date(2014, 7, 1, 0, 0, 0, 0, time.UTC), time.Date(2014, 7, 1, 0, 30, 0, 0, time.UTC)},
		Values: []float64{1.5, -2},
		Lines:  []int{2, 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series differs (-want +got):\n%s", diff)
	}
}

func TestParseSeriesErrors(t *testing.T) {
	const header = "timestamp,value\n"
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "gang: s.csv:1: empty file, want a header line"},
		{"missing column", "timestamp,values\n", `gang: s.csv:1: no column "value" among ["timestamp" "values"]`},
		{"bad time", header + "yesterday,1\n", `gang: s.csv:2: timestamp "yesterday" is not of the form "2006-01-02 15:04:05"`},
		{"bad value", header + "2014-07-01 00:00:00,x\n", `gang: s.csv:2: value "x" is not a number`},
		{"NaN", header + "2014-07-01 00:00:00,nan\n", `gang: s.csv:2: value "nan" is not finite`},
		{"unsorted", header + "2014-07-01 00:00:01,1\n2014-07-01 00:00:00,2\n",
			"gang: s.csv:3: timestamp 2014-07-01 00:00:00 does not come after 2014-07-01 00:00:01 of the row before"},
		{"duplicate", header + "2014-07-01 00:00:00,1\n2014-07-01 00:00:00,1\n",
			"gang: s.csv:3: timestamp 2014-07-01 00:00:00 does not come after 2014-07-01 00:00:00 of the row before"},
		{"too few", header + "2014-07-01 00:00:00,1\n", "gang: s.csv:2: 1 rows at the end of the file, want at least 2"},
		{"no rows", header, "gang: s.csv:1: 0 rows at the end of the file, want at least 2"},
	} {
		if _, err := series.Parse("s.csv", strings.NewReader(test.text), 2); err == nil || err.Error() != test.want {
			t.Errorf("%s: error %v, want %s", test.name, err, test.want)
		}
	}
	if _, err := series.Read("testdata/missing.csv", 1); err == nil || !strings.Contains(err.Error(), "testdata/missing.csv") {
		t.Errorf("ReadSeries of a missing file: error %v, want its path", err)
	}
}

func TestParseForecasts(t *testing.T) {
	got, err := series.ParseForecasts("f.csv", strings.NewReader("# t, t+1, t+2\n1,2,3\n4,5,6\n"), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := &series.Rows{Name: "f.csv", Columns: 3, Values: []float64{1, 2, 3, 4, 5, 6}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "gang: f.csv:1: empty file, want a header line"},
		{"header", "t, t+1\n", `gang: f.csv:1: column 1 is "t", want "# t"`},
		{"gap", "# t, t+2\n", `gang: f.csv:1: column 2 is "t+2", want "t+1"`},
		{"ragged", "# t, t+1\n1,2\n3\n", "gang: f.csv:3: 1 fields, want the header's 2"},
		{"bad number", "# t, t+1\n1,two\n", `gang: f.csv:2: t+1 "two" is not a number`},
		{"infinite", "# t, t+1\n+Inf,2\n", `gang: f.csv:2: # t "+Inf" is not finite`},
		{"too few", "# t, t+1\n1,2\n", "gang: f.csv:2: 1 rows at the end of the file, want at least 2"},
	} {
		if _, err := series.ParseForecasts("f.csv", strings.NewReader(test.text), 2); err == nil || err.Error() != test.want {
			t.Errorf("%s: error %v, want %s", test.name, err, test.want)
		}
	}
	if _, err := series.ReadForecasts("testdata/missing.csv", 1); err == nil || !strings.Contains(err.Error(), "testdata/missing.csv") {
		t.Errorf("ReadForecasts of a missing file: error %v, want its path", err)
	}
}

// Of a series longer than 5000 rows the first 5000 count, and of those the last 1019.
func TestActual(t *testing.T) {
	for _, n := range []int{1019, 2000, 5000, 6000} {
		s := &series.Series{Name: "s", Values: make([]float64, n)}
		for i := range s.Values {
			s.Values[i] = float64(i) + 0.1
		}
		rows, err := s.Actual()
		if err != nil {
			t.Fatal(err)
		}
		if rows.Columns != 20 || rows.Len() != 1000 {
			t.Fatalf("%d rows: Actual has shape %d×%d, want 1000×20", n, rows.Len(), rows.Columns)
		}
		for _, at := range [][2]int{{0, 0}, {0, 19}, {17, 3}, {999, 0}, {999, 19}} {
			i := min(n, 5000) - 1019 + at[0] + at[1]
			// The nearest float32, to six decimals.
			want := math.Round(float64(float32(float64(i)+0.1))*1e6) / 1e6
			if got := rows.Values[at[0]*20+at[1]]; got != want {
				t.Errorf("%d rows: Actual at %v = %v, want %v", n, at, got, want)
			}
		}
	}
	want := "gang: series s of 1018 rows, want at least 1019"
	if _, err := (&series.Series{Name: "s", Values: make([]float64, 1018)}).Actual(); err == nil || err.Error() != want {
		t.Errorf("Actual: error %v, want %s", err, want)
	}
}

func TestScale(t *testing.T) {
	rows := &series.Rows{Name: "r", Columns: 2, Values: []float64{0, -1, 4, 1, 1, 0}}
	got, err := rows.Scale()
	if err != nil {
		t.Fatal(err)
	}
	// Worked by hand: 10 + x·40/4 and 10 + (x+1)·40/2.
	want := &series.Rows{Name: "r", Columns: 2, Values: []float64{10, 10, 50, 50, 20, 30}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
	rows.Values[1], rows.Values[3], rows.Values[5] = 7, 7, 7
	message := "gang: r: column 2 is 7 in every row, which has no scale"
	if _, err := rows.Scale(); err == nil || err.Error() != message {
		t.Errorf("Scale: error %v, want %s", err, message)
	}
}

// One file of the public series has its clock set back.
func TestReadSeriesUnsortedFile(t *testing.T) {
	path := filepath.Join(envstest.Data(t, "gang", gangtest.ProfileFile), "series", "exchange-2_cpc_results.csv")
	_, err := series.Read(path, 1)
	if want := fmt.Sprintf("gang: %s:1306: timestamp 2011-08-24 12:00:01 does not come after", path); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("ReadSeries: error %v, want %s", err, want)
	}
}

func FuzzParseSeries(f *testing.F) {
	f.Add("timestamp,value\n2014-07-01 00:00:00,10844\n2014-07-01 00:30:00,8127\n")
	f.Add("\ufefftimestamp,value\r\n2014-07-01 00:00:00,1e400\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := series.Parse("s.csv", strings.NewReader(text), 1)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "gang: s.csv:") {
				t.Errorf("error %q names no line", err)
			}
			return
		}
		if len(s.Times) != len(s.Values) || len(s.Values) == 0 {
			t.Errorf("%d times and %d values", len(s.Times), len(s.Values))
		}
	})
}

func FuzzParseForecasts(f *testing.F) {
	f.Add("# t, t+1\n1,2\n3,4\n")
	f.Add("\ufeff# t\r\n-0\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := series.ParseForecasts("f.csv", strings.NewReader(text), 1)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "gang: f.csv:") {
				t.Errorf("error %q names no line", err)
			}
			return
		}
		if rows.Len()*rows.Columns != len(rows.Values) || rows.Len() == 0 {
			t.Errorf("%d values in %d columns", len(rows.Values), rows.Columns)
		}
	})
}

// TestErrorCurves is hand-worked: two series, of which one lacks the forecaster file.
func TestErrorCurves(t *testing.T) {
	n, curves := series.ErrorCurves([]series.ForecastError{
		{Series: "a", Forecaster: series.Seasonal, RMSE: []float64{1, 4}}, {Series: "a", Forecaster: series.FromFile, RMSE: []float64{9, 9}}, {Series: "a", Forecaster: series.Persistence, RMSE: []float64{2, 2}},
		{Series: "b", Forecaster: series.Persistence, RMSE: []float64{4, 8}}, {Series: "b", Forecaster: series.Seasonal, RMSE: []float64{3, 2}},
	})
	want := []series.ErrorCurve{
		{Forecaster: series.Seasonal, Mean: []float64{2, 3}, Low: []float64{1, 2}, High: []float64{3, 4}},
		{Forecaster: series.Persistence, Mean: []float64{3, 5}, Low: []float64{2, 2}, High: []float64{4, 8}},
	}
	if diff := cmp.Diff(want, curves); n != 2 || diff != "" {
		t.Errorf("%d series, want 2; curves (-want +got):\n%s", n, diff)
	}
}
