package convert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/kubernasium/kubernasium/envs/dataset"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// metisProfiles lists the published profiles: the complete one, and the partial ones from which a regressor
// predicts the rest.
var metisProfiles = []struct {
	file    string
	rows    int
	profile string // CSV file made from it
	table   string // node table made from it
}{
	{"0905-6435results-normed", 6435, "profile_full_6435", "node_table_true_6435"},
	{"0905-2008results-median-normed", 2008, "profile_p20_2008", "node_table_p20"},
	{"1212-322results-normed", 322, "profile_p05_322", "node_table_p05"},
	{"1212-5792results-normed", 5792, "profile_p90_5792", "node_table_p90"},
}

// metisBatches lists the sizes of the published batches that have the stated number of containers.
var metisBatches = []int{200, 300, 400, 1000, 2000}

// metis converts the files that exist. Latencies are published as pickled objects, so it omits them.
func metis(j *job) error {
	found := 0
	for _, p := range metisProfiles {
		path := j.in("source/metis/" + p.file + ".npz")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found++
		if err := j.profile(path, p.rows, p.profile, p.table); err != nil {
			return err
		}
	}
	for _, n := range metisBatches {
		path := j.in(fmt.Sprintf("source/metis/batch_set_%d.npz", n))
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		found++
		batches, err := readBatches(path, n)
		if err != nil {
			return err
		}
		if err := j.write(fmt.Sprintf("metis/batch_set_%d.csv", n), func(w io.Writer) error { return files.WriteBatches(w, batches) }); err != nil {
			return err
		}
	}
	pairs := [2]string{j.in("metis/0905-7app-2008-pairwise-normed.csv"), j.in("metis/0905-7app-2008-pairwise-normed-per-app.csv")}
	if _, err := os.Stat(pairs[0]); err == nil {
		found++
		p, err := files.ReadPairsFiles(pairs[0], pairs[1])
		if err != nil {
			return err
		}
		constraints, err := p.Constraints()
		if err != nil {
			return err
		}
		if err := j.write("metis/interference_applist.csv", func(w io.Writer) error { return files.WriteConstraints(w, constraints) }); err != nil {
			return err
		}
	}
	if found == 0 {
		return fmt.Errorf("%w below %s and %s", errNoFiles, j.in("source/metis"), j.in("metis"))
	}
	return nil
}

// profile writes a profile as CSV, and a node table from it: of the complete profile as measured, of the others
// by regression.
func (j *job) profile(path string, rows int, csv, table string) error {
	measured, left, err := files.ReadThroughputsNPZ(path)
	if err != nil {
		return err
	}
	if len(measured) != rows {
		return fmt.Errorf("%s has %d rows, want %d", path, len(measured), rows)
	}
	write := files.WriteProfile
	if len(left) > 0 {
		j.warn("%s: the arrays %q are pickled objects, which are not decoded: metis/%s.csv has no latencies", path, left, csv)
		write = files.WriteThroughputs
	}
	if err := j.write("metis/"+csv+".csv", func(w io.Writer) error { return write(w, measured) }); err != nil {
		return err
	}
	return j.write("metis/"+table+".csv", func(w io.Writer) error {
		err := writeTable(w, measured)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return err
	})
}

// writeTable writes the node table of a profile: as measured if it has every state once, or else as predicted.
func writeTable(w io.Writer, measured []throughput.Measurement) error {
	rps := map[lra.State]*[lra.NumApps]float64{}
	for i := range measured {
		s, err := lra.StateOf(measured[i].Counts)
		if err != nil {
			return err
		}
		rps[s] = &measured[i].RPS
	}
	if len(rps) == lra.NumStates && len(measured) == lra.NumStates {
		table, err := lra.NewTable(func(s lra.State, app int) float64 { return rps[s][app] })
		if err != nil {
			return err
		}
		return files.WriteTable(w, table)
	}
	table, _, err := throughput.Predict(measured, nil)
	if err != nil {
		return err
	}
	return files.WriteTable(w, table)
}

// readBatches reads the array batch_set: 100 batches of n containers.
func readBatches(path string, n int) ([]lra.Counts, error) {
	return dataset.ReadNPZ("lra: ", path, func(a *dataset.Arrays) ([]lra.Counts, error) {
		values, shape, err := a.Floats("batch_set", 2)
		if err != nil {
			return nil, err
		}
		if shape[1] != lra.NumApps {
			return nil, fmt.Errorf("lra: %s: array batch_set has %d columns, want %d", path, shape[1], lra.NumApps)
		}
		batches := make([]lra.Counts, shape[0])
		for i := range batches {
			for k, v := range values[i*lra.NumApps : (i+1)*lra.NumApps] {
				if v < 0 || v > float64(n) || v != float64(int(v)) {
					return nil, fmt.Errorf("lra: %s: batch_set[%d, %d] is %v, want a whole number from 0 to %d", path, i, k, v, n)
				}
				batches[i][k] = int(v)
			}
			if batches[i].Total() != n {
				return nil, fmt.Errorf("lra: %s: batch_set[%d] has %d containers, want %d", path, i, batches[i].Total(), n)
			}
		}
		return batches, nil
	})
}
