package convert

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// part is a series of gang, cut from the rows of a series of the Numenta Anomaly Benchmark.
type part struct {
	name     string
	from, to int // range of rows, from 0
	step     int
	end      string // line ending of the last line
}

// nabSeries lists the series as Kube_Gang_Scheduling (E. Wang, 2021) has cut them, byte for byte. It uses all
// but the last 263 rows of the temperatures.
var nabSeries = []struct {
	file  string
	rows  int
	parts []part
}{
	{"nyc_taxi", 10320, []part{
		{"nyc_taxi_1", 0, 2000, 1, ""}, {"nyc_taxi_2", 2000, 4000, 1, ""}, {"nyc_taxi_3", 4000, 6000, 1, ""}, {"nyc_taxi_4", 6000, 10320, 1, ""},
	}},
	{"ambient_temperature_system_failure", 7267, []part{
		{"ambient_temperature_system_failure_1", 0, 2002, 1, ""}, {"ambient_temperature_system_failure_2", 2002, 4004, 1, ""},
		{"ambient_temperature_system_failure_3", 4004, 7004, 1, ""},
	}},
	{"art_daily_small_noise", 4032, []part{{"art_daily_small_noise", 1, 4032, 2, "\n"}}},
}

const seriesHeader = "timestamp,value"

func nab(j *job) error {
	for _, s := range nabSeries {
		path := j.in("source/nab/" + s.file + ".csv")
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimRight(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), "\n")
		if lines[0] != seriesHeader {
			return fmt.Errorf("%s:1: header %q, want %s", path, lines[0], seriesHeader)
		}
		rows := lines[1:]
		if len(rows) != s.rows {
			return fmt.Errorf("%s has %d rows, want the %d of the published series", path, len(rows), s.rows)
		}
		for _, p := range s.parts {
			err := j.write("gang/series/"+p.name+".csv", func(w io.Writer) error {
				var b bytes.Buffer
				b.WriteString(seriesHeader)
				for i := p.from; i < p.to; i += p.step {
					b.WriteByte('\n')
					b.WriteString(rows[i])
				}
				b.WriteString(p.end)
				_, err := w.Write(b.Bytes())
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
