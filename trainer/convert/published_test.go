package convert

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbinet/npyio/npz"
	"gonum.org/v1/gonum/mat"

	"github.com/kubernasium/kubernasium/envs/dataset/catalog"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
)

// writeNPZ writes matrices as NumPy does.
func writeNPZ(t *testing.T, path string, arrays map[string]*mat.Dense) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := npz.NewWriter(f)
	for name, m := range arrays {
		if err := w.Write(name+".npy", m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestConvertedAsPublished: the series of nab, joined to the benchmark's files, and the profile and batches of
// metis as NPZ are converted to files of the manifest's digests.
func TestConvertedAsPublished(t *testing.T) {
	gang, metis := envstest.Data(t, "gang", "series/nyc_taxi_1.csv"), envstest.Data(t, "metis", "profile_full_6435.csv")
	from, to := t.TempDir(), t.TempDir()
	for file, parts := range map[string]int{"nyc_taxi": 4, "ambient_temperature_system_failure": 3} {
		text := "timestamp,value\n"
		for i := range parts {
			_, rows, _ := strings.Cut(string(read(t, filepath.Join(gang, "series", fmt.Sprintf("%s_%d.csv", file, i+1)))), "\n")
			text += rows + "\n"
		}
		if parts == 3 {
			text += strings.Repeat("2014-05-18 00:00:00,1\n", 263) // of the published file, which no part has
		}
		envstest.Write(t, filepath.Join(from, "source/nab", file+".csv"), text)
	}
	_, rows, _ := strings.Cut(string(read(t, filepath.Join(gang, "series/art_daily_small_noise.csv"))), "\n")
	var both strings.Builder
	for row := range strings.Lines(rows) {
		both.WriteString("2014-04-01 00:00:00,1\n" + row) // each second one is of no part
	}
	envstest.Write(t, filepath.Join(from, "source/nab/art_daily_small_noise.csv"), "timestamp,value\n"+both.String())

	profile, err := files.ReadProfileFile(filepath.Join(metis, "profile_full_6435.csv"))
	if err != nil {
		t.Fatal(err)
	}
	alloc, rps := mat.NewDense(len(profile), 9, nil), mat.NewDense(len(profile), 9, nil)
	for i := range profile {
		for a, k := range profile[i].Counts {
			alloc.Set(i, a, float64(k))
			rps.Set(i, a, profile[i].RPS[a])
		}
	}
	writeNPZ(t, filepath.Join(from, "source/metis/0905-6435results-normed.npz"), map[string]*mat.Dense{"alloc": alloc, "rps": rps})
	for _, n := range metisBatches {
		batches, err := files.ReadBatchesFile(filepath.Join(metis, fmt.Sprintf("batch_set_%d.csv", n)))
		if err != nil {
			t.Fatal(err)
		}
		m := mat.NewDense(len(batches), 7, nil)
		for i, b := range batches {
			for a, k := range b {
				m.Set(i, a, float64(k))
			}
		}
		writeNPZ(t, filepath.Join(from, fmt.Sprintf("source/metis/batch_set_%d.npz", n)), map[string]*mat.Dense{"batch_set": m})
	}
	for _, pairs := range []string{"0905-7app-2008-pairwise-normed.csv", "0905-7app-2008-pairwise-normed-per-app.csv"} {
		envstest.Write(t, filepath.Join(from, "metis", pairs), string(read(t, filepath.Join(metis, pairs))))
	}

	checked := 0
	for _, name := range []string{"nab", "metis"} {
		written, err := Run(t.Context(), name, from, to, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		set, err := catalog.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range written {
			for i := range set.Outputs {
				if f := &set.Outputs[i]; f.Path == path && f.Pinned() {
					r, err := f.Check(t.Context(), to, nil)
					if err != nil || r.State != catalog.OK {
						t.Errorf("%s: %+v, %v", path, r, err)
					}
					checked++
				}
			}
		}
	}
	if checked != 8+5+1 { // series, batches, constraints
		t.Errorf("%d outputs have digests, want 14", checked)
	}
	want, err := files.ReadTableFile(filepath.Join(metis, "node_table_true_6435.csv"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := files.ReadTableFile(filepath.Join(to, "metis/node_table_true_6435.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for s := range lra.State(lra.NumStates) {
		if d := math.Abs(got.Total[s] - want.Total[s]); d > 1e-5 { // eight throughputs of six digits
			t.Fatalf("state %v has throughput %v, want %v", s.Counts(), got.Total[s], want.Total[s])
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimRight(text, "\n")
}
