package tracking

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Align is the alignment of a column's cells.
type Align int

const (
	Left  Align = iota // for names
	Right              // for numbers
)

// Column is a column of a Table.
type Column struct {
	Name  string
	Align Align
}

// Table is a text table with three output formats. The zero value has no columns.
type Table struct {
	Columns []Column
	Rows    [][]string // each of len(Columns) cells
}

// NewTable returns a table without rows. A leading ">" in a name right-aligns the column, and is removed.
func NewTable(names ...string) *Table {
	t := &Table{}
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, ">"); ok {
			t.Columns = append(t.Columns, Column{rest, Right})
		} else {
			t.Columns = append(t.Columns, Column{name, Left})
		}
	}
	return t
}

// Append adds a row. It panics if the number of cells differs from the number of columns.
func (t *Table) Append(cells ...string) {
	if len(cells) != len(t.Columns) {
		panic(fmt.Sprintf("tracking: row of %d cells in a table of %d columns", len(cells), len(t.Columns)))
	}
	t.Rows = append(t.Rows, cells)
}

// WriteText writes the table in columns two spaces apart, with a rule under the header. A line break in a cell
// becomes a space.
func (t *Table) WriteText(w io.Writer) error {
	flat := strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")
	names, rows, widths := t.layout(flat)
	var b strings.Builder
	t.textLine(&b, names, widths)
	rules := make([]string, len(widths))
	for i, n := range widths {
		rules[i] = strings.Repeat("-", n)
	}
	t.textLine(&b, rules, widths)
	for _, row := range rows {
		t.textLine(&b, row, widths)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes the table as GitHub Flavored Markdown, with padded columns, so that the source is
// readable too. A line break in a cell becomes <br>; a bar is escaped.
func (t *Table) WriteMarkdown(w io.Writer) error {
	escape := strings.NewReplacer("|", `\|`, "\r\n", "<br>", "\n", "<br>", "\r", "<br>")
	names, rows, widths := t.layout(escape)
	for i := range widths {
		widths[i] = max(widths[i], 3) // every parser accepts three dashes
	}
	var b strings.Builder
	t.markdownLine(&b, names, widths)
	rules := make([]string, len(widths))
	for i, n := range widths {
		rules[i] = strings.Repeat("-", n)
		if t.Columns[i].Align == Right {
			rules[i] = rules[i][1:] + ":"
		}
	}
	t.markdownLine(&b, rules, widths)
	for _, row := range rows {
		t.markdownLine(&b, row, widths)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteCSV writes the table, header first, as in RFC 4180 but with bare newlines.
func (t *Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(t.names()); err != nil {
		return err
	}
	return c.WriteAll(t.Rows)
}

// ReadCSV reads a table that WriteCSV wrote. Its columns are left-aligned, because the file does not keep alignments.
func ReadCSV(r io.Reader) (*Table, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errNoHeader
	}
	t := &Table{Rows: rows[1:]}
	for _, name := range rows[0] {
		t.Columns = append(t.Columns, Column{Name: name})
	}
	return t, nil
}

func (t *Table) names() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// layout returns the header and the rows after replacements by r, and the width of each column in characters.
func (t *Table) layout(r *strings.Replacer) (names []string, rows [][]string, widths []int) {
	apply := func(cells []string) []string {
		out := make([]string, len(cells))
		for i, c := range cells {
			out[i] = r.Replace(c)
			widths[i] = max(widths[i], utf8.RuneCountInString(out[i]))
		}
		return out
	}
	widths = make([]int, len(t.Columns))
	names = apply(t.names())
	for _, row := range t.Rows {
		rows = append(rows, apply(row))
	}
	return names, rows, widths
}

func (t *Table) textLine(b *strings.Builder, cells []string, widths []int) {
	var line strings.Builder
	for i, c := range cells {
		if i > 0 {
			line.WriteString("  ")
		}
		line.WriteString(pad(c, widths[i], t.Columns[i].Align))
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}

func (t *Table) markdownLine(b *strings.Builder, cells []string, widths []int) {
	for i, c := range cells {
		b.WriteString("| ")
		b.WriteString(pad(c, widths[i], t.Columns[i].Align))
		b.WriteByte(' ')
	}
	b.WriteString("|\n")
}

func pad(s string, width int, align Align) string {
	fill := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if align == Right {
		return fill + s
	}
	return s + fill
}
