package workload

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// table reads CSV rows of a fixed number of fields. It tolerates a byte order mark, CRLF line
// ends and blanks around fields, and places every error at a file and a line.
type table struct {
	name   string
	csv    *csv.Reader
	fields int // of each row
	line   int // of the row that next returned last
}

// newTable returns a table of r without a header line; name stands for r in messages.
func newTable(name string, r io.Reader, fields int) *table {
	b := bufio.NewReaderSize(r, 1<<16)
	if mark, err := b.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = b.Discard(3) // cannot fail: the three bytes are in the buffer
	}
	t := &table{name: name, csv: csv.NewReader(b), fields: fields, line: 1}
	t.csv.FieldsPerRecord = -1 // next checks, with a message of our own
	t.csv.TrimLeadingSpace = true
	t.csv.ReuseRecord = true
	return t
}

// header reads the header line, which must have every column of want, in any order, and none
// that is in neither want nor optional. It returns the index of each, -1 of an optional one
// that is not there.
func (t *table) header(want, optional []string) ([]int, error) {
	row, err := t.read()
	if errors.Is(err, io.EOF) {
		return nil, t.errorf("empty file, want a header line with %s", strings.Join(want, ", "))
	}
	if err != nil {
		return nil, err
	}
	known := slices.Concat(want, optional)
	for i, name := range row {
		if !slices.Contains(known, name) {
			return nil, t.errorf("unknown column %q, want %s", name, strings.Join(known, ", "))
		}
		if slices.Index(row, name) != i {
			return nil, t.errorf("column %q twice", name)
		}
	}
	t.fields = len(row)
	index := make([]int, len(known))
	for i, name := range known {
		if index[i] = slices.Index(row, name); index[i] < 0 && i < len(want) {
			return nil, t.errorf("no column %q among %q", name, row)
		}
	}
	return index, nil
}

// next returns the next row, trimmed and valid until the following call, or io.EOF.
func (t *table) next() ([]string, error) {
	row, err := t.read()
	if err != nil {
		return nil, err
	}
	if len(row) != t.fields {
		return nil, t.errorf("%d fields, want %d", len(row), t.fields)
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

// number parses a finite number; what names it in the message.
func (t *table) number(what, field string) (float64, error) {
	v, err := strconv.ParseFloat(field, 64)
	if err != nil {
		return 0, t.errorf("%s %q is not a number", what, field)
	}
	if v-v != 0 {
		return 0, t.errorf("%s %q is not finite", what, field)
	}
	return v, nil
}

// errorf is fmt.Errorf with the place of the row that was read last.
func (t *table) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: "+format, append([]any{t.name, t.line}, args...)...)
}
