package tracking

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// errNoHeader is returned by openSheet and ReadCSV for a file that ends before its header does, as after a crash right
// after its creation.
var errNoHeader = errors.New("no header")

// sheet is a CSV file to which rows are appended, and whose header grows as columns appear.
type sheet struct {
	path     string
	preamble string // the line before the header, with its newline; may be empty
	columns  []string
	index    map[string]int
	file     *os.File // positioned at its end
	buf      bytes.Buffer
	row      []string
	err      error // the first failed write, after which the last line may be incomplete
}

// createSheet creates or truncates the file, and writes its header.
func createSheet(path, preamble string, columns []string) (*sheet, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	s := &sheet{path: path, preamble: preamble}
	s.setColumns(columns)
	empty := func(*csv.Writer) error { return nil }
	if err := s.replace(nil, empty); err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	return s, nil
}

// resumeSheet opens an existing file and drops the rows whose cell in the column stepColumn exceeds step. If
// there is nothing to resume, its error is fs.ErrNotExist or errNoHeader.
func resumeSheet(path, stepColumn string, step int64) (*sheet, error) {
	old, err := openSheet(path)
	if err != nil {
		return nil, fmt.Errorf("resume %s: %w", path, err)
	}
	defer old.file.Close()
	s := &sheet{path: path, preamble: old.preamble}
	s.setColumns(old.columns)
	at, ok := s.index[stepColumn]
	if !ok {
		return nil, fmt.Errorf("resume %s: columns %q lack %q", path, s.columns, stepColumn)
	}
	err = s.replace(old, func(w *csv.Writer) error {
		return old.each(func(row []string) error {
			n, err := strconv.ParseInt(row[at], 10, 64)
			if err != nil {
				line, _ := old.rows.FieldPos(at) // counted from the header
				return fmt.Errorf("line %d: %s: %w", line+strings.Count(old.preamble, "\n"), stepColumn, err)
			}
			if n > step {
				return nil
			}
			return w.Write(row)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("resume %s: %w", path, err)
	}
	return s, nil
}

func (s *sheet) setColumns(columns []string) {
	s.columns = slices.Clone(columns)
	s.index = make(map[string]int, len(columns))
	for i, c := range columns {
		s.index[c] = i
	}
	s.row = make([]string, len(columns))
}

// append writes a row with the given cells under the given columns, and empty cells under all others. It adds
// new columns at the right, in the given order.
func (s *sheet) append(columns, cells []string) error {
	if s.err != nil {
		return s.err
	}
	if err := s.grow(columns); err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	clear(s.row)
	for i, c := range columns {
		s.row[s.index[c]] = cells[i]
	}
	s.buf.Reset()
	w := csv.NewWriter(&s.buf)
	if err := w.Write(s.row); err != nil {
		return fmt.Errorf("write %s: %w", s.path, err)
	}
	w.Flush()
	if _, err := s.file.Write(s.buf.Bytes()); err != nil {
		s.err = fmt.Errorf("write %s: %w", s.path, err)
		return s.err
	}
	return nil
}

// grow adds the missing columns to the header, and an empty cell for each to every row.
func (s *sheet) grow(columns []string) error {
	grown := slices.Clone(s.columns)
	for _, c := range columns {
		if strings.ContainsAny(c, "\r\n") {
			return fmt.Errorf("column %q has a line break", c)
		}
		if _, ok := s.index[c]; !ok {
			grown = append(grown, c)
		}
	}
	if len(grown) == len(s.columns) {
		return nil
	}
	old, err := openSheet(s.path)
	if err != nil {
		return err
	}
	defer old.file.Close()
	before := s.columns
	s.setColumns(grown)
	row := make([]string, len(grown))
	err = s.replace(old, func(w *csv.Writer) error {
		return old.each(func(cells []string) error {
			copy(row, cells)
			return w.Write(row)
		})
	})
	if err != nil {
		s.setColumns(before)
	}
	return err
}

// replace writes a file with the sheet's header and the rows that body writes, renames it over the old file,
// and appends to it from then on. It closes old, from which body may read; old is nil for a new sheet.
func (s *sheet) replace(old *oldSheet, body func(*csv.Writer) error) error {
	temp := filepath.Join(filepath.Dir(s.path), "."+filepath.Base(s.path)+".tmp") // models.SweepTemporary removes it after a kill
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(s.fill(file, body), file.Close()); err != nil {
		_ = os.Remove(temp)
		return err
	}
	// Windows can neither rename an open file nor replace one.
	if old != nil {
		_ = old.file.Close()
	}
	if s.file != nil {
		_ = s.file.Close() // unbuffered, so that nothing is left to write
	}
	if err = os.Rename(temp, s.path); err != nil {
		_ = os.Remove(temp)
	}
	s.file, s.err = os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND, 0)
	return errors.Join(err, s.err)
}

func (s *sheet) fill(file *os.File, body func(*csv.Writer) error) error {
	buffered := bufio.NewWriter(file)
	if _, err := buffered.WriteString(s.preamble); err != nil {
		return err
	}
	w := csv.NewWriter(buffered)
	if err := w.Write(s.columns); err != nil {
		return err
	}
	if err := body(w); err != nil {
		return err
	}
	w.Flush()
	if err := errors.Join(w.Error(), buffered.Flush()); err != nil {
		return err
	}
	return file.Sync()
}

// Close closes the file.
func (s *sheet) Close() error { return s.file.Close() }

// oldSheet reads the file of a sheet.
type oldSheet struct {
	file     *os.File
	preamble string
	columns  []string
	rows     *csv.Reader
}

// openSheet opens a file and reads its preamble and header. It drops a last line without a newline, which a
// crash has truncated and which might parse as other numbers.
func openSheet(path string) (*oldSheet, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	old := &oldSheet{file: file}
	if err := old.readHeader(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return old, nil
}

func (o *oldSheet) readHeader() error {
	length, err := completeLength(o.file)
	if err != nil {
		return err
	}
	r := bufio.NewReader(io.NewSectionReader(o.file, 0, length))
	if first, err := r.Peek(1); err == nil && first[0] == '#' {
		if o.preamble, err = r.ReadString('\n'); err != nil {
			return err
		}
	}
	o.rows = csv.NewReader(r)
	o.columns, err = o.rows.Read()
	if err == io.EOF {
		return errNoHeader
	}
	o.rows.ReuseRecord = true
	return err
}

// each calls visit for each row after the header; the row is valid until visit returns.
func (o *oldSheet) each(visit func(row []string) error) error {
	for {
		row, err := o.rows.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(row); err != nil {
			return err
		}
	}
}

// completeLength returns the length of the file up to and including its last newline.
func completeLength(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	var block [4096]byte
	for end := info.Size(); end > 0; {
		start := max(0, end-int64(len(block)))
		part := block[:end-start]
		if _, err := file.ReadAt(part, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// formatCell formats whole numbers without an exponent, and NaN and infinities in the form that pandas reads.
func formatCell(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(v, 'g', -1, 64)), "+")
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
