package workload_test

import (
	"bytes"
	"compress/gzip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

var minute = workload.Grid{Interval: time.Minute, MaxGap: 3 * time.Minute}

func TestReadCSV(t *testing.T) {
	const file = "\ufefftime_s,cpu_m,mem_b,pod\r\n0,100,1000,a\r\n0,7,70,b\r\n30,200,500,a\r\n60,50,400,a\r\n240,10,300,a\r\n"
	got, report, err := workload.ReadCSV("usage.csv", strings.NewReader(file), minute)
	if err != nil {
		t.Fatal(err)
	}
	// a: 0:00 has the mean of 100 and 200 and the larger memory; 1:00 50 and 400, which hold
	// for 2:00 and 3:00; 4:00 has the last.
	want := []workload.Series{
		{ID: "a", Interval: time.Minute, Usage: []cluster.Resources{{MilliCPU: 150, MemoryBytes: 1000}, {MilliCPU: 50, MemoryBytes: 400}, {MilliCPU: 50, MemoryBytes: 400}, {MilliCPU: 50, MemoryBytes: 400}, {MilliCPU: 10, MemoryBytes: 300}}},
		{ID: "b", Interval: time.Minute, Usage: []cluster.Resources{{MilliCPU: 7, MemoryBytes: 70}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	// a comes every 30 s, so that of 90, 120, 150, 180 and 210 s there is none.
	wantReport := workload.Report{Samples: 5, Filled: 2,
		Holes: []string{`usage.csv:6: 5 samples of "a" are missing before this line, by the usual interval of 30 s`}}
	if diff := cmp.Diff(wantReport, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestBadCSV(t *testing.T) {
	const head = "time_s,cpu_m,mem_b\n"
	for _, tc := range []struct{ name, file, want string }{
		{"empty", "", "empty file, want a header line with time_s, cpu_m, mem_b"},
		{"no rows", head, "no sample of any container"},
		{"unknown column", "time_s,cpu_m,mem_b,disk\n", `unknown column "disk", want time_s, cpu_m, mem_b, pod`},
		{"missing column", "time_s,cpu_m\n", `no column "mem_b"`},
		{"column twice", "time_s,cpu_m,cpu_m,mem_b\n", `column "cpu_m" twice`},
		{"negative CPU", head + "0,-1,5\n", "u.csv:2: CPU usage -1 m"},
		{"negative memory", head + "0,1,5\n60,1,-5\n", "u.csv:3: memory usage -5 bytes"},
		{"NaN", head + "0,NaN,5\n", `u.csv:2: cpu_m "NaN" is not finite`},
		{"infinite", head + "0,1,Inf\n", "is not finite"},
		{"no number", head + "0,1,many\n", `mem_b "many" is not a number`},
		{"decreasing time", head + "60,1,1\n0,1,1\n", "u.csv:3: time 0 of \"u.csv\" after 60, want later and later times"},
		{"equal time", head + "60,1,1\n60,1,1\n", "after 60"},
		{"gap", head + "0,1,1\n600,1,1\n", "has no sample of CPU for 600 s from time 0, want at most 180 s"},
		{"fields", head + "0,1\n", "u.csv:2: 2 fields, want the header's 3"},
		{"very long", head + "0,1,1\n999999999999,1,1\n", "more than 10000000 intervals"},
		{"very large", head + "0,1e300,1\n", "want 0 to"},
	} {
		_, _, err := workload.ReadCSV("u.csv", strings.NewReader(tc.file), minute)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// folder writes files, gzipped where the name says so.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		data := []byte(text)
		if strings.HasSuffix(name, ".gz") {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			if _, err := z.Write(data); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			data = b.Bytes()
		}
		envstest.Write(t, filepath.Join(dir, name), string(data))
	}
	return dir
}

// TestFormats reads a small file of each format, worked by hand, and tells it by its name.
func TestFormats(t *testing.T) {
	const gib = 1 << 30
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  []workload.Series
	}{
		{"arabesque", map[string]string{"arabesque.csv": "pod,time,cpu,memory\nengine,0,0.25,1024\nengine,60,0.5,2048\n"},
			[]workload.Series{{ID: "engine", Usage: []cluster.Resources{{MilliCPU: 250, MemoryBytes: 1024}, {MilliCPU: 500, MemoryBytes: 2048}}}}},
		// 25 % and 75 % of two cores. Memory of 4 GiB: 0.4 + 0.3·0.25; then the mean goes a sixth
		// of the way from 0.25 to 0.75.
		{"azure", map[string]string{
			"vmtable.csv.gz":           "vm1,s,d,0,600,80,50,70,Interactive,2,4\n",
			"vm_cpu_readings-1.csv.gz": "300,vm1,0,90,75\n0,vm1,0,30,25\n",
		}, []workload.Series{{ID: "vm1", Requests: cluster.Resources{MilliCPU: 2000, MemoryBytes: 4 * gib}, Usage: fives(
			cluster.Resources{MilliCPU: 500, MemoryBytes: 2040109466}, cluster.Resources{MilliCPU: 1500, MemoryBytes: 2147483648})}}},
		// 4 % of 4 cores are 160 m; 50 % of 2/100 of 256 GiB are 2.56 GiB. The second row has no
		// valid CPU and holds the first's; the third is not valid at all.
		{"alibaba", map[string]string{
			"container_meta.csv":  "c_1,m_1,0,app_1,started,400,800,2\n",
			"container_usage.csv": "c_1,m_1,60,101,25,,,,,,\n" + "c_1,m_1,0,4,50,1.72,0.0,0.0,0.02,0.03,5.0\n" + "c_1,m_1,120,-1,-1,,,,,,\n",
		}, []workload.Series{{ID: "c_1", Requests: cluster.Resources{MilliCPU: 4000, MemoryBytes: 5497558139}, Limits: cluster.Resources{MilliCPU: 8000, MemoryBytes: 5497558139},
			Usage: []cluster.Resources{{MilliCPU: 160, MemoryBytes: 2748779069}, {MilliCPU: 160, MemoryBytes: 1374389535}}}}},
		// 1/64 of a machine of 64 cores is a core; 1/256 and 1/128 of 256 GiB are 1 and 2 GiB.
		{"borg", map[string]string{"instance_usage-000000000000.json.gz": `{"start_time":"0","end_time":"60000000","collection_id":"7","instance_index":"1","average_usage":{"cpus":0.015625,"memory":0.001},"maximum_usage":{"cpus":0.1,"memory":0.00390625},"assigned_memory":0.0078125,"sample_rate":1}
{"start_time":"60000000","end_time":"120000000","collection_id":"7","instance_index":"1","average_usage":{"cpus":0.03125,"memory":0.00390625}}
`}, []workload.Series{{ID: "7-1", Limits: cluster.Resources{MemoryBytes: 2 * gib},
			Usage: []cluster.Resources{{MilliCPU: 1000, MemoryBytes: gib}, {MilliCPU: 2000, MemoryBytes: gib}}}}},
		{"prometheus", map[string]string{
			"1.json": `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"namespace":"n","pod":"p"},"values":[[1700000000,"0.5"],[1700000060.5,"0.25"]]}]}}`,
			"2.json": `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"namespace":"n","pod":"p"},"values":[[1700000000,"1000"],[1700000060.5,"NaN"]]}]}}`,
		}, []workload.Series{{ID: "n/p", Usage: []cluster.Resources{{MilliCPU: 500, MemoryBytes: 1000}, {MilliCPU: 250, MemoryBytes: 1000}}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i := range tc.want {
				tc.want[i].Interval = time.Minute
			}
			got, _, err := workload.ReadFiles(folder(t, tc.files), "", workload.Grid{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("series (-want +got):\n%s", diff)
			}
		})
	}
}

// fives returns five samples of a, and then b.
func fives(a, b cluster.Resources) []cluster.Resources {
	return []cluster.Resources{a, a, a, a, a, b}
}

func TestPrometheusLabels(t *testing.T) {
	reply := func(series string) []byte {
		return []byte(`{"status":"success","data":{"resultType":"matrix","result":[` + series + `]}}`)
	}
	one := reply(`{"metric":{"resource":"cpu","pod":"p"},"values":[[0,"1"]]},{"metric":{"__name__":"container_memory_rss","pod":"p"},"values":[[0,"9"]]}`)
	got, _, err := workload.ReadPrometheus("x", [][]byte{one}, minute)
	if err != nil || len(got) != 1 || got[0].Usage[0] != (cluster.Resources{MilliCPU: 1000, MemoryBytes: 9}) {
		t.Errorf("one query with labels: %v, %v", got, err)
	}
	// A rate of CPU begins with the second scrape, and the series with it; its last minute has the CPU of the one before.
	late := reply(`{"metric":{"resource":"cpu"},"values":[[120,"1"],[180,"2"]]},{"metric":{"resource":"memory"},"values":[[0,"7"],[60,"8"],[120,"9"],[180,"9"],[240,"6"]]}`)
	got, report, err := workload.ReadPrometheus("x", [][]byte{late}, minute)
	if err != nil || report.Filled != 0 {
		t.Fatalf("CPU that begins later: %v, %d filled", err, report.Filled)
	}
	if diff := cmp.Diff([]cluster.Resources{{MilliCPU: 1000, MemoryBytes: 9}, {MilliCPU: 2000, MemoryBytes: 9}, {MilliCPU: 2000, MemoryBytes: 6}}, got[0].Usage); diff != "" {
		t.Errorf("CPU that begins later (-want +got):\n%s", diff)
	}
	for _, tc := range []struct{ name, reply, want string }{
		{"no label", string(reply(`{"metric":{"pod":"p"},"values":[[0,"1"]]}`)), "neither label resource nor name says whether it is cpu or memory"},
		{"error", `{"status":"error","error":"bad query"}`, "bad query"},
		{"vector", `{"status":"success","data":{"resultType":"vector","result":[]}}`, "want matrix"},
		{"no JSON", `<html>`, "reply 1"},
		{"twice", string(reply(`{"metric":{"resource":"cpu","i":"1"},"values":[[0,"1"]]},{"metric":{"resource":"cpu","i":"2"},"values":[[0,"1"]]}`)), "two series of CPU"},
		{"no memory", string(reply(`{"metric":{"resource":"cpu"},"values":[[0,"1"]]}`)), "has no sample of memory"},
		{"negative", string(reply(`{"metric":{"resource":"cpu"},"values":[[0,"-1"]]}`)), "CPU usage -1000 m"},
		{"decreasing time", string(reply(`{"metric":{"resource":"cpu"},"values":[[60,"1"],[0,"1"]]}`)), "want later and later times"},
	} {
		if _, _, err := workload.ReadPrometheus("x", [][]byte{[]byte(tc.reply)}, minute); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestBadTraces(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"azure without readings", map[string]string{"vmtable.csv": ""}, "1 files named *vmtable* and 0 named *readings*"},
		{"azure unknown machine", map[string]string{"vmtable.csv": "", "readings.csv": "0,vm9,1,2,3\n"}, `machine "vm9" is not in the table`},
		{"azure percent", map[string]string{"vmtable.csv": "v,s,d,0,1,1,1,1,c,>24,>64\n", "readings.csv": "0,v,1,2,300\n"}, "avgcpu is 300, want 0 to 100"},
		{"alibaba percent", map[string]string{"container_meta.csv": "c,m,0,a,s,400,800,2\n", "container_usage.csv": "c,m,0,150,5,,,,,,\n"}, "cpu_util_percent is 150"},
		{"alibaba unknown container", map[string]string{"container_meta.csv": "", "container_usage.csv": "c,m,0,15,5,,,,,,\n"}, `container "c" is not in container_meta`},
		{"alibaba request", map[string]string{"container_meta.csv": "c,m,0,a,s,0,800,2\n", "container_usage.csv": ""}, "want more than 0"},
		{"borg times", map[string]string{"instance_usage.json": `{"start_time":"60","end_time":"60"}`}, "end_time 60, want more than start_time 60"},
		{"borg negative", map[string]string{"instance_usage.json": `{"start_time":"0","end_time":"60","average_usage":{"cpus":-1,"memory":0}}`}, "CPU usage"},
		{"borg integer", map[string]string{"instance_usage.json": `{"start_time":"x"}`}, "record 1"},
		{"one pod in two files", map[string]string{"a.csv": "pod,time_s,cpu_m,mem_b\np,0,1,1\n", "b.csv": "pod,time_s,cpu_m,mem_b\np,0,1,1\n"}, `pod "p" is in`},
		{"no format", map[string]string{"notes.txt": "x"}, "tell no format"},
	} {
		_, _, err := workload.ReadFiles(folder(t, tc.files), "", minute)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, _, err := workload.ReadFiles(filepath.Join(t.TempDir(), "none"), "", minute); err == nil {
		t.Error("a folder that is not there: no error")
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add("time_s,cpu_m,mem_b\n0,1,2\n60,1,2\n")
	f.Add("time_s,cpu_m,mem_b,pod\n0,1e9,2,a\n1,NaN,2,b\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, _, err := workload.ReadCSV("f", strings.NewReader(text), workload.Grid{MaxGap: time.Minute})
		check(t, all, err)
	})
}

func FuzzReadPrometheus(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"resource":"cpu"},"values":[[0,"1"]]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, _, err := workload.ReadPrometheus("f", [][]byte{data}, workload.Grid{MaxGap: time.Minute})
		check(t, all, err)
	})
}

// check sees that what a reader accepts is sound.
func check(t *testing.T, all []workload.Series, err error) {
	if err != nil {
		return
	}
	if len(all) == 0 {
		t.Fatal("neither a series nor an error")
	}
	for _, s := range all {
		for _, u := range s.Usage {
			if u.MilliCPU < 0 || u.MemoryBytes < 0 {
				t.Fatalf("%q uses %v", s.ID, u)
			}
		}
	}
}
