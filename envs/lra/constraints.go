package lra

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// A Constraint says how many containers of application Other a node should have beside one of
// Subject: at most Threshold, or with AtLeast at least so many. Source: the constraint
// generation of the Metis artefact for its Medea and Paragon baselines (SC'20).
type Constraint struct {
	Subject, Other int
	AtLeast        bool
	Threshold      int
	Curve          [MaxSlots]float64 // throughput of Subject beside 0 … 7 of Other, relative to that alone; zero if not known
}

// Weight returns the cost of a violation in Medea: 1, but 2 for the store beside its readers.
func (c *Constraint) Weight() float64 {
	if c.Subject == store && (c.Other == 1 || c.Other == 6) {
		return 2
	}
	return 1
}

// Limits of a constraint: by how much throughput must change to make one.
const (
	leastSpread = 1.1
	gainRatio   = 1.1
	lossRatio   = 0.9
)

// Constraints derives the constraints from throughputs: rps returns that of a container of
// subject beside k of other. Of each curve whose extremes differ by more than 10 % it takes the
// first k with a throughput more than 10 % above or below that alone.
func Constraints(rps func(subject, other, k int) float64) []Constraint {
	var all []Constraint
	for s := range NumApps {
		for o := range NumApps {
			c := Constraint{Subject: s, Other: o}
			low, high := math.Inf(1), math.Inf(-1)
			alone := rps(s, o, 0)
			for k := range c.Curve {
				c.Curve[k] = rps(s, o, k) / alone
				low, high = min(low, c.Curve[k]), max(high, c.Curve[k])
			}
			if high/low > leastSpread && c.threshold() {
				all = append(all, c)
			}
		}
	}
	return all
}

// threshold sets AtLeast and Threshold by the curve and reports whether there is a limit.
func (c *Constraint) threshold() bool {
	for k := 1; k < len(c.Curve); k++ {
		switch {
		case c.Curve[k] > gainRatio:
			c.AtLeast, c.Threshold = true, k
			return true
		case c.Curve[k] < lossRatio:
			c.Threshold = k - 1
			if c.Subject == c.Other { // counted with the subject itself
				c.Threshold = k
			}
			return true
		}
	}
	return false
}

// Constraints derives the constraints from the states of t with one or two applications.
func (t *Table) Constraints() []Constraint {
	return Constraints(func(subject, other, k int) float64 {
		var c Counts
		c[subject]++
		c[other] += k
		return t.RPS[stateOf[c]][subject]
	})
}

// ReadConstraints reads a list of constraints: columns app_s, app_c, less_or_lager (0 or 1) and
// threshold, applications counted from 1.
func ReadConstraints(name string, r io.Reader) ([]Constraint, error) {
	t, err := newRows(name, r)
	if err != nil {
		return nil, err
	}
	if got := strings.Join(t.Header, ","); got != constraintHeader {
		return nil, t.Errorf("columns %q, want %q", got, constraintHeader)
	}
	var all []Constraint
	for {
		row, err := t.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var v [4]int
		for i, high := range [4]int{NumApps, NumApps, 1, MaxSlots} {
			low := 0
			if i < 2 {
				low = 1
			}
			if v[i], err = strconv.Atoi(row[i]); err != nil || v[i] < low || v[i] > high {
				return nil, t.Errorf("%s %q, want a whole number from %d to %d", t.Header[i], row[i], low, high)
			}
		}
		all = append(all, Constraint{Subject: v[0] - 1, Other: v[1] - 1, AtLeast: v[2] == 1, Threshold: v[3]})
	}
}

// ReadConstraintsFile is [ReadConstraints] for a file.
func ReadConstraintsFile(path string) ([]Constraint, error) { return readFile(path, ReadConstraints) }

const constraintHeader = "app_s,app_c,less_or_lager,threshold"

// WriteConstraints writes what [ReadConstraints] reads, byte for byte as the artefact does.
func WriteConstraints(w io.Writer, all []Constraint) error {
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

// WriteCurves writes the curves of constraints, byte for byte as the artefact does: numbers in
// their shortest form that is exact, with ".0" where they are whole.
func WriteCurves(w io.Writer, all []Constraint) error {
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

// Pairs is a profile of nodes with one or two applications.
type Pairs map[Counts][NumApps]float64

// pairHeader are the columns of the published files.
var pairHeader = [NumApps]string{"Redis-1", "MMS-1", "Checksum", "YCSB-A", "YCSB-B", "Scene-Detect", "ISR"}

// ReadPairs reads the published pairwise profile: counts from one file, and from the same row
// of the other the throughput of a container of each application.
func ReadPairs(countsName string, counts io.Reader, rpsName string, rps io.Reader) (Pairs, error) {
	a, err := newPairRows(countsName, counts)
	if err != nil {
		return nil, err
	}
	b, err := newPairRows(rpsName, rps)
	if err != nil {
		return nil, err
	}
	all := Pairs{}
	first := [NumApps]int{0, 1, 2, 3, 4, 5, 6}
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
		var v [NumApps]float64
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
	if len(t.Header) < NumApps || [NumApps]string(t.Header[:NumApps]) != pairHeader {
		return t, t.Errorf("columns %q, want %q first", t.Header, pairHeader)
	}
	return t, nil
}

// ReadPairsFiles is [ReadPairs] for files.
func ReadPairsFiles(counts, rps string) (Pairs, error) {
	return readFile(counts, func(countsName string, countsReader io.Reader) (Pairs, error) {
		return readFile(rps, func(rpsName string, rpsReader io.Reader) (Pairs, error) {
			return ReadPairs(countsName, countsReader, rpsName, rpsReader)
		})
	})
}

// Constraints derives the constraints from the profile, or returns an error that names what it
// lacks.
func (p Pairs) Constraints() ([]Constraint, error) {
	var missing error
	all := Constraints(func(subject, other, k int) float64 {
		var c Counts
		c[subject]++
		c[other] += k
		v, ok := p[c]
		if (!ok || v[subject] <= 0) && missing == nil {
			missing = fmt.Errorf("lra: the pairwise profile has no throughput of %s on a node with %v", Apps[subject], c)
		}
		return v[subject]
	})
	return all, missing
}
