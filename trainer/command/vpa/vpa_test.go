package vpa

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

func workloads(t *testing.T, args ...string) []workloadInfo {
	t.Helper()
	return clitest.Decode[[]workloadInfo](t, mustExecute(t, append([]string{"vpa", "workload", "--json"}, args...)...))
}

// TestVPAWorkloadTypes writes every type, reads it back, and sees that info.json is a recipe.
func TestVPAWorkloadTypes(t *testing.T) {
	out := t.TempDir()
	for _, kind := range workload.Types() {
		infos := workloads(t, "--workload-type", kind, "--out", out, "--timesteps", "40", "--seed", "7", "--plot")
		if len(infos) != 1 || infos[0].ID != kind+"-7" || infos[0].Timesteps != 40 {
			t.Fatalf("%s: %+v", kind, infos)
		}
		dir := filepath.Join(out, "workloads", kind+"-7")
		clitest.CheckPNG(t, filepath.Join(dir, "workload.png"), 900)
		all, _, err := workload.ReadFiles(filepath.Join(dir, "series.csv"), "", workload.Grid{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := infos[0].Config.Series()
		if err != nil {
			t.Fatal(err)
		}
		for i, u := range again.Usage {
			if all[0].Usage[i] != u {
				t.Fatalf("%s: sample %d of the file is %v, of the parameters %v", kind, i, all[0].Usage[i], u)
			}
		}
	}
	// The folder is what the environment plays, containers' requests included.
	all, _, err := workload.ReadFiles(filepath.Join(out, "workloads"), "", workload.Grid{})
	if err != nil || len(all) != len(workload.Types()) {
		t.Fatalf("%d workloads, %v; want %d", len(all), err, len(workload.Types()))
	}
	for _, s := range all {
		if s.ID == "constant-7" && s.Requests.MilliCPU != 500 {
			t.Errorf("%s requests %v, want 500 m as container.json says", s.ID, s.Requests)
		}
	}
	mustExecute(t, "eval", "--env", "k8s/VerticalPodAutoscaler-v0", "--baseline", "static", "--episodes", "2",
		"--env-kwargs", "data:"+filepath.Join(out, "workloads"), "--env-kwargs", "history_h:0", "--env-kwargs", "steps:30")
}

func TestVPAWorkloadConfig(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.json")
	envstest.Write(t, path, `{"type":"low_high","timesteps":4,"seed":9,"period":2}`)
	infos := workloads(t, "--config", path, "--out", dir)
	data, err := os.ReadFile(filepath.Join(infos[0].Folder, "series.csv"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "pod,time_s,cpu_m,mem_b\nlow_high-9,0,500,2621440000\nlow_high-9,60,500,2621440000\nlow_high-9,120,1000,5242880000\nlow_high-9,180,1000,5242880000\n"
	if string(data) != want {
		t.Errorf("series.csv:\n%swant:\n%s", data, want)
	}
	if mean := (usage{750, 3932160000}); infos[0].Mean != mean || infos[0].Max != (usage{1000, 5242880000}) || infos[0].TimeInterval != 60 {
		t.Errorf("%+v, want samples of a minute with mean %v", infos[0], mean)
	}
	if got := workloads(t, "--config", path, "--time-interval", "30", "--out", dir)[0].TimeInterval; got != 30 {
		t.Errorf("%v s between samples, want 30", got)
	}
	if _, _, err := execute(t, context.Background(), "vpa", "workload", "--config", path, "--workload-type", "step", "--out", dir); err == nil ||
		!strings.Contains(err.Error(), `type "low_high", but --workload-type is "step"`) {
		t.Errorf("another type than the file's: %v", err)
	}
	plain := workloads(t, "--workload-type", "borg", "--count", "3", "--timesteps", "5", "--out", dir)
	drawn := workloads(t, "--workload-type", "borg", "--draw", "--count", "3", "--timesteps", "5", "--out", dir)
	for i := range drawn {
		if want := fmt.Sprintf("borg-%d", 42+i); len(plain) != 3 || len(drawn) != 3 || plain[i].ID != want || drawn[i].ID != want {
			t.Fatalf("%+v and drawn %+v, want three of seeds from 42 on", plain, drawn)
		}
		one, other := *plain[i].Config, *drawn[i].Config
		if one == other || i > 0 && (one.Seed != 42+uint64(i) || plain[i].Max == plain[0].Max || drawn[i].Max == drawn[0].Max) {
			t.Errorf("workload %d: %+v, drawn %+v; want other parameters, and other samples than those of workload 0", i, one, other)
		}
	}
}

// TestVPAWorkloadNames: pods whose names are equal as folders' names have a folder each.
func TestVPAWorkloadNames(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "usage.csv")
	envstest.Write(t, trace, "pod,time_s,cpu_m,mem_b\na/b,0,100,1000\na/b,60,100,1000\na-b,0,200,1000\na-b,60,200,1000\n")
	mean := map[string]int64{}
	for _, info := range workloads(t, "--data", trace, "--out", dir) {
		mean[info.Folder] = info.Mean.MilliCPU
	}
	if len(mean) != 2 {
		t.Errorf("folders %v, want two", mean)
	}
	for folder := range mean {
		if _, err := os.Stat(filepath.Join(folder, "series.csv")); err != nil {
			t.Error(err)
		}
	}
}

func TestVPAWorkloadErrors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.csv")
	envstest.Write(t, bad, "time_s,cpu_m,mem_b\n0,-5,1\n")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--workload-type", "waves", "--out", dir}, `workload type "waves", want one of`},
		{[]string{"--workload-type", "step"}, "--out, the folder to write to, is required"},
		{[]string{"--data", bad, "--out", dir}, "bad.csv:2: CPU usage -5 m"},
		{[]string{"--data", bad, "--seed", "1", "--out", dir}, "--seed is for generated workloads"},
		{[]string{"--prometheus", "localhost:9090", "--query", "up", "--out", dir}, "want a URL such as http://localhost:9090"},
		{[]string{"--prometheus", "http://127.0.0.1:1", "--out", dir}, "0 of --query, want one or two"},
		{[]string{"--prometheus", "http://127.0.0.1:1", "--query", "up", "--start", "yesterday", "--out", dir}, "--start"},
		{[]string{"--prometheus", "http://127.0.0.1:1", "--query", "up", "--start", "60", "--end", "30", "--out", dir}, "is not before"},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"vpa", "workload"}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.args, err, tc.want)
		}
	}
}

