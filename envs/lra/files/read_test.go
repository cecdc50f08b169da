package files_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sbinet/npyio/npz"
	"gonum.org/v1/gonum/mat"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

const header = "redis,mms,ckm,ycsba,ycsbb,scd,isr"

func TestReadErrors(t *testing.T) {
	for _, tc := range []struct {
		name, text, want string
		read             func(text string) error
	}{
		{"empty", "", ":1: empty file, want a header line", readBatchesText},
		{"no columns", "a,b\n1,2\n", `:1: columns ["a" "b"], want`, readBatchesText},
		{"negative", header + "\n1,2,3,4,5,6,-7\n", `:2: isr "-7", want a whole number from 0`, readBatchesText},
		{"short row", header + "\n1,2\n", ":2: 2 fields, want the header's 7", readBatchesText},
		{"empty batch", header + "\n0,0,0,0,0,0,0\n", ":2: an empty batch", readBatchesText},
		{"no batches", header + "\n", ":1: no batches", readBatchesText},
		{"no rps", header + "\n", "want rps_ and each of", readTableText},
		{"constraint", "app_s,app_c,less_or_lager,threshold\n8,1,0,2\n", `:2: app_s "8", want a whole number from 1 to 7`, func(text string) error {
			_, err := files.ReadConstraints("f", strings.NewReader(text))
			return err
		}},
	} {
		if err := tc.read(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

func readBatchesText(text string) error {
	_, err := files.ReadBatches("f", strings.NewReader(text))
	return err
}

func readTableText(text string) error {
	_, err := files.ReadTable("f", strings.NewReader(text))
	return err
}

// TestWriteTable reads what was written, to the six digits of the file.
func TestWriteTable(t *testing.T) {
	table := throughput.GenerateTable(3)
	var first, second bytes.Buffer
	if err := files.WriteTable(&first, table); err != nil {
		t.Fatal(err)
	}
	again, err := files.ReadTable("f", bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := files.WriteTable(&second, again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("a table that was written and read is written otherwise")
	}
	missing := first.String()[:strings.LastIndex(strings.TrimSpace(first.String()), "\n")+1]
	if err := readTableText(missing); err == nil || !strings.Contains(err.Error(), "1 of the 6435 states are missing") {
		t.Errorf("a table without its last row: %v", err)
	}
}

// TestWriteBatches: what is written is read as it was.
func TestWriteBatches(t *testing.T) {
	batches := []lra.Counts{{1, 2, 3, 4, 5, 6, 7}, {0, 0, 0, 0, 0, 0, 300}}
	var b bytes.Buffer
	if err := files.WriteBatches(&b, batches); err != nil {
		t.Fatal(err)
	}
	if want := header + "\n1,2,3,4,5,6,7\n0,0,0,0,0,0,300\n"; b.String() != want {
		t.Errorf("written %q, want %q", b.String(), want)
	}
	if again, err := files.ReadBatches("f", &b); err != nil || cmp.Diff(batches, again) != "" {
		t.Errorf("read again %v, %v; want %v", again, err, batches)
	}
}

// TestWriteProfile: what is written is read as it was, to the last bit.
func TestWriteProfile(t *testing.T) {
	profile := []throughput.Measurement{
		{Counts: lra.Counts{1, 2}, RPS: [lra.NumApps]float64{0.30000000000000004, 2.4667}, RT50: [lra.NumApps]float64{5.3, 0}, RT99: [lra.NumApps]float64{5.7, 1e-9}},
		{Counts: lra.Counts{0, 0, 0, 0, 0, 0, 8}, RPS: [lra.NumApps]float64{6: 1.0 / 3}},
		{Counts: lra.Counts{0, 0, 0, 0, 0, 0, 8}, RPS: [lra.NumApps]float64{6: 0.3}}, // a second time
	}
	var b bytes.Buffer
	if err := files.WriteProfile(&b, profile); err != nil {
		t.Fatal(err)
	}
	again, err := files.ReadProfile("f", bytes.NewReader(b.Bytes()))
	if diff := cmp.Diff(profile, again); diff != "" || err != nil {
		t.Errorf("read again: %v (-written +read):\n%s", err, diff)
	}
	lines := strings.Split(b.String(), "\n")
	if !strings.HasPrefix(lines[0], header+",rps_redis,") || !strings.HasSuffix(lines[0], ",rt99_scd,rt99_isr") {
		t.Errorf("header %s", lines[0])
	}
	if want := "1,2,0,0,0,0,0,0.30000000000000004,2.4667,,,,,,5.3,0,,,,,,5.7,1e-09,,,,,"; lines[1] != want {
		t.Errorf("first row %s, want %s", lines[1], want)
	}
}

// TestProfileNPZ writes the published layout, without pickles, and reads it.
func TestProfileNPZ(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profile.npz")
	write := func(arrays map[string]any) {
		t.Helper()
		if err := npz.Write(path, arrays); err != nil {
			t.Fatal(err)
		}
	}
	alloc := mat.NewDense(2, 9, []float64{1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0})
	rps := mat.NewDense(2, 9, []float64{.5, 2.1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, .9, 0, 0})
	write(map[string]any{"alloc": alloc, "rps": rps})
	got, err := files.ReadProfileFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []throughput.Measurement{
		{Counts: lra.Counts{1, 2}, RPS: [lra.NumApps]float64{.5, 2.1}},
		{Counts: lra.Counts{0, 0, 0, 0, 0, 0, 8}, RPS: [lra.NumApps]float64{0, 0, 0, 0, 0, 0, .9}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("profile (-want +got):\n%s", diff)
	}
	alloc.Set(0, 0, 7)
	write(map[string]any{"alloc": alloc, "rps": rps})
	if _, err := files.ReadProfileNPZ(path); err == nil || !strings.Contains(err.Error(), "at most 8 in total") {
		t.Errorf("nine containers: %v", err)
	}
	write(map[string]any{"alloc": alloc})
	if _, err := files.ReadProfileNPZ(path); err == nil {
		t.Error("no rps: no error")
	}
	envstest.Write(t, path, "not a zip")
	if _, err := files.ReadProfileNPZ(path); err == nil || !strings.Contains(err.Error(), "is no NPZ file") {
		t.Errorf("not a zip: %v", err)
	}
}

func FuzzReadTable(f *testing.F) {
	f.Add(header + ",rps_redis,rps_mms,rps_ckm,rps_ycsba,rps_ycsbb,rps_scd,rps_isr,node_total\n1,0,0,0,0,0,0,1,0,0,0,0,0,0,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		_ = readTableText(text)
		_ = readBatchesText(text)
		_, _ = files.ReadProfile("f", strings.NewReader(text))
		_, _ = files.ReadConstraints("f", strings.NewReader(text))
		_, _ = files.ReadPairs("f", strings.NewReader(text), "g", strings.NewReader(text))
	})
}

func FuzzNPZ(f *testing.F) {
	f.Add([]byte("PK"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := envstest.TempFile(t, "f.npz", string(data))
		_, _ = files.ReadProfileNPZ(path)
		_, _ = subcluster.ReadNetworks(path)
	})
}
