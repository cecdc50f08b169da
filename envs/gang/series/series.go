package series

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// Constants of the forecasts of Kube_Gang_Scheduling (E. Wang, 2021).
const (
	seriesCap       = 5000 // maximum number of rows that are read
	ForecastRows    = 1000 // steps with a forecast: the last ones of a series
	ForecastColumns = 20   // steps of a forecast, including the current one
	MinSize         = 10.0 // least workload size after scaling
	MaxSize         = 50.0 // greatest
)

// HeldOutRows is the number of rows at the end of each series that are held out: those of the
// published forecasts.
const HeldOutRows = ForecastRows + ForecastColumns - 1

// timestampLayout is that of the Numenta Anomaly Benchmark.
const timestampLayout = "2006-01-02 15:04:05"

// Series is a time series with strictly ascending times.
type Series struct {
	Name   string
	Times  []time.Time // in UTC
	Values []float64
	Lines  []int // of the file
}

// Holes describes missing rows, by the usual interval between times; it is empty if no row is missing.
func (s *Series) Holes() string {
	seconds := make([]float64, len(s.Times))
	for i, at := range s.Times {
		seconds[i] = at.Sub(s.Times[0]).Seconds()
	}
	holes, usual := dataset.Holes(seconds)
	return dataset.HolesText("the series", holes, usual, func(i int) string { return fmt.Sprintf("%s:%d", s.Name, s.Lines[i]) })
}

// Read reads the series file at path; see Parse.
func Read(path string, minRows int) (*Series, error) {
	return dataset.ReadFile(path, func(name string, r io.Reader) (*Series, error) { return Parse(name, r, minRows) })
}

// Parse reads a series of at least minRows rows from CSV with the columns timestamp, as "2006-01-02 15:04:05", and
// value, the format of the Numenta Anomaly Benchmark. Timestamps must ascend strictly. Errors contain name, for the
// file, and the line.
func Parse(name string, r io.Reader, minRows int) (*Series, error) {
	t, err := dataset.Open("gang: ", name, r)
	if err != nil {
		return nil, err
	}
	index, err := t.Columns("timestamp", "value")
	if err != nil {
		return nil, err
	}
	s := &Series{Name: name}
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		at, err := time.Parse(timestampLayout, row[index[0]])
		if err != nil {
			return nil, t.Errorf("timestamp %q is not of the form %q", row[index[0]], timestampLayout)
		}
		value, err := t.Number("value", row[index[1]])
		if err != nil {
			return nil, err
		}
		if n := len(s.Times); n > 0 && !at.After(s.Times[n-1]) {
			return nil, t.Errorf("timestamp %s does not come after %s of the row before",
				row[index[0]], s.Times[n-1].Format(timestampLayout))
		}
		_, line := t.Place()
		s.Lines = append(s.Lines, line)
		s.Times = append(s.Times, at)
		s.Values = append(s.Values, value)
	}
	if len(s.Values) < minRows {
		return nil, t.Errorf("%d rows at the end of the file, want at least %d", len(s.Values), minRows)
	}
	return s, nil
}

// Rows is a table of numbers, row-major. Row t holds values for t, t+1, ….
type Rows struct {
	Name    string
	Columns int
	Values  []float64
}

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.Values) / r.Columns }

// ReadForecasts reads the forecast file at path; see ParseForecasts.
func ReadForecasts(path string, minRows int) (*Rows, error) {
	return dataset.ReadFile(path, func(name string, r io.Reader) (*Rows, error) { return ParseForecasts(name, r, minRows) })
}

