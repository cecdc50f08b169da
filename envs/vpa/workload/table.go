package workload

import (
	"io"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/envs/dataset"
)

// table reads the rows of a CSV file.
type table struct{ *dataset.Table }

// newTable returns a table of r without a header line; name stands for r in errors.
func newTable(name string, r io.Reader, fields int) table {
	t := table{dataset.NewTable("", name, r)}
	t.Fields = fields
	return t
}

// header reads the header line, which must have every column of want, in any order, and no other columns except those
// of optional. It returns the index of each, -1 for a missing optional column.
func (t table) header(want, optional []string) ([]int, error) {
	if err := t.ReadHeader(want...); err != nil {
		return nil, err
	}
	row := t.Header
	known := slices.Concat(want, optional)
	for i, name := range row {
		if !slices.Contains(known, name) {
			return nil, t.Errorf("unknown column %q, want %s", name, strings.Join(known, ", "))
		}
		if slices.Index(row, name) != i {
			return nil, t.Errorf("column %q twice", name)
		}
	}
	index := make([]int, len(known))
	for i, name := range known {
		if index[i] = slices.Index(row, name); index[i] < 0 && i < len(want) {
			return nil, t.Errorf("no column %q among %q", name, row)
		}
	}
	return index, nil
}