// TestVPAWorkloadPrometheus asks a server that answers as Prometheus does.
func TestVPAWorkloadPrometheus(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		q := r.Form
		if r.URL.Path != "/prefix/api/v1/query_range" || q.Get("start") != "1700000000" || q.Get("end") != "1700000120" || q.Get("step") != "60" ||
			r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("asked for %v with %v", r.URL, r.Header)
		}
		unit := 1.0
		switch q.Get("query") {
		case "memory":
			unit = 1 << 30
		case "wrong":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"status":"error","errorType":"bad_data","error":"parse error"}`)
			return
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"pod":"web/0"},"values":[[1700000000,"%v"],[1700000060,"%v"],[1700000120,"%v"]]}]}}`, unit, 2*unit, unit/2)
	}))
	defer server.Close()
	t.Setenv(prometheusToken, "secret")
	dir := t.TempDir()
	args := []string{"--prometheus", server.URL + "/prefix", "--start", "1700000000", "--end", "2023-11-14T22:15:20Z", "--out", dir}
	infos := workloads(t, append(args, "--query", "cpu", "--query", "memory")...)
	if len(infos) != 1 || infos[0].ID != "trace-web-0" || infos[0].Timesteps != 3 || infos[0].Max != (usage{2000, 2 << 30}) {
		t.Errorf("workloads %+v", infos)
	}
	_, _, err := execute(t, context.Background(), append([]string{"vpa", "workload"}, append(args, "--query", "wrong")...)...)
	if err == nil || !strings.Contains(err.Error(), "400 Bad Request: parse error") {
		t.Errorf("a query that is wrong: %v", err)
	}
}

func TestEvalPlot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "episode.png")
	mustExecute(t, "eval", "--env", "k8s/VerticalPodAutoscalerDiscrete-v0", "--baseline", "random", "--episodes", "2", "--env-kwargs", "steps:50", "--plot", path)
	clitest.CheckPNG(t, path, 900)
	_, _, err := execute(t, context.Background(), "eval", "--env", "k8s/GangWindow-v0", "--baseline", "random", "--episodes", "2", "--env-kwargs", "steps:5", "--plot", path)
	if err == nil || !strings.Contains(err.Error(), "has no plot of an episode") {
		t.Errorf("a plot of an environment without: %v", err)
	}
}
