package files

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"

	"github.com/kubernasium/kubernasium/envs/dataset"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// ReadProfile reads a profile. Its columns are the names of [lra.Apps], the same with the prefix rps_, and optionally
// with rt50_ and rt99_. Empty fields are 0. A state may appear more than once.
func ReadProfile(name string, r io.Reader) ([]throughput.Measurement, error) {
	t, err := newRows(name, r)
	if err != nil {
		return nil, err
	}
	counts, rps, err := t.states()
	if err != nil {
		return nil, err
	}
	rt50, has50 := t.columns("rt50_")
	rt99, has99 := t.columns("rt99_")
	var all []throughput.Measurement
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		s, err := t.state(row, counts)
		if err != nil {
			return nil, err
		}
		m := throughput.Measurement{Counts: s.Counts()}
		for _, part := range []struct {
			ok    bool
			index [lra.NumApps]int
			dst   *[lra.NumApps]float64
		}{{true, rps, &m.RPS}, {has50, rt50, &m.RT50}, {has99, rt99, &m.RT99}} {
			for a, i := range part.index {
				if !part.ok || m.Counts[a] == 0 {
					continue
				}
				if part.dst[a], err = t.number(row, i); err != nil {
					return nil, err
				}
				if part.dst[a] < 0 {
					return nil, t.Errorf("%s is %v, want at least 0", t.Header[i], part.dst[a])
				}
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// ReadProfileFile is [ReadProfile] for a file, or [ReadProfileNPZ] if its name ends in .npz.
func ReadProfileFile(path string) ([]throughput.Measurement, error) {
	if filepath.Ext(path) == ".npz" {
		return ReadProfileNPZ(path)
	}
	return dataset.ReadFile(path, ReadProfile)
}

// WriteProfile writes the format of [ReadProfile], with rt50_ and rt99_, measurement by measurement. Fields of absent
// applications are empty.
func WriteProfile(w io.Writer, profile []throughput.Measurement) error {
	return writeProfile(w, profile, "", "rps_", "rt50_", "rt99_")
}

// WriteThroughputs is [WriteProfile] without the latencies.
func WriteThroughputs(w io.Writer, profile []throughput.Measurement) error {
	return writeProfile(w, profile, "", "rps_")
}

func writeProfile(w io.Writer, profile []throughput.Measurement, prefixes ...string) error {
	c := csv.NewWriter(w)
	var row []string
	for _, prefix := range prefixes {
		for _, app := range lra.Apps {
			row = append(row, prefix+app)
		}
	}
	if err := c.Write(row); err != nil {
		return err
	}
	for i := range profile {
		m := &profile[i]
		row = row[:0]
		for _, k := range m.Counts {
			row = append(row, strconv.Itoa(k))
		}
		for _, values := range []*[lra.NumApps]float64{&m.RPS, &m.RT50, &m.RT99}[:len(prefixes)-1] {
			for a, v := range values {
				field := ""
				if m.Counts[a] > 0 {
					field = strconv.FormatFloat(v, 'g', -1, 64)
				}
				row = append(row, field)
			}
		}
		if err := c.Write(row); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// ReadProfileNPZ reads a profile in the published layout: arrays alloc and rps, and optionally rt_50 and rt_99, of
// shape (rows, applications); only the first seven columns count. NaN is 0. It rejects arrays of pickled objects, which
// some published files have for rt_50 and rt_99.
func ReadProfileNPZ(path string) ([]throughput.Measurement, error) {
	all, _, err := readNPZ(path, false)
	return all, err
}

// ReadThroughputsNPZ is [ReadProfileNPZ] for files whose rt_50 or rt_99 are pickled objects: it omits these arrays and
// returns their names.
func ReadThroughputsNPZ(path string) (profile []throughput.Measurement, left []string, err error) {
	return readNPZ(path, true)
}

func readNPZ(path string, leave bool) (profile []throughput.Measurement, left []string, err error) {
	profile, err = dataset.ReadNPZ("lra: ", path, func(a *dataset.Arrays) ([]throughput.Measurement, error) {
		alloc, shape, err := a.Floats("alloc", 2)
		if err != nil {
			return nil, err
		}
		rows, columns := shape[0], shape[1]
		if columns < lra.NumApps {
			return nil, fmt.Errorf("lra: %s: array alloc has %d columns, want at least %d", path, columns, lra.NumApps)
		}
		all := make([]throughput.Measurement, rows)
		for i := range all {
			for k, v := range alloc[i*columns : (i+1)*columns] {
				if v != math.Trunc(v) || v < 0 || v > lra.MaxSlots || k >= lra.NumApps && v != 0 {
					return nil, fmt.Errorf("lra: %s: alloc[%d, %d] is %v, want a whole number from 0 to %d, and 0 beyond column %d", path, i, k, v, lra.MaxSlots, lra.NumApps-1)
				}
				if k < lra.NumApps {
					all[i].Counts[k] = int(v)
				}
			}
			if _, err := lra.StateOf(all[i].Counts); err != nil {
				return nil, fmt.Errorf("%s: alloc[%d]: %w", path, i, err)
			}
		}
		for _, part := range []struct {
			name string
			dst  func(m *throughput.Measurement) *[lra.NumApps]float64
		}{
			{"rps", func(m *throughput.Measurement) *[lra.NumApps]float64 { return &m.RPS }},
			{"rt_50", func(m *throughput.Measurement) *[lra.NumApps]float64 { return &m.RT50 }},
			{"rt_99", func(m *throughput.Measurement) *[lra.NumApps]float64 { return &m.RT99 }},
		} {
			if !a.Has(part.name) && part.name != "rps" {
				continue
			}
			values, shape, err := a.Floats(part.name, 2)
			if leave && part.name != "rps" && errors.Is(err, dataset.ErrPickled) {
				left = append(left, part.name)
				continue
			}
			if err != nil {
				return nil, err
			}
			if shape[0] != rows || shape[1] != columns {
				return nil, fmt.Errorf("lra: %s: array %s has shape %v, want that of alloc, [%d %d]", path, part.name, shape, rows, columns)
			}
			for i := range all {
				for k := range lra.NumApps {
					v := values[i*columns+k]
					if all[i].Counts[k] == 0 || math.IsNaN(v) {
						continue
					}
					if v < 0 || math.IsInf(v, 0) {
						return nil, fmt.Errorf("lra: %s: %s[%d, %d] is %v, want a finite number of at least 0", path, part.name, i, k, v)
					}
					part.dst(&all[i])[k] = v
				}
			}
		}
		return all, nil
	})
	return profile, left, err
}
