package files

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/envs/dataset"
	"github.com/kubernasium/kubernasium/envs/lra"
)

// maxContainers is the maximum number of containers of one application in a batch.
const maxContainers = 1 << 20

// totalTolerance is the permitted difference between node_total of a file and the sum of its row: published tables are
// rounded to six digits, and eight containers add up.
const totalTolerance = 1e-5

// ReadTable reads a node table. Its header has the names of [lra.Apps], the same with the prefix rps_, and optionally
// node_total. It has one row for each of the 6,435 states, in any order. Without node_total, the total is the sum of
// the row. name stands for r in errors.
func ReadTable(name string, r io.Reader) (*lra.Table, error) {
	t, err := newRows(name, r)
	if err != nil {
		return nil, err
	}
	counts, rps, err := t.states()
	if err != nil {
		return nil, err
	}
	total := slices.Index(t.Header, "node_total")
	table, seen, left := &lra.Table{}, make([]bool, lra.NumStates), lra.NumStates
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		s, err := t.state(row, counts)
		if err != nil {
			return nil, err
		}
		if seen[s] {
			return nil, t.Errorf("state %v is there twice", s.Counts())
		}
		seen[s] = true
		left--
		if err := t.fill(table, s, row, rps, total); err != nil {
			return nil, err
		}
	}
	if left > 0 {
		return nil, t.Errorf("%d of the %d states are missing, the first of them %v", left, lra.NumStates, lra.State(slices.Index(seen, false)).Counts())
	}
	return table, nil
}

// state parses the counts of a node.
func (t rows) state(row []string, index [lra.NumApps]int) (lra.State, error) {
	c, err := t.count(row, index)
	if err != nil {
		return lra.NoState, err
	}
	s, err := lra.StateOf(c)
	if err != nil {
		return lra.NoState, t.Errorf("counts %v, want at most %d in total", c, lra.MaxSlots)
	}
	return s, nil
}

func (t rows) fill(table *lra.Table, s lra.State, row []string, rps [lra.NumApps]int, total int) error {
	sum := 0.0
	for a, k := range s.Counts() {
		v, err := t.number(row, rps[a])
		if err != nil {
			return err
		}
		if v < 0 {
			return t.Errorf("%s is %v, want at least 0", t.Header[rps[a]], v)
		}
		if k > 0 {
			table.RPS[s][a] = v
			sum += float64(k) * v
		}
	}
	table.Total[s] = sum
	if total < 0 {
		return nil
	}
	v, err := t.number(row, total)
	if err != nil {
		return err
	}
	if math.Abs(v-sum) > totalTolerance {
		return t.Errorf("node_total is %v, but the containers of the row add up to %v", v, sum)
	}
	table.Total[s] = v
	return nil
}

// ReadTableFile is [ReadTable] for a file.
func ReadTableFile(path string) (*lra.Table, error) { return dataset.ReadFile(path, ReadTable) }

// ReadBatches reads batches: a header with the names of [lra.Apps], and a row for each batch.
func ReadBatches(name string, r io.Reader) ([]lra.Counts, error) {
	t, err := newRows(name, r)
	if err != nil {
		return nil, err
	}
	index, err := t.counts()
	if err != nil {
		return nil, err
	}
	var all []lra.Counts
	for row, err := range t.Rows() {
		if err != nil {
			return nil, err
		}
		c, err := t.count(row, index)
		if err != nil {
			return nil, err
		}
		if c.Total() == 0 {
			return nil, t.Errorf("an empty batch, want at least one container")
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, t.Errorf("no batches")
	}
	return all, nil
}

// ReadBatchesFile is [ReadBatches] for a file.
func ReadBatchesFile(path string) ([]lra.Counts, error) { return dataset.ReadFile(path, ReadBatches) }

// WriteBatches writes the format of [ReadBatches].
func WriteBatches(w io.Writer, batches []lra.Counts) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, strings.Join(lra.Apps[:], ","))
	for _, counts := range batches {
		for a, k := range counts {
			if a > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Itoa(k))
		}
		b.WriteByte('\n')
	}
	return b.Flush()
}

// WriteTable writes the format of [ReadTable], with six digits after the point, state by state.
func WriteTable(w io.Writer, t *lra.Table) error {
	b := bufio.NewWriter(w)
	for _, prefix := range []string{"", "rps_"} {
		for _, app := range lra.Apps {
			fmt.Fprintf(b, "%s%s,", prefix, app)
		}
	}
	fmt.Fprintln(b, "node_total")
	for s := range lra.State(lra.NumStates) {
		for _, k := range s.Counts() {
			fmt.Fprintf(b, "%d,", k)
		}
		for _, v := range t.RPS[s] {
			fmt.Fprintf(b, "%.6f,", v)
		}
		fmt.Fprintf(b, "%.6f\n", t.Total[s])
	}
	return b.Flush()
}
