package data

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/dataset/catalog"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/fetch"
)

// archive returns a .tar.gz of one file.
func archive(t *testing.T, name, text string) string {
	t.Helper()
	return archiveOf(t, "", map[string]string{name: text})
}

// archiveOf returns a .tar.gz of the files of a folder.
func archiveOf(t *testing.T, folder string, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: folder + name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// mirror serves a folder with the files, by their paths.
func mirror(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range files {
		envstest.Write(t, filepath.Join(dir, filepath.FromSlash(path)), text)
	}
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(s.Close)
	return s.URL
}

// containers is a mirror of the set alibaba, whose archives are not the published ones: their digests are left out until the
// end of the test.
func containers(t *testing.T) map[string]string {
	t.Helper()
	d, err := catalog.Lookup("alibaba")
	if err != nil {
		t.Fatal(err)
	}
	published := d.Files
	t.Cleanup(func() { d.Files = published })
	d.Files = slices.Clone(published)
	for i := range d.Files {
		d.Files[i].SHA256 = ""
	}
	return map[string]string{
		"source/alibaba/container_meta.tar.gz":  archive(t, "container_meta.csv", "c_1,m_1,0,app,started,400,400,1.5\n"),
		"source/alibaba/container_usage.tar.gz": archive(t, "./container_usage.csv", "c_1,m_1,60,10,20,,,,,,\n"),
	}
}

func TestFetch(t *testing.T) {
	to := filepath.Join(t.TempDir(), "data")
	args := []string{"data", "fetch", "alibaba", "--to", to, "--mirror", mirror(t, containers(t)), "--json"}
	type row struct{ Path, Status string }
	statuses := func() []row {
		out, stderr, err := execute(t, t.Context(), args...)
		if err != nil {
			t.Fatal(err, stderr)
		}
		if !strings.Contains(stderr, "no licence is stated") {
			t.Errorf("standard error %q does not say that no licence is stated", stderr)
		}
		return clitest.Decode[[]row](t, out)
	}
	want := []row{
		{"source/alibaba/container_meta.tar.gz", "fetched"}, {"source/alibaba/container_usage.tar.gz", "fetched"},
		{"alibaba/container_meta.csv.gz", "converted"}, {"alibaba/container_usage.csv.gz", "converted"},
	}
	if diff := cmp.Diff(want, statuses()); diff != "" {
		t.Errorf("first fetch (-want +got):\n%s", diff)
	}
	f, err := os.Open(filepath.Join(to, "alibaba/container_usage.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != "c_1,m_1,60,10,20,,,,,,\n" {
		t.Errorf("converted to %q, %v", text, err)
	}
	want[0].Status, want[1].Status = "present", "present"
	if diff := cmp.Diff(want, statuses()); diff != "" {
		t.Errorf("second fetch (-want +got):\n%s", diff)
	}

	mustExecute(t, "data", "check", to, "--set", "alibaba")
	envstest.Write(t, filepath.Join(to, "source/alibaba/container_meta.tar.gz"), "another")
	out, _, err := execute(t, t.Context(), "data", "check", to)
	if !errors.Is(err, errWrong) || !strings.Contains(out, "source/alibaba/container_meta.tar.gz: differs sha256") {
		t.Errorf("check of a changed file: %v\n%s", err, out)
	}
	if _, _, err := execute(t, t.Context(), args...); err == nil || !strings.Contains(err.Error(), "--force replaces it") {
		t.Errorf("fetch over a changed file: %v", err)
	}
	args = append(args, "--force")
	if diff := cmp.Diff("fetched", statuses()[0].Status); diff != "" {
		t.Errorf("--force (-want +got):\n%s", diff)
	}
	mustExecute(t, "data", "check", to)
}

// TestFetchByHand: files that were put in place without a network are taken, recorded and converted.
func TestFetchByHand(t *testing.T) {
	to := t.TempDir()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, _, err := execute(t, t.Context(), "data", "fetch", "alibaba", "--to", to, "--mirror", gone.URL, "--attempts", "1")
	if !errors.Is(err, fetch.ErrOnline) {
		t.Fatalf("%v, want %v", err, fetch.ErrOnline)
	}
	for path, text := range containers(t) {
		name := filepath.Join(to, filepath.FromSlash(path))
		address := "http://aliopentrace.oss-cn-beijing.aliyuncs.com/v2018Traces/" + filepath.Base(path)
		if !strings.Contains(err.Error(), address+"\n    as "+name) {
			t.Errorf("the error does not say to put %s as %s:\n%v", address, name, err)
		}
		envstest.Write(t, name, text)
	}
	_, stderr, err := execute(t, t.Context(), "data", "fetch", "alibaba", "--to", to, "--mirror", gone.URL)
	if err != nil || !strings.Contains(stderr, "its own is recorded") {
		t.Errorf("with the files in place: %v\n%s", err, stderr)
	}
	mustExecute(t, "data", "check", to, "--set", "alibaba")
}

func TestFetchErrors(t *testing.T) {
	unwritable := filepath.Join(t.TempDir(), "file")
	envstest.Write(t, unwritable, "")
	server := mirror(t, map[string]string{"openb/openb_node_list_gpu_node.csv": "sn,cpu_milli\n", "azure/vmtable.csv.gz": "a",
		"source/alibaba/container_meta.tar.gz": "abc"})
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no such set", []string{"nothing"}, `no data set of this name: "nothing", want one of openb, gang`},
		{"no name", nil, "requires at least 1 arg"},
		{"another file", []string{"openb"}, "openb_node_list_gpu_node.csv has 13 bytes, want 42353"},
		{"another file of unknown size", []string{"alibaba"}, "has 3 bytes with sha256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad, want sha256 febd75e6"},
		{"not there", []string{"borg"}, "404 Not Found"},
		{"no parts", []string{"openb", "--part", "1"}, "--part is for one data set in parts"},
		{"two sets with parts", []string{"azure", "borg", "--part", "1"}, "--part is for one data set in parts"},
		{"no such part", []string{"azure", "--part", "196"}, "part 196, want 1 to 195"},
		{"no number", []string{"azure", "--part", "4-2"}, `--part "4-2", want numbers and ranges`},
		{"no attempts", []string{"azure", "--attempts", "0"}, "--attempts is 0"},
		{"no folder", []string{"azure", "--to", unwritable}, "not a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to := t.TempDir()
			args := append([]string{"data", "fetch", "--to", to, "--mirror", server}, tc.args...)
			if _, _, err := execute(t, t.Context(), args...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			for _, d := range catalog.All() {
				for _, f := range append(d.Files, d.Outputs...) {
					if _, err := os.Stat(filepath.Join(to, f.Path)); err == nil && f.Path != "azure/vmtable.csv.gz" {
						t.Errorf("there is a file %s", f.Path)
					}
				}
			}
		})
	}
}

// TestFetchOthers: a file that the server does not have keeps no other from being fetched.
func TestFetchOthers(t *testing.T) {
	to := t.TempDir()
	files := containers(t)
	delete(files, "source/alibaba/container_meta.tar.gz")
	out, _, err := execute(t, t.Context(), "data", "fetch", "alibaba", "--to", to, "--mirror", mirror(t, files))
	if !errors.Is(err, fetch.ErrStatus) || !strings.Contains(out, "container_usage.tar.gz") || strings.Contains(err.Error(), "container_usage.tar.gz") {
		t.Errorf("%v, want one about container_meta alone, after\n%s", err, out)
	}
	if out := mustExecute(t, "data", "check", to); !strings.Contains(out, "source/alibaba/container_meta.tar.gz: missing") {
		t.Errorf("check does not name the missing file:\n%s", out)
	}
	if _, _, err := execute(t, t.Context(), "data", "check", to, "--set", "alibaba"); !errors.Is(err, errWrong) || !strings.Contains(err.Error(), "alibaba is partial") {
		t.Errorf("check of a partial set: %v", err)
	}
}

func TestFetchParts(t *testing.T) {
	to := t.TempDir()
	files := map[string]string{"azure/vmtable.csv.gz": "a"}
	for _, n := range []int{1, 2, 4} {
		files[fmt.Sprintf("azure/vm_cpu_readings-file-%d-of-195.csv.gz", n)] = fmt.Sprint(n)
	}
	server := mirror(t, files)
	mustExecute(t, "data", "fetch", "azure", "--to", to, "--mirror", server, "--part", "1-2, 4")
	for path, want := range files {
		if got := envstest.Read(t, filepath.Join(to, path)); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	mustExecute(t, "data", "check", to, "--set", "azure")
	envstest.Write(t, filepath.Join(to, "azure/vm_cpu_readings-file-4-of-195.csv.gz"), "5")
	if _, _, err := execute(t, t.Context(), "data", "check", to); !errors.Is(err, errWrong) {
		t.Errorf("check of a changed part: %v", err)
	}
}

// TestFetchPublished: the published files, from a server of the data folder, are right by the manifest.
func TestFetchPublished(t *testing.T) {
	openb := envstest.Data(t, "openb", "openb_pod_list_default.csv")
	s := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(openb))))
	t.Cleanup(s.Close)
	to := t.TempDir()
	mustExecute(t, "data", "fetch", "openb", "--to", to, "--mirror", s.URL)
	mustExecute(t, "data", "check", to, "--set", "openb")
	out, _, err := execute(t, t.Context(), "data", "check", to, "--set", "openb", "--set", "aaml")
	if !errors.Is(err, errWrong) || !strings.Contains(err.Error(), "aaml is absent") {
		t.Errorf("check of a set that is not there: %v\n%s", err, out)
	}
	mustExecute(t, "data", "check", filepath.Dir(openb))
}