// ParseForecasts reads at least minRows rows of forecasts from CSV with the header "# t, t+1, t+2, …". Row t holds the
// values predicted for t, t+1, … just before t. Errors contain name, for the file, and the line.
func ParseForecasts(name string, r io.Reader, minRows int) (*Rows, error) {
	t, err := dataset.Open("gang: ", name, r)
	if err != nil {
		return nil, err
	}
	for h, column := range t.Header {
		want := "t+" + strconv.Itoa(h)
		if h == 0 {
			want = "# t"
		}
		if column != want {
			return nil, t.Errorf("column %d is %q, want %q", h+1, column, want)
		}
	}
	rows := &Rows{Name: name, Columns: len(t.Header)}
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		for h, field := range row {
			v, err := t.Number(t.Header[h], field)
			if err != nil {
				return nil, err
			}
			rows.Values = append(rows.Values, v)
		}
	}
	if rows.Len() < minRows {
		return nil, t.Errorf("%d rows at the end of the file, want at least %d", rows.Len(), minRows)
	}
	return rows, nil
}

// WriteForecasts writes forecasts as CSV that [ParseForecasts] reads, with six decimals.
func (r *Rows) WriteForecasts(w io.Writer) error {
	out := bufio.NewWriter(w)
	for h := range r.Columns {
		if h == 0 {
			out.WriteString("# t")
		} else {
			fmt.Fprintf(out, ", t+%d", h)
		}
	}
	for i, v := range r.Values {
		if i%r.Columns == 0 {
			out.WriteByte('\n')
		} else {
			out.WriteByte(',')
		}
		out.Write(strconv.AppendFloat(out.AvailableBuffer(), v, 'f', 6, 64))
	}
	out.WriteByte('\n')
	return out.Flush() // reports the first error
}

// Truth returns the true values of rows steps from first on, in the layout of forecasts.
func Truth(values []float64, first, rows, columns int) *Rows {
	r := &Rows{Columns: columns}
	for i := range rows {
		r.Values = append(r.Values, values[first+i:first+i+columns]...)
	}
	return r
}

// Used returns the values of s that forecasts of the earlier project's kind are made for: the first 5000.
func (s *Series) Used() []float64 { return s.Values[:min(len(s.Values), seriesCap)] }

// Actual returns the true values of each step of the forecasts made for s. It considers the first 5000 values of the
// series: row i holds the values of steps i … i+19 among the last 1000 steps for which 20 values are known. Like the
// earlier project's files it has float32 values with six decimals.
func (s *Series) Actual() (*Rows, error) {
	const span = ForecastRows + ForecastColumns - 1
	values := s.Used()
	if len(values) < span {
		return nil, fmt.Errorf("gang: series %s of %d rows, want at least %d", s.Name, len(values), span)
	}
	values = values[len(values)-span:]
	rounded := make([]float64, span)
	for i, v := range values {
		text := strconv.FormatFloat(float64(float32(v)), 'f', 6, 64)
		rounded[i], _ = strconv.ParseFloat(text, 64) // FormatFloat's text parses
	}
	rows := &Rows{Name: s.Name, Columns: ForecastColumns}
	for i := range ForecastRows {
		rows.Values = append(rows.Values, rounded[i:i+ForecastColumns]...)
	}
	return rows, nil
}

// Scale returns the rows mapped, each column by its own extremes, to sizes in [10, 50].
//
// This is the scaling of Kube_Gang_Scheduling (E. Wang, 2021). It uses all rows, including future ones, and stretches
// forecasts by extremes other than the truth's. Use it to reproduce the results of that project, not for new
// experiments.
func (r *Rows) Scale() (*Rows, error) {
	scaled := &Rows{Name: r.Name, Columns: r.Columns, Values: make([]float64, len(r.Values))}
	for h := range r.Columns {
		lo, hi := r.Values[h], r.Values[h]
		for i := h; i < len(r.Values); i += r.Columns {
			lo, hi = min(lo, r.Values[i]), max(hi, r.Values[i])
		}
		if !(hi > lo) {
			return nil, fmt.Errorf("gang: %s: column %d is %v in every row, which has no scale", r.Name, h+1, lo)
		}
		for i := h; i < len(r.Values); i += r.Columns {
			scaled.Values[i] = MinSize + (r.Values[i]-lo)*(MaxSize-MinSize)/(hi-lo)
		}
	}
	return scaled, nil
}
