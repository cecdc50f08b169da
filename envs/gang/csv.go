package gang

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// table reads a CSV file with a header line. It tolerates a byte order mark, CRLF line
// ends and blanks around fields, and places every error at a file and a line.
type table struct {
	name   string
	csv    *csv.Reader
	header []string
	line   int // of the row that next returned last
}

// newTable reads the header line of r; name stands for r in messages.
func newTable(name string, r io.Reader) (*table, error) {
	b := bufio.NewReader(r)
	if mark, err := b.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = b.Discard(3) // cannot fail: the three bytes are in the buffer
	}
	t := &table{name: name, csv: csv.NewReader(b), line: 1}
	t.csv.FieldsPerRecord = -1 // next checks, with a message of our own
	t.csv.TrimLeadingSpace = true
	t.csv.ReuseRecord = true
	header, err := t.read()
	if errors.Is(err, io.EOF) {
		return nil, t.errorf("empty file, want a header line")
	}
	if err != nil {
		return nil, err
	}
	t.header = slices.Clone(header)
	return t, nil
}

// next returns the next row, trimmed and valid until the following call, or io.EOF.
func (t *table) next() ([]string, error) {
	row, err := t.read()
	if err != nil {
		return nil, err
	}
	if len(row) != len(t.header) {
		return nil, t.errorf("%d fields, want the header's %d", len(row), len(t.header))
	}
	return row, nil
}

func (t *table) read() ([]string, error) {
	row, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
		t.line = parse.Line
		return nil, t.errorf("%w", parse.Err)
	}
	if err != nil {
		return nil, t.errorf("%w", err)
	}
	t.line, _ = t.csv.FieldPos(0)
	for i := range row {
		row[i] = strings.TrimSpace(row[i])
	}
	return row, nil
}

// columns returns the index of each named column.
func (t *table) columns(names ...string) ([]int, error) {
	index := make([]int, len(names))
	for i, name := range names {
		if index[i] = slices.Index(t.header, name); index[i] < 0 {
			return nil, t.errorf("no column %q among %q", name, t.header)
		}
	}
	return index, nil
}

// number parses a finite number; column names it in the message.
func (t *table) number(column, field string) (float64, error) {
	v, err := strconv.ParseFloat(field, 64)
	if err != nil {
		return 0, t.errorf("%s %q is not a number", column, field)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, t.errorf("%s %q is not finite", column, field)
	}
	return v, nil
}

// errorf is fmt.Errorf with the place of the row that was read last.
func (t *table) errorf(format string, args ...any) error {
	return fmt.Errorf("gang: %s:%d: "+format, append([]any{t.name, t.line}, args...)...)
}