func TestCheckEmpty(t *testing.T) {
	if _, _, err := execute(t, t.Context(), "data", "check", t.TempDir()); !errors.Is(err, errWrong) || !strings.Contains(err.Error(), "no file of any data set") {
		t.Errorf("check of an empty folder: %v", err)
	}
}

// npy returns a file of NumPy with a header and data.
func npy(dtype, shape string, data []byte) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	b := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(b[8:], uint16(len(header)))
	return append(append(b, header...), data...)
}

func TestConvertPickled(t *testing.T) {
	numbers := make([]byte, 100*7*8)
	for i := range 100 {
		numbers[i*7*8] = 200 // of the first application
	}
	for _, tc := range []struct {
		name, want string
		array      []byte
	}{
		{"numbers", "", npy("<i8", "(100, 7)", numbers)},
		{"pickled objects", "pickled objects (dtype object) are not read", npy("|O", "(100, 7)", []byte("cos\nsystem\n(S'true'\ntR."))},
		{"truncated", "unexpected EOF", npy("<i8", "(100, 7)", numbers[:999])},
		{"other batches", "batch_set[0] has 0 containers, want 200", npy("<i8", "(1, 7)", make([]byte, 7*8))},
		{"other columns", "has 6 columns, want 7", npy("<i8", "(1, 6)", make([]byte, 6*8))},
		{"no NumPy", "has no header", []byte("no array")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			z := zip.NewWriter(&b)
			w, err := z.Create("batch_set.npy")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(tc.array); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			from, to := t.TempDir(), t.TempDir()
			envstest.Write(t, filepath.Join(from, "source/metis/batch_set_200.npz"), b.String())
			_, _, err = execute(t, t.Context(), "data", "convert", "metis", "--from", from, "--to", to)
			made := filepath.Join(to, "metis/batch_set_200.csv")
			if tc.want == "" { // converted, but its digest is not the published one's
				tc.want = "its source is not the published file"
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if _, err := os.Stat(made); err == nil {
				t.Error("there is a converted file")
			}
		})
	}
}

