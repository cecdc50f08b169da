package files

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/envs/dataset"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
)

// ReadConstraints reads a list of constraints: columns app_s, app_c, less_or_lager (0 or 1) and
// threshold, applications counted from 1.
func ReadConstraints(name string, r io.Reader) ([]interference.Constraint, error) {
	t, err := newRows(name, r)
	if err != nil {
		return nil, err
	}
	if got := strings.Join(t.Header, ","); got != constraintHeader {
		return nil, t.Errorf("columns %q, want %q", got, constraintHeader)
	}
	var all []interference.Constraint
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		var v [4]int
		for i, high := range [4]int{lra.NumApps, lra.NumApps, 1, lra.MaxSlots} {
			low := 0
			if i < 2 {
				low = 1
			}
			if v[i], err = strconv.Atoi(row[i]); err != nil || v[i] < low || v[i] > high {
				return nil, t.Errorf("%s %q, want a whole number from %d to %d", t.Header[i], row[i], low, high)
			}
		}
		all = append(all, interference.Constraint{Subject: v[0] - 1, Other: v[1] - 1, AtLeast: v[2] == 1, Threshold: v[3]})
	}
	return all, nil
}

// ReadConstraintsFile is [ReadConstraints] for a file.
func ReadConstraintsFile(path string) ([]interference.Constraint, error) {
	return dataset.ReadFile(path, ReadConstraints)
}

const constraintHeader = "app_s,app_c,less_or_lager,threshold"

// WriteConstraints writes the format of [ReadConstraints], byte for byte as the artefact does.
func WriteConstraints(w io.Writer, all []interference.Constraint) error {
	var b strings.Builder
	b.WriteString(constraintHeader + "\n")
	for _, c := range all {
		atLeast := 0
		if c.AtLeast {
			atLeast = 1
		}
		fmt.Fprintf(&b, "%d,%d,%d,%d\n", c.Subject+1, c.Other+1, atLeast, c.Threshold)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteCurves writes the curves of constraints, byte for byte as the artefact does: numbers in their shortest exact
// form, with ".0" if they are whole.
func WriteCurves(w io.Writer, all []interference.Constraint) error {
	var b strings.Builder
	b.WriteString("0,1,2,3,4,5,6,7\n")
	for _, c := range all {
		for k, v := range c.Curve {
			if k > 0 {
				b.WriteByte(',')
			}
			text := strconv.FormatFloat(v, 'g', -1, 64)
			if !strings.ContainsAny(text, ".e") {
				text += ".0"
			}
			b.WriteString(text)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pairHeader are the columns of the published files.
var pairHeader = [lra.NumApps]string{"Redis-1", "MMS-1", "Checksum", "YCSB-A", "YCSB-B", "Scene-Detect", "ISR"}

// ReadPairs reads the published pairwise profile: counts from one file, and from the same row of the other file the
// throughput of a container of each application.
func ReadPairs(countsName string, counts io.Reader, rpsName string, rps io.Reader) (interference.Pairs, error) {
	a, err := newPairRows(countsName, counts)
	if err != nil {
		return nil, err
	}
	b, err := newPairRows(rpsName, rps)
	if err != nil {
		return nil, err
	}
	all := interference.Pairs{}
	first := [lra.NumApps]int{0, 1, 2, 3, 4, 5, 6}
	for {
		rowA, errA := a.Next()
		rowB, errB := b.Next()
		if errors.Is(errA, io.EOF) && errors.Is(errB, io.EOF) {
			return all, nil
		}
		if errors.Is(errA, io.EOF) || errors.Is(errB, io.EOF) {
			return nil, b.Errorf("the file has not as many rows as %s", countsName)
		}
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		c, err := a.count(rowA, first)
		if err != nil {
			return nil, err
		}
		var v [lra.NumApps]float64
		for i := range v {
			if v[i], err = b.number(rowB, i); err != nil {
				return nil, err
			}
		}
		all[c] = v
	}
}

func newPairRows(name string, r io.Reader) (rows, error) {
	t, err := newRows(name, r)
	if err != nil {
		return t, err
	}
	if len(t.Header) < lra.NumApps || [lra.NumApps]string(t.Header[:lra.NumApps]) != pairHeader {
		return t, t.Errorf("columns %q, want %q first", t.Header, pairHeader)
	}
	return t, nil
}

// ReadPairsFiles is [ReadPairs] for files.
func ReadPairsFiles(counts, rps string) (interference.Pairs, error) {
	return dataset.ReadFile(counts, func(countsName string, countsReader io.Reader) (interference.Pairs, error) {
		return dataset.ReadFile(rps, func(rpsName string, rpsReader io.Reader) (interference.Pairs, error) {
			return ReadPairs(countsName, countsReader, rpsName, rpsReader)
		})
	})
}
