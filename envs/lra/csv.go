package lra

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

// rows reads a CSV file with a header line. It tolerates a byte order mark, CRLF line ends and
// blanks around fields, and places every error at a file and a line.
type rows struct {
	name   string
	csv    *csv.Reader
	header []string
	line   int // of the row that next returned last
}

// newRows reads the header line of r; name stands for r in messages.
func newRows(name string, r io.Reader) (*rows, error) {
	b := bufio.NewReader(r)
	if mark, err := b.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = b.Discard(3) // cannot fail: the three bytes are in the buffer
	}
	t := &rows{name: name, csv: csv.NewReader(b), line: 1}
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
func (t *rows) next() ([]string, error) {
	row, err := t.read()
	if err != nil {
		return nil, err
	}
	if len(row) != len(t.header) {
		return nil, t.errorf("%d fields, want the header's %d", len(row), len(t.header))
	}
	return row, nil
}

func (t *rows) read() ([]string, error) {
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

// columns returns the index of each application's column, whose name is prefix and the
// application's; ok is false if there is none.
func (t *rows) columns(prefix string) (index [NumApps]int, ok bool) {
	for a, app := range Apps {
		if index[a] = slices.Index(t.header, prefix+app); index[a] < 0 {
			return index, false
		}
	}
	return index, true
}

// counts returns the columns of counts, or an error if one is missing.
func (t *rows) counts() ([NumApps]int, error) {
	index, ok := t.columns("")
	if !ok {
		return index, t.errorf("columns %q, want %q among them", t.header, Apps)
	}
	return index, nil
}

// count parses the number of containers in each of the columns.
func (t *rows) count(row []string, index [NumApps]int) (Counts, error) {
	var c Counts
	for a, i := range index {
		n, err := strconv.Atoi(row[i])
		if err != nil || n < 0 || n > maxContainers {
			return c, t.errorf("%s %q, want a whole number from 0 to %d", t.header[i], row[i], maxContainers)
		}
		c[a] = n
	}
	return c, nil
}

// number parses a finite number, or 0 if the field is empty.
func (t *rows) number(row []string, i int) (float64, error) {
	if row[i] == "" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(row[i], 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, t.errorf("%s %q is no finite number", t.header[i], row[i])
	}
	return v, nil
}

// errorf is fmt.Errorf with the place of the row that was read last.
func (t *rows) errorf(format string, args ...any) error {
	return fmt.Errorf("lra: %s:%d: "+format, append([]any{t.name, t.line}, args...)...)
}
