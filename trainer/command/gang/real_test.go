package gang

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/kwok/bsp"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// TestGangRealLocal measures a small profile of real work on this machine, fits it, plays an episode with it, executes
// one by the wall clock, and plays what was executed in the simulator.
func TestGangRealLocal(t *testing.T) {
	if _, err := exec.LookPath("stress-ng"); err != nil {
		t.Skip("needs stress-ng: apt-get install stress-ng; .ci/run does")
	}
	dir := t.TempDir()
	out, log := filepath.Join(dir, "p.csv"), filepath.Join(dir, "run.jsonl")
	own := []string{"--env-kwargs", "total_cpu_m:1000", "--env-kwargs", "start_cpu_m:100", "--env-kwargs", "size_low:2", "--env-kwargs", "size_high:16", "--env-kwargs", "steps:6"}
	work := []string{"--executor", "local", "--workloads", "memcpy:4,vecmath:80", "--limit", "1m"}
	measure := slices.Concat([]string{"gang", "profile", "--json", "--sizes", "2,4,8,16", "--shares", "100,200,400,900", "--repeats", "1", "--out", out}, work, own)
	made := clitest.Decode[gangProfile](t, mustExecute(t, measure...))
	if m := made.Measured; m == nil || m.Now != 32 || len(m.Points) != 32 || !strings.Contains(m.Setting, "stress-ng") || made.Filled.Missing != 0 {
		t.Fatalf("measured %+v, filled %+v; want all of 32 points", m, made.Filled)
	}
	// Eight times the work takes more than twice as long with at least three of the four shares: one point of each task may
	// be measured while the machine pauses.
	p, err := profile.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	for k, task := range p.Tasks {
		longer := 0
		for share := range p.Shares {
			if p.Duration(k, 3, share) > 2*p.Duration(k, 0, share) {
				longer++
			}
		}
		if longer < 3 {
			t.Errorf("%s: size 16 takes more than twice as long as size 2 with %d of 4 shares, want 3: %v s", task, longer, p.Durations)
		}
		if law := made.Filled.Laws[k]; !(law.SizeExp > 0.3 && law.SizeExp < 2) {
			t.Errorf("%s: law %+v, want a duration that grows about as the size", task, law)
		}
	}
	if err := json.Unmarshal([]byte(mustExecute(t, measure...)), &made); err != nil || made.Measured.Now != 0 || made.Measured.Resumed != 32 {
		t.Errorf("the same command measures again: %+v, %v", made.Measured, err)
	}

	own = append(own, "--env-kwargs", "profile:"+out, "--env-kwargs", "penalty_model:resize")
	var played struct{ Mean float64 }
	if err := json.Unmarshal([]byte(mustExecute(t, append([]string{"eval", "--env", gangEnv, "--baseline", "static_1", "--episodes", "2", "--json"}, own...)...)), &played); err != nil || !(played.Mean < 0) {
		t.Errorf("an episode with the profile returns %v, %v; want less than 0", played.Mean, err)
	}
	var run, replayed realResult
	if err := json.Unmarshal([]byte(mustExecute(t, slices.Concat([]string{"gang", "run", "--json", "--controller", "static_1", "--log", log}, work, own)...)), &run); err != nil {
		t.Fatal(err)
	}
	if run.Policy != "static_1" || len(run.Steps) != 6 || run.Method != bsp.Resize || run.Duration <= 0 || run.Log != log {
		t.Errorf("%s: %d supersteps by %s in %v s, log %q", run.Policy, len(run.Steps), run.Method, run.Duration, run.Log)
	}
	for _, s := range run.Steps {
		// static_1 plans for each superstep; to write quotas takes some time, and no second.
		if !s.Replanned || !(s.Replan > 0 && s.Replan < 5) || len(s.Seconds) != 2 || s.MilliCPU[0]+s.MilliCPU[1] != 1000 {
			t.Errorf("superstep %+v", s)
		}
	}
	if err := json.Unmarshal([]byte(mustExecute(t, "gang", "run", "--json", "--replay", log)), &replayed); err != nil {
		t.Fatal(err)
	}
	if replayed.Total != run.Total || replayed.Model != run.Model || replayed.RMS != run.RMS || len(replayed.Steps) != 6 {
		t.Errorf("replay: totals %v and %v s, want %v and %v", replayed.Total, replayed.Model, run.Total, run.Model)
	}
	text := envstest.Read(t, log)
	envstest.Write(t, log, strings.Replace(text, `"seed":`, `"seed":1`, 1))
	if _, _, err := execute(t, context.Background(), "gang", "run", "--replay", log); err == nil || !strings.Contains(err.Error(), "another episode") {
		t.Errorf("a log with another seed: %v", err)
	}
}

func TestGangRealRefuses(t *testing.T) {
	dir := t.TempDir()
	profileArgs := []string{"gang", "profile", "--out", filepath.Join(dir, "p.csv"), "--sizes", "1,2,3,4", "--shares", "100,200,300,400"}
	local := []string{"--executor", "local", "--workloads", "cap"}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{append(profileArgs, "--executor", "elsewhere", "--workloads", "cap"), `"elsewhere", want `},
		{append(profileArgs, "--executor", "local"), "0 workloads, want 1 to 256"},
		{append(profileArgs, "--workloads", "cap"), "--workloads is of real work: want --executor"},
		{append(profileArgs, "--budget", "1m"), "--budget is of real work: want --executor"},
		{append(profileArgs, append(local, "--laws", "x")...), "want one of --fill, --laws and --executor"},
		{append([]string{"gang", "profile", "--out", "p.csv", "--sizes", "1,2,3,4"}, local...), "needs --sizes and --shares"},
		{append([]string{"gang", "profile", "--sizes", "1", "--shares", "100"}, local...), "needs --out or --state"},
		{[]string{"gang", "run", "--baseline", "static_1", "--log", "x"}, "--log is of real work: want --executor"},
		{[]string{"gang", "run", "--baseline", "static_1", "--real-time"}, "--real-time is of real work: want --executor"},
		{[]string{"gang", "run", "--baseline", "static_1", "--executor", "local"}, "0 workloads"},
		{[]string{"gang", "run", "--replay", "nowhere.jsonl"}, "nowhere.jsonl"},
		{[]string{"gang", "run", "--replay", "x", "--seed", "1"}, "no other flag"},
	} {
		_, _, err := execute(t, context.Background(), tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
	if _, err := exec.LookPath("stress-ng"); err != nil {
		t.Skip("the rest needs stress-ng: apt-get install stress-ng; .ci/run does")
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"gang", "profile", "--out", filepath.Join(dir, "p.csv"), "--sizes", "1,2,3,4", "--shares", "1e9"}, "1e+09 millicores, want whole ones from 10 to the "},
		{[]string{"gang", "run", "--controller", "static_1", "--env-kwargs", "total_cpu_m:1000000", "--workloads", "affinity,atomic,bsearch,chmod,memcpy,vecmath,zero"},
			"total_cpu_m is 1000000, want at most the "},
	} {
		_, _, err := execute(t, context.Background(), append(tc.args, local...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}
