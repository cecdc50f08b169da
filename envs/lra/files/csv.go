// Package files reads and writes the files of interfering applications: node tables, batches, profiles and constraints,
// in the layouts of the Metis artefact.
package files

import (
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/kubernasium/kubernasium/envs/dataset"
	"github.com/kubernasium/kubernasium/envs/lra"
)

// rows reads a CSV file with a header line.
type rows struct{ *dataset.Table }

// newRows reads the header line of r; name stands for r in errors.
func newRows(name string, r io.Reader) (rows, error) {
	t := rows{dataset.NewTable("lra: ", name, r)}
	return t, t.ReadHeader()
}

// columns returns the index of each application's column, whose name is prefix followed by the application's; ok is
// false if one is missing.
func (t rows) columns(prefix string) (index [lra.NumApps]int, ok bool) {
	for a, app := range lra.Apps {
		if index[a] = slices.Index(t.Header, prefix+app); index[a] < 0 {
			return index, false
		}
	}
	return index, true
}

// counts returns the columns of counts, or an error if one is missing.
func (t rows) counts() ([lra.NumApps]int, error) {
	index, ok := t.columns("")
	if !ok {
		return index, t.Errorf("columns %q, want %q among them", t.Header, lra.Apps)
	}
	return index, nil
}

// states returns the columns of counts and of throughputs, for files with a state in each row.
func (t rows) states() (counts, rps [lra.NumApps]int, err error) {
	if counts, err = t.counts(); err != nil {
		return counts, rps, err
	}
	rps, ok := t.columns("rps_")
	if !ok {
		err = t.Errorf("columns %q, want rps_ and each of %q among them", t.Header, lra.Apps)
	}
	return counts, rps, err
}

// count parses the number of containers in each of the columns.
func (t rows) count(row []string, index [lra.NumApps]int) (lra.Counts, error) {
	var c lra.Counts
	for a, i := range index {
		n, err := strconv.Atoi(row[i])
		if err != nil || n < 0 || n > maxContainers {
			return c, t.Errorf("%s %q, want a whole number from 0 to %d", t.Header[i], row[i], maxContainers)
		}
		c[a] = n
	}
	return c, nil
}

// number parses a finite number, or 0 if the field is empty.
func (t rows) number(row []string, i int) (float64, error) {
	if row[i] == "" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(row[i], 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, t.Errorf("%s %q is no finite number", t.Header[i], row[i])
	}
	return v, nil
}
