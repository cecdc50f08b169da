// Package dataset reads the CSV and NPZ files of public traces and tables.
package dataset

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Table reads the rows of a CSV file. It tolerates a byte order mark, CRLF line ends and blanks around fields. Every
// error names the file and the line.
type Table struct {
	Header []string // after ReadHeader
	Fields int      // in each row; ReadHeader sets it to the number of columns

	reader string // begins error messages
	name   string
	csv    *csv.Reader
	line   int // of the last row
}

// NewTable returns the table of r. Error messages begin with reader, such as "gang: ", and name.
func NewTable(reader, name string, r io.Reader) *Table {
	b := bufio.NewReaderSize(r, 1<<16)
	if mark, err := b.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = b.Discard(3) // cannot fail: the three bytes are in the buffer
	}
	t := &Table{reader: reader, name: name, csv: csv.NewReader(&rows{r: b}), line: 1}
	t.csv.FieldsPerRecord = -1 // Next checks, and names file and line
	t.csv.TrimLeadingSpace = true
	t.csv.ReuseRecord = true
	return t
}

// ReadFile opens the file at path and calls read with the path as name.
func ReadFile[T any](path string, read func(name string, r io.Reader) (T, error)) (T, error) {
	f, err := OpenFile(path)
	if err != nil {
		var none T
		return none, err
	}
	defer func() { _ = f.Close() }() // only read
	return read(path, f)
}

// Open returns the table of r after its header line; see [NewTable].
func Open(reader, name string, r io.Reader) (*Table, error) {
	t := NewTable(reader, name, r)
	return t, t.ReadHeader()
}

// ReadHeader reads the first line as the header. The error about an empty file names the columns want.
func (t *Table) ReadHeader(want ...string) error {
	row, err := t.read()
	if errors.Is(err, io.EOF) {
		if len(want) == 0 {
			return t.Errorf("empty file, want a header line")
		}
		return t.Errorf("empty file, want a header line with %s", strings.Join(want, ", "))
	}
	if err != nil {
		return err
	}
	t.Header, t.Fields = slices.Clone(row), len(row)
	return nil
}

// Next returns the next row, trimmed and valid until the next call, or io.EOF.
func (t *Table) Next() ([]string, error) {
	row, err := t.read()
	if err != nil {
		return nil, err
	}
	switch {
	case len(row) == t.Fields:
		return row, nil
	case t.Header != nil:
		return nil, t.Errorf("%d fields, want the header's %d", len(row), t.Fields)
	}
	return nil, t.Errorf("%d fields, want %d", len(row), t.Fields)
}

// Rows returns the remaining rows, each valid until the next one. An error is the last pair.
func (t *Table) Rows() iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for {
			row, err := t.Next()
			if errors.Is(err, io.EOF) || !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (t *Table) read() ([]string, error) {
	row, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		t.line = parse.Line
		return nil, t.Errorf("%w", parse.Err)
	}
	if err != nil {
		return nil, t.Errorf("%w", err)
	}
	t.line, _ = t.csv.FieldPos(0)
	for i := range row {
		row[i] = strings.TrimSpace(row[i])
	}
	return row, nil
}

// Columns returns the index of each named column of the header.
func (t *Table) Columns(names ...string) ([]int, error) {
	index := make([]int, len(names))
	for i, name := range names {
		if index[i] = slices.Index(t.Header, name); index[i] < 0 {
			return nil, t.Errorf("no column %q among %q", name, t.Header)
		}
	}
	return index, nil
}

// Number parses a finite number; error messages call it what.
func (t *Table) Number(what, field string) (float64, error) {
	v, err := strconv.ParseFloat(field, 64)
	if err != nil {
		return 0, t.Errorf("%s %q is not a number", what, field)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, t.Errorf("%s %q is not finite", what, field)
	}
	return v, nil
}

// Numbers parses the fields of a row at index as finite numbers; error messages call them by the header.
func (t *Table) Numbers(dst []float64, row []string, index []int) (err error) {
	for i, at := range index {
		if dst[i], err = t.Number(t.Header[at], row[at]); err != nil {
			return err
		}
	}
	return nil
}

// Place returns the file and the line of the last row.
func (t *Table) Place() (name string, line int) { return t.name, t.line }

// Errorf is fmt.Errorf with the file and the line of the last row.
func (t *Table) Errorf(format string, args ...any) error {
	return fmt.Errorf(t.reader+"%s:%d: "+format, append([]any{t.name, t.line}, args...)...)
}