func TestConvertErrors(t *testing.T) {
	for _, tc := range []struct{ set, file, text, want string }{
		{"openb", "", "", "openb needs no conversion"},
		{"metis", "", "", "none of its files is there"},
		{"nab", "source/nab/nyc_taxi.csv", "timestamp,value\n2014-07-01 00:00:00,1\n", "has 1 rows, want the 10320"},
		{"nab", "source/nab/nyc_taxi.csv", "", `header "", want timestamp,value`},
		{"nab", "", "", "no such file"},
		{"pai", "source/pai/pai_machine_spec.tar.gz", "no archive", "gzip: invalid header"},
		{"pai", "source/pai/pai_machine_spec.tar.gz", archive(t, "other.csv", "a"), "has no file pai_machine_spec.csv"},
		{"pai", "source/pai/pai_machine_spec.tar.gz", archive(t, "pai_machine_spec.csv", strings.Repeat("m,T4,96,512,2\n", 9))[:80], "EOF"},
	} {
		dir := t.TempDir()
		if tc.file != "" {
			envstest.Write(t, filepath.Join(dir, tc.file), tc.text)
		}
		if _, _, err := execute(t, t.Context(), "data", "convert", tc.set, "--from", dir); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s with %q: error %v, want %q", tc.set, tc.file, err, tc.want)
		}
		for _, folder := range []string{"gang", "metis", "pai"} {
			if found, _ := filepath.Glob(filepath.Join(dir, folder, "*")); len(found) > 0 {
				t.Errorf("%s with %q has left %q", tc.set, tc.file, found)
			}
		}
	}
}

