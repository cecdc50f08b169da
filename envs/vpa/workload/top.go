package workload

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxTopLine bounds a line, in bytes.
const maxTopLine = 1 << 16

// topColumns maps the headers of `kubectl top pod` to the columns of this reader.
var topColumns = map[string]int{"NAMESPACE": 0, "POD": 1, "NAME": 2, "CPU(cores)": 3, "MEMORY(bytes)": 4}

// readTop reads repeated output of `kubectl top pod`, each time after a line with the time:
//
//	while sleep 60; do date -Iseconds; kubectl top pod --containers; done > usage.top.txt
//
// The time is RFC 3339, Unix seconds or the output of `date`, perhaps after "#". It may instead begin each row. Tables
// may have namespaces (-A) and lack containers or headers; without a header, four columns are pod, container, CPU and
// memory. readTop omits a usage of <unknown>.
func readTop(ins []input, g Grid) ([]Series, Report, error) {
	c := newCollector(g, false)
	for _, in := range ins {
		t := topReader{c: c}
		lines := bufio.NewScanner(in.r)
		lines.Buffer(nil, maxTopLine)
		for n := 1; lines.Scan(); n++ {
			if err := t.line(lines.Text()); err != nil {
				return nil, c.report, fmt.Errorf("%s:%d: %w", in.name, n, err)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, c.report, wrap(in.name, err)
		}
	}
	return finished("kubectl top", c)
}

type topReader struct {
	c       *collector
	at      time.Time // of the record; zero: none yet
	columns []int     // of the header, as topColumns; nil: none yet
}

func (t *topReader) line(line string) error {
	line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
	if line == "" {
		return nil
	}
	if at, ok := parseTime(line); ok {
		t.at = at
		return nil
	}
	fields := strings.Fields(line)
	at := t.at
	if own, ok := parseTime(fields[0]); ok {
		at, fields = own, fields[1:]
	}
	if slices.Contains(fields, "CPU(cores)") {
		return t.header(fields)
	}
	return t.row(at, fields)
}

// parseTime parses text that contains only a time.
func parseTime(text string) (time.Time, bool) {
	const earliest = 1e8 // 1973; a smaller number is not a time
	if s, err := strconv.ParseFloat(text, 64); err == nil && s >= earliest && s <= 1e12 {
		return time.UnixMilli(int64(s * 1000)), true
	}
	for _, layout := range []string{time.RFC3339, time.UnixDate, "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05-07:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

func (t *topReader) header(fields []string) error {
	t.columns = nil
	for _, name := range fields {
		k, ok := topColumns[name]
		if !ok {
			return fmt.Errorf("column %q, want the header of `kubectl top pod`", name)
		}
		t.columns = append(t.columns, k)
	}
	return nil
}

// row adds the usage of a container or a pod.
func (t *topReader) row(at time.Time, fields []string) error {
	columns := t.columns
	if columns == nil {
		columns = map[int][]int{3: {1, 3, 4}, 4: {1, 2, 3, 4}, 5: {0, 1, 2, 3, 4}}[len(fields)]
	}
	if len(columns) != len(fields) {
		return fmt.Errorf("%d columns, want those of `kubectl top pod`, or a time", len(fields))
	}
	if at.IsZero() {
		return errors.New("usage without a time before it: print `date -Iseconds` before each `kubectl top pod`")
	}
	var v [5]string
	for i, k := range columns {
		v[k] = fields[i]
	}
	id := promID(map[string]string{"namespace": v[0], "pod": v[1], "container": v[2]})
	s := sample{seconds: float64(at.UnixMilli()) / 1000}
	for i, dst := range []*float64{&s.cpu, &s.mem} {
		unit := []float64{1000, 1}[i]
		if v[3+i] == "<unknown>" {
			*dst = math.NaN()
			continue
		}
		amount, err := ParseQuantity(v[3+i])
		if err != nil {
			return err
		}
		*dst = amount * unit
	}
	if math.IsNaN(s.cpu) && math.IsNaN(s.mem) {
		t.c.report.Dropped++
		return nil
	}
	return t.c.add(id, s)
}
