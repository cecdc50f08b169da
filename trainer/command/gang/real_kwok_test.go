package gang

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestKwokGangReal measures a profile by Jobs whose pods KWOK plays, fits it, executes an episode with it, and plays
// what was executed in the simulator.
func TestKwokGangReal(t *testing.T) {
	t.Setenv(kwok.KubeconfigVariable, kwoktest.Start(t).Kubeconfig)
	dir := t.TempDir()
	out, log, laws := filepath.Join(dir, "p.csv"), filepath.Join(dir, "run.jsonl"), filepath.Join(dir, "laws.json")
	envstest.Write(t, laws, `[{"task": "memcpy", "a": 0.2, "size_exp": 1, "share_exp": 1, "c_max": 8}, {"task": "zero", "a": 0.1, "size_exp": 1, "share_exp": 0.5, "c_max": 8}]`)
	own := []string{"--env-kwargs", "total_cpu_m:4000", "--env-kwargs", "size_low:4", "--env-kwargs", "size_high:16", "--env-kwargs", "steps:6"}
	work := []string{"--executor", "kubernetes", "--simulate", laws, "--workloads", "memcpy,zero"}
	made := clitest.Decode[gangProfile](t, mustExecute(t, slices.Concat([]string{"gang", "profile", "--json", "--sizes", "4,8,12,16", "--shares", "1000,2000,3000,4000",
		"--repeats", "1", "--out", out}, work, own)...))
	if m := made.Measured; m == nil || m.Now != 32 || len(m.Points) != 32 {
		t.Fatalf("measured %+v, want all of 32 points", m)
	}
	for _, p := range made.Measured.Points {
		want := 0.2 * p.Size / (p.MilliCPU / 1000)
		if p.Task == "zero" {
			want = 0.1 * p.Size / math.Sqrt(p.MilliCPU/1000)
		}
		// By the watch: a pod never ends early; on a busy machine KWOK may be seconds late.
		if p.Mean < want || p.Mean > want+20 {
			t.Errorf("%+v, want %v s and a little more", p, want)
		}
	}
	own = append(own, "--env-kwargs", "profile:"+out)
	var run, replayed realResult
	if err := json.Unmarshal([]byte(mustExecute(t, slices.Concat([]string{"gang", "run", "--real-time", "--json", "--controller", "static_2", "--log", log}, work, own)...)), &run); err != nil {
		t.Fatal(err)
	}
	if len(run.Steps) != 6 || run.Replan <= 0 || run.Duration <= 0 {
		t.Errorf("%d supersteps in %v s, re-planned in %v s", len(run.Steps), run.Duration, run.Replan)
	}
	if err := json.Unmarshal([]byte(mustExecute(t, "gang", "run", "--json", "--replay", log)), &replayed); err != nil || replayed.Total != run.Total || replayed.Model != run.Model {
		t.Errorf("replay: totals %v and %v s, %v; want %v and %v", replayed.Total, replayed.Model, err, run.Total, run.Model)
	}
}
