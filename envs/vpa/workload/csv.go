package workload

import (
	"io"
)

// ReadCSV reads usage of one or more containers from CSV with a header line: time_s (seconds), cpu_m (millicores),
// mem_b (bytes) and, for more than one container, pod. Times must rise for each pod. name stands for r in errors, and
// is the name of a pod without one.
func ReadCSV(name string, r io.Reader, g Grid) ([]Series, Report, error) {
	return readUsage(name, r, g, [3]string{"time_s", "cpu_m", "mem_b"}, nil, 1)
}

// ReadArabesque reads a dump of usage as CSV with a header line: pod, time (seconds), cpu (cores), memory (bytes). The
// earlier project took such dumps from Google Cloud's metrics. Times must rise for each pod.
func ReadArabesque(name string, r io.Reader, g Grid) ([]Series, Report, error) {
	return readUsage(name, r, g, [3]string{"time", "cpu", "memory"}, []string{"pod"}, 1000)
}

// readUsage reads the named columns of time, CPU in units of milli millicores, and memory. The column of pods is in
// must, or it is optional.
func readUsage(name string, r io.Reader, g Grid, columns [3]string, must []string, milli float64) ([]Series, Report, error) {
	t := newTable(name, r, 0)
	optional := []string{"pod"}
	if must != nil {
		optional = nil
	}
	at, err := t.header(append(columns[:], must...), optional)
	if err != nil {
		return nil, Report{}, err
	}
	c := newCollector(g, true)
	c.name = name
	for row, err := range t.Rows() {
		if err != nil {
			return nil, c.report, err
		}
		var v [3]float64
		if err := t.Numbers(v[:], row, at[:3]); err != nil {
			return nil, c.report, err
		}
		id := name
		if at[3] >= 0 {
			id = row[at[3]]
		}
		_, line := t.Place()
		if err := c.add(id, sample{v[0], v[1] * milli, v[2], line}); err != nil {
			return nil, c.report, t.Errorf("%w", err)
		}
	}
	return finished(name, c)
}

// finished is c.finish with the name of the file in its error.
func finished(name string, c *collector) ([]Series, Report, error) {
	all, report, err := c.finish()
	if err != nil {
		return nil, report, wrap(name, err)
	}
	return all, report, nil
}
