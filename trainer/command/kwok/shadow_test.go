package kwok

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/command/core"
	"github.com/kubernasium/kubernasium/trainer/command/podsched"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// twoNodes is the recording of package agents/shadow's TestHandWorked: two pods of 2 cores run on one node each until
// 10 h, one of 4 cores waits from 1 h to 10 h and runs until 12 h.
const twoNodes = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T00:00:00Z"}
{"k":"node","node":{"name":"n0","milli_cpu":4000,"memory_bytes":4294967296,"pods":110}}
{"k":"node","n":1,"node":{"name":"n1","milli_cpu":4000,"memory_bytes":4294967296,"pods":110}}
{"k":"template","template":{"namespace":"default","milli_cpu":2000}}
{"k":"template","template":{"namespace":"default","milli_cpu":4000}}
{"k":"pod","name":"a"}
{"k":"pod","p":1,"name":"b"}
{"k":"bind"}
{"k":"bind","p":1,"n":1}
{"k":"pod","t":3600000,"p":2,"tpl":1,"name":"c"}
{"k":"finish","t":32400000,"phase":"Succeeded"}
{"k":"finish","p":1,"phase":"Succeeded"}
{"k":"bind","p":2}
{"k":"finish","t":7200000,"p":2,"phase":"Succeeded"}
`

func writeTrace(t *testing.T, text string) string {
	t.Helper()
	return envstest.TempFile(t, "two.jsonl", text)
}

func TestShadow(t *testing.T) {
	trace := writeTrace(t, twoNodes+`{"k":"end"}`+"\n")
	page := filepath.Join(t.TempDir(), "report.html")
	out := mustExecute(t, "kwok", "shadow", "--trace", trace, "--policy", "First", "--policy", "Greedy", "--html", page)
	for _, want := range []string{
		"2026-03-01 00:00 to 2026-03-01 12:00 UTC: 2 nodes, 3 pods to place, 0 others",
		"nodes_in_use (nodes)     1.833  1.000      −0.833", // 22/12 and 12/12: hand-worked in agents/shadow
		"First agrees with 66.67 % of 3 recorded decisions",
		"Greedy agrees with 100.0 % of 3 recorded decisions",
		"disruption budgets",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<svg") || !strings.Contains(string(text), "Greedy") {
		t.Errorf("page: %v, %d bytes, want plots and both policies", err, len(text))
	}
	decisions := filepath.Join(t.TempDir(), "decisions.csv")
	mustExecute(t, "kwok", "shadow", "--trace", trace, "--policy", "First", "--policy", "Greedy", "--decisions", decisions)
	want := "time,pod,recorded,First,Greedy\n2026-03-01T00:00:00.000Z,default/a,n0,n0,n0\n2026-03-01T00:00:00.000Z,default/b,n1,n0,n1\n2026-03-01T10:00:00.000Z,default/c,n0,n0,n0\n"
	if got := envstest.Read(t, decisions); got != want {
		t.Errorf("decisions:\n%s\nwant:\n%s", got, want)
	}
	var r shadow.Report
	out = mustExecute(t, "kwok", "shadow", "--trace", trace, "--policy", "First", "--json", "--since", "2026-03-01T03:00:00Z", "--block", "30m")
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Blocks != 18 || !r.Start.Equal(time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)) {
		t.Errorf("JSON: %v, %d blocks from %v, want 18 from 03:00", err, r.Blocks, r.Start)
	}
	model := "../../../models/pretrained/k8s-PodBalance-v0/ppo.safetensors"
	if out := mustExecute(t, "kwok", "shadow", "--trace", trace, "--model", model, "--since", "3h"); !strings.Contains(out, "2026-03-01 03:00 to") || !strings.Contains(out, "ppo agrees with") {
		t.Errorf("with a model since 3 h:\n%s", out)
	}
}

// TestShadowListsPods: of the pods that nobody placed the text lists the first twenty.
func TestShadowListsPods(t *testing.T) {
	text := strings.Join(strings.SplitAfter(twoNodes, "\n")[:4], "") // of pods with 2 cores
	text = strings.ReplaceAll(text, `"milli_cpu":2000`, `"milli_cpu":99000,"memory_bytes":1073741824,"gpus":1,"milli_gpu":500`)
	for i := range 21 {
		text += `{"k":"pod","p":` + jsonOf(t, i) + `,"name":"huge-` + jsonOf(t, i) + "\"}\n"
	}
	out := mustExecute(t, "kwok", "shadow", "--trace", writeTrace(t, text+`{"k":"end","t":3600000}`+"\n"), "--policy", "First")
	for _, want := range []string{"21 pods that nobody placed, of which the first 20", "default/huge-19  2026-03-01T00:00:00Z   99         1024   0.5"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "huge-20") {
		t.Errorf("the report lists a twenty-first pod:\n%s", out)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestShadowOfACutRecording: what is readable is reported, and the end is said to be missing.
func TestShadowOfACutRecording(t *testing.T) {
	out, stderr, err := execute(t, t.Context(), "kwok", "shadow", "--trace", writeTrace(t, twoNodes), "--policy", "First")
	if err != nil || !strings.Contains(stderr, "the recording is cut") || !strings.Contains(stderr, "two.jsonl:14") || !strings.Contains(out, "3 pods to place") {
		t.Errorf("error %v, on stderr %q, want a report and a warning that names the line:\n%s", err, stderr, out)
	}
	if _, _, err := execute(t, t.Context(), "kwok", "shadow", "--trace", writeTrace(t, ""), "--policy", "First"); err == nil || !strings.Contains(err.Error(), "no header") {
		t.Errorf("an empty file: %v, want an error", err)
	}
}

// TestKwokShadow shadows kube-scheduler: it records while pods are placed, writes pages meanwhile, is interrupted, and
// goes on.
func TestKwokShadow(t *testing.T) {
	kubeconfig := kwoktest.Start(t).Kubeconfig
	dir := t.TempDir()
	file, page := filepath.Join(dir, "cluster.jsonl.zst"), filepath.Join(dir, "report.html")
	shadowed := func(during func()) shadow.Report {
		t.Helper()
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		go func() {
			defer interrupt()
			during()
		}()
		out, stderr, err := execute(t, ctx, "kwok", "shadow", "--record", file, "--policy", "First", "--policy", "LeastAllocated", "--html", page,
			"--every", "500ms", "--block", "1s", "--kubeconfig", kubeconfig, "--json")
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		return clitest.Decode[shadow.Report](t, out)
	}
	sim := func() {
		mustExecute(t, "kwok", "runsim", "--scheduler_name", "default-scheduler", "--interval", "200ms", "--node_count", "3", "--cluster_resets", "1",
			"--cpu_load", "0.3", "--mem_load", "0.3", "--pod_load", "0.3", "--kubeconfig", kubeconfig)
	}
	r := shadowed(func() {
		sim()
		until(t, "a page while recording", func() bool { _, err := os.Stat(page); return err == nil })
	})
	first, least := r.Policies[0], r.Policies[1]
	if r.Pods < 50 || r.Nodes != 3 || r.Recorded.Placed != r.Pods || first.Placed != r.Pods || first.Asked != r.Pods || len(r.Unplaced) != 0 {
		t.Errorf("%d pods on %d nodes, placed %d and %d, asked about %d, unplaced %d; want some 60 on 3, all placed by both",
			r.Pods, r.Nodes, r.Recorded.Placed, first.Placed, first.Asked, len(r.Unplaced))
	}
	// kube-scheduler spreads over three equal nodes, as LeastAllocated does; First fills the first of them.
	nodes := slices.IndexFunc(r.Metrics, func(m shadow.Metric) bool { return m.Name == "nodes_in_use" })
	imbalance := slices.IndexFunc(r.Metrics, func(m shadow.Metric) bool { return m.Name == "imbalance" })
	if first.Differences[nodes].Value > -0.5 || first.Differences[imbalance].Value < 1 {
		t.Errorf("First: nodes in use %+v, imbalance %+v; want fewer and more", first.Differences[nodes], first.Differences[imbalance])
	}
	if d := float64(least.Differences[imbalance].Value); d < -1 || d > 1 {
		t.Errorf("LeastAllocated: imbalance %v of kube-scheduler's, want about 0", d)
	}
	again := shadowed(sim)
	if again.Pods <= r.Pods || !again.Start.Equal(r.Start) || again.Blocks <= r.Blocks {
		t.Errorf("resumed: %d pods in %d blocks since %v, want more than %d in %d, since %v", again.Pods, again.Blocks, again.Start, r.Pods, r.Blocks, r.Start)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, met func() bool) {
	for range 600 {
		if met() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("no %s", what)
}

func TestShadowErrors(t *testing.T) {
	t.Setenv(play.TokenVariable, "")
	trace := writeTrace(t, twoNodes+`{"k":"end"}`+"\n")
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no recording", []string{"--policy", "First"}, "want one of --trace and --record"},
		{"no policy", []string{"--trace", trace}, "want --model or --policy"},
		{"two recordings", []string{"--trace", trace, "--record", "other.jsonl", "--policy", "First"}, "want one of --trace and --record"},
		{"every", []string{"--trace", trace, "--policy", "First", "--every", "0s"}, "--every is 0s"},
		{"no file", []string{"--trace", "missing.jsonl", "--policy", "First"}, "missing.jsonl"},
		{"unknown baseline", []string{"--trace", trace, "--policy", "Best"}, "Best"},
		{"clairvoyant", []string{"--trace", trace, "--policy", "Exact"}, "Exact"},
		{"a page for all", []string{"--trace", trace, "--policy", "First", "--board", "0.0.0.0:6007"}, "--board 0.0.0.0:6007 reaches beyond the loopback interface"},
		{"block", []string{"--trace", trace, "--policy", "First", "--block", "-1h"}, "--block is -1h"},
		{"since", []string{"--trace", trace, "--policy", "First", "--since", "noon"}, "--since \"noon\""},
		{"since the end", []string{"--trace", trace, "--policy", "First", "--since", "12h"}, "since 12h0m0s"},
		{"no GPUs", []string{"--trace", trace, "--policy", "FGD", "--env", "k8s/GPUPodScheduling-v0"}, "none of the 2 nodes has a GPU"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, _, err := execute(t, t.Context(), append([]string{"kwok", "shadow"}, tc.args...)...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// both is a command line that records episodes too.
var both = clitest.Root(func() *cobra.Command { return cli.NewRoot(podsched.New(core.TrainCommand), New()) })

// TestShadowOfAModelsEpisode: an episode that a model has played in the simulator is a recording, and the same model in
// the shadow of it decides all of it alike: it is shown what it was shown in the episode.
func TestShadowOfAModelsEpisode(t *testing.T) {
	model, trace := "../../../models/pretrained/k8s-PodBalance-v0/ppo.safetensors", filepath.Join(t.TempDir(), "episode.jsonl")
	both.MustExecute(t, "podsched", "record", "--model", model, "--env-kwargs", "lifetime:600", "--env-kwargs", "steps:400",
		"--env-kwargs", "pods:mixed", "--env-kwargs", "node_types:mixed", "--out", trace)
	out := mustExecute(t, "kwok", "shadow", "--trace", trace, "--model", model, "--json")
	r := clitest.Decode[shadow.Report](t, out)
	p := r.Policies[0]
	if p.Agreement.Value != 100 || p.Asked < 300 {
		t.Errorf("agreement %v %% of %d, want all", p.Agreement.Value, p.Asked)
	}
	for i, d := range p.Differences {
		if d.Value != 0 {
			t.Errorf("%s: difference %v, want 0", r.Metrics[i].Name, d.Value)
		}
	}
}