// TestConvertTables: tables of Alibaba's trace of 2020 get header lines.
func TestConvertTables(t *testing.T) {
	dir := t.TempDir()
	for name, row := range map[string]string{"pai_machine_spec": "m1,T4,96,512,2", "pai_task_table": "j,worker,1,Terminated,1,2,600,29.3,100,T4"} {
		envstest.Write(t, filepath.Join(dir, "source/pai", name+".tar.gz"), archive(t, name+".csv", row+"\n"))
	}
	mustExecute(t, "data", "convert", "pai", "--from", dir)
	for path, want := range map[string]string{
		"pai/pai_machine_spec.csv": "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\nm1,T4,96,512,2\n",
		"pai/pai_task_table.csv":   "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\nj,worker,1,Terminated,1,2,600,29.3,100,T4\n",
	} {
		if got := envstest.Read(t, filepath.Join(dir, path)); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

// TestConvertPhilly: of Microsoft's archive, the files that environments read are unpacked as they are.
func TestConvertPhilly(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"cluster_gpu_util": "unread\n", "cluster_job_log": "[]\n", "cluster_machine_list": "machineId, number of GPUs\n"}
	envstest.Write(t, filepath.Join(dir, "source/philly/trace-data.tar.gz"), archiveOf(t, "trace-data/", files))
	mustExecute(t, "data", "convert", "philly", "--from", dir)
	for path, want := range map[string]string{
		"philly/cluster_job_log.json": files["cluster_job_log"], "philly/cluster_machine_list.csv": files["cluster_machine_list"],
	} {
		if got := envstest.Read(t, filepath.Join(dir, path)); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

// TestConvertHelios: the tables of the four clusters are unpacked as they are; an archive without one of them is an error.
func TestConvertHelios(t *testing.T) {
	for _, clusters := range [][]string{{"Earth", "Saturn", "Uranus", "Venus"}, {"Earth", "Saturn", "Uranus"}} {
		dir := t.TempDir()
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, cluster := range clusters {
			for _, file := range []string{"cluster_gpu_number.csv", "cluster_log.csv"} {
				w, err := z.Create("data/" + cluster + "/" + file)
				if err == nil {
					_, err = io.WriteString(w, cluster+" "+file)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		envstest.Write(t, filepath.Join(dir, "source/helios/data.zip"), b.String())
		if len(clusters) < 4 {
			if _, _, err := execute(t, t.Context(), "data", "convert", "helios", "--from", dir); err == nil || !strings.Contains(err.Error(), "data/Venus") {
				t.Errorf("error %v, want one about data/Venus", err)
			}
			continue
		}
		mustExecute(t, "data", "convert", "helios", "--from", dir)
		for _, cluster := range clusters {
			if got, want := envstest.Read(t, filepath.Join(dir, "helios", cluster, "cluster_log.csv")), cluster+" cluster_log.csv"; got != want {
				t.Errorf("%s has %q, want %q", cluster, got, want)
			}
		}
	}
}

func TestList(t *testing.T) {
	sets := clitest.Decode[[]catalog.Dataset](t, mustExecute(t, "data", "list", "--json"))
	if diff := cmp.Diff(catalog.All(), sets); diff != "" {
		t.Errorf("list --json (-want +got):\n%s", diff)
	}
	out := mustExecute(t, "data", "list")
	for _, name := range catalog.Names() {
		if !strings.Contains(out, "\n"+name+" ") {
			t.Errorf("list does not name %s:\n%s", name, out)
		}
	}
	// The digest is that of the trace's own SHA256SUMS.
	one := mustExecute(t, "data", "list", "openb")
	for _, want := range []string{"Apache-2.0", "8f3d6417353c5083c6d56617f255fadd8dc306bc", "1ee7ed79c27a3b0861cda8ddba86a004c6aba904caafa329a76ae93ca63834a8", "USENIX ATC 2023",
		"https://raw.githubusercontent.com/hkust-adsl/kubernetes-scheduler-simulator/8f3d6417353c5083c6d56617f255fadd8dc306bc/data/csv/openb_pod_list_default.csv"} {
		if !strings.Contains(one, want) {
			t.Errorf("list openb does not have %s:\n%s", want, one)
		}
	}
}
