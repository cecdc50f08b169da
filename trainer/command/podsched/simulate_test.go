package podsched

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// simulateReport runs `podsched simulate` and returns its report.
func simulateReport(t *testing.T, args ...string) *gpushare.Report {
	t.Helper()
	r := clitest.Decode[gpushare.Report](t, mustExecute(t, append([]string{"podsched", "simulate", "--json"}, args...)...))
	return &r
}

func yamlFile(t *testing.T, text string) string {
	t.Helper()
	return envstest.TempFile(t, "cluster.yaml", text)
}

// webOnNodes is a Deployment with the given number of pods, and equal nodes with room for all of them.
func webOnNodes(nodes, replicas int) string {
	var b strings.Builder
	for n := range nodes {
		fmt.Fprintf(&b, "kind: Node\nmetadata: {name: n%d}\nstatus: {allocatable: {cpu: 64, memory: 256Gi}}\n---\n", n)
	}
	fmt.Fprintf(&b, "kind: Deployment\nmetadata: {name: web}\nspec: {replicas: %d, template: {spec: {containers: [{name: main, resources: {requests: {cpu: 1, memory: 2Gi}}}]}}}\n", replicas)
	return b.String()
}

// TestSimulateModel: the model of balance, which was trained among ten nodes, spreads 24 pods of a Deployment evenly over
// four: 6 on each, as kube-scheduler's own scores would.
func TestSimulateModel(t *testing.T) {
	file := yamlFile(t, webOnNodes(4, 24))
	model := filepath.Join("..", "..", "..", "models", "pretrained", "k8s-PodBalance-v0", "ppo.safetensors")
	on := map[string]int{}
	for _, p := range simulateReport(t, "-f", file, "--model", model).Placements {
		on[p.Node]++
	}
	if d := cmp.Diff(map[string]int{"n0": 6, "n1": 6, "n2": 6, "n3": 6}, on); d != "" {
		t.Errorf("pods on nodes (-want +got):\n%s", d)
	}
	gpuModel := filepath.Join("..", "..", "..", "models", "pretrained", "k8s-GPUPodScheduling-v0", "ppo.safetensors")
	cluster := filepath.Join("..", "..", "..", "kwok", "kubeyaml", "testdata", "cluster.yaml")
	if r := simulateReport(t, "-f", cluster, "--model", gpuModel); len(r.Placements) != 3 || len(r.Failed) != 1 {
		t.Errorf("placements %v and failures %v, want 3 and a100-only", r.Placements, r.Failed)
	}
}

// TestSimulateScorer: a service on loopback that prefers the last node gets all pods there.
func TestSimulateScorer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Nodes []struct{ Metadata struct{ Name string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		scores := map[string]int{}
		for i, n := range body.Nodes {
			scores[n.Metadata.Name] = i
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"scores": scores}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	for _, p := range simulateReport(t, "-f", yamlFile(t, webOnNodes(3, 4)), "--scorer", server.URL).Placements {
		if p.Node != "n2" {
			t.Errorf("%s on %s, want n2", p.Pod, p.Node)
		}
	}
}

// gpuPod returns a Pod of 1 core that shares a GPU, on a device of a node or waiting.
func gpuPod(name, milli, node, device string) string {
	return fmt.Sprintf("---\nkind: Pod\nmetadata: {name: %s, annotations: {alibabacloud.com/gpu-count: '1', alibabacloud.com/gpu-milli: '%s', alibabacloud.com/gpu-index: '%s'}}\n"+
		"spec: {nodeName: '%s', containers: [{name: main, resources: {requests: {cpu: 1, memory: 1Gi}}}]}\n", name, milli, device, node)
}

// TestSimulateDeschedule plays the hand-worked case of package gpu (TestDeschedule) from YAML: F falls from 400 to 0 when
// both pods of node a find place beside those of b. The snapshots before and after say so again.
func TestSimulateDeschedule(t *testing.T) {
	text := ""
	for _, n := range []string{"a", "b"} {
		text += fmt.Sprintf("---\nkind: Node\nmetadata: {name: %s}\nstatus: {allocatable: {cpu: 8, memory: 16Gi, alibabacloud.com/gpu-count: 2}}\n", n)
	}
	file := yamlFile(t, text+gpuPod("l1", "600", "a", "0")+gpuPod("l2", "600", "a", "1")+gpuPod("s1", "400", "b", "0")+gpuPod("s2", "400", "b", "1"))
	config := filepath.Join("..", "..", "..", "kwok", "kubeyaml", "testdata", "simon.yaml")
	dir := t.TempDir()
	before, between, after := filepath.Join(dir, "before.yaml"), filepath.Join(dir, "between.yaml"), filepath.Join(dir, "after.yaml")
	args := []string{"-f", file, "-s", config, "--deschedule-policy", "fragMultiPod", "--deschedule-ratio", "0.5",
		"--snapshot", "scheduled=" + before, "--snapshot", "evicted=" + between, "--snapshot", after}
	d := simulateReport(t, args...).Descheduling
	moves := []gpushare.Move{{Pod: "default/l1", From: "a", To: "b"}, {Pod: "default/l2", From: "a", To: "b"}}
	if diff := cmp.Diff(moves, d.Moves); diff != "" || d.Before.FragMilliGPU != 400 || d.Evicted.Pods != 2 || d.After.FragMilliGPU != 0 || d.Before.UsedNodes != 2 || d.After.UsedNodes != 1 {
		t.Errorf("moves (-want +got):\n%s\n%+v", diff, d)
	}
	text = mustExecute(t, append([]string{"podsched", "simulate"}, args...)...)
	for _, want := range []string{"default/l2   a     b\n", "before fragMultiPod     4           2        50.00 %            2000               400      20.0 %\n", "evicted                 2           1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for snapshot, want := range map[string]struct {
		pods int
		frag float64
	}{before: {4, 400}, after: {4, 0}} {
		if u := simulateReport(t, "-f", snapshot, "-s", config).Usage; u.Pods != want.pods || u.FragMilliGPU != want.frag {
			t.Errorf("%s: %d pods, F %v; want %d and %v", filepath.Base(snapshot), u.Pods, u.FragMilliGPU, want.pods, want.frag)
		}
	}
	data, err := os.ReadFile(between)
	if bound := strings.Count(string(data), "nodeName:"); err != nil || bound != 2 {
		t.Errorf("%d pods have a node between eviction and placement, %v; want 2", bound, err)
	}
}

// TestSimulateSnapshot: from the cluster after two decisions the simulation continues to the same end.
func TestSimulateSnapshot(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "kwok", "kubeyaml", "testdata")
	config := filepath.Join(dir, "scheduler.yaml")
	file := filepath.Join(t.TempDir(), "two.yaml")
	whole := simulateReport(t, "-f", filepath.Join(dir, "cluster.yaml"), "-s", config, "--snapshot", "2="+file)
	if n := strings.Count(envstest.Read(t, file), "nodeName:"); n != 2 {
		t.Errorf("%d pods have a node after two decisions, want 2", n)
	}
	again := simulateReport(t, "-f", file, "-s", config)
	byPod := func(a, b gpushare.Placement) int { return strings.Compare(a.Pod, b.Pod) }
	slices.SortFunc(whole.Placements, byPod)
	slices.SortFunc(again.Placements, byPod)
	if d := cmp.Diff(whole, again); d != "" {
		t.Errorf("(-whole +from the snapshot):\n%s", d)
	}
}

func TestSimulateErrors(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "kwok", "kubeyaml", "testdata")
	cluster, config := filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "scheduler.yaml")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"-s", "nowhere.yaml", "-f", "nowhere"}, "nowhere.yaml"},
		{[]string{"-s", config, "--model", "m"}, "want one of -s, --model and --scorer"},
		{[]string{"-s", config, "--deschedule-ratio", "1"}, "--deschedule-ratio needs --deschedule-policy: one of cosSim"},
		{[]string{"-s", config, "--deschedule-policy", "most"}, `deschedule policy "most", want one of cosSim, fragOnePod, fragMultiPod`},
		{[]string{"-s", config, "--deschedule-policy", "cosSim", "--deschedule-ratio", "2"}, "ratio 2, want 0 to 1"},
		{[]string{"-s", config, "--snapshot", "evicted=x.yaml"}, "nothing is evicted without --deschedule-policy"},
		{[]string{"-s", config, "--snapshot", "noon=x.yaml"}, `moment "noon", want a number of decisions, scheduled, evicted or end`},
		{[]string{"-s", config, "--snapshot", "5=x.yaml"}, "want at most 4, the number of pods to decide on"},
		{[]string{"-s", config, "--snapshot", "end="}, "no file"},
		{[]string{"--scorer", "localhost:1"}, "want a URL such as http://127.0.0.1:5000/score"},
		{[]string{"--model", filepath.Join("..", "..", "..", "models", "pretrained", "classic-CartPole-v1", "ppo.safetensors")}, "CartPole"},
	} {
		_, _, err := execute(t, context.Background(), append([]string{"podsched", "simulate", "-f", cluster}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}

func TestSimulateWithoutArguments(t *testing.T) {
	if _, _, err := execute(t, context.Background(), "podsched", "simulate"); err == nil || !strings.Contains(err.Error(), "-f and -s are needed") {
		t.Errorf("%v, want an error with -f and -s", err)
	}
}

// simonConfig writes a Config of Simon for a folder of YAML.
func simonConfig(t *testing.T, cluster, custom string) string {
	t.Helper()
	return yamlFile(t, fmt.Sprintf("apiVersion: simon/v1alpha1\nkind: Config\nmetadata: {name: test}\nspec:\n  cluster: {customConfig: '%s'}\n  customConfig: {%s}\n", cluster, custom))
}

// TestSimulateSimon plays the reference's own experiment from files as its own command takes them: the openb trace as
// YAML, its Config with the pods shuffled and tuned to 130 % by seed 42, and its scheduler configuration of FGD. Its
// README shows what that ends with: 5,919,410 milli-GPU (95.29 %), 89,928,302 milli-CPU and 313,757,356 MiB are
// allocated; of 10,866 pods 2,532 fail.
func TestSimulateSimon(t *testing.T) {
	if testing.Short() {
		t.Skip("places 10,866 pods of YAML on 1,213 nodes; run without -short")
	}
	dir := t.TempDir()
	for _, list := range []string{"openb_node_list_gpu_node", "openb_pod_list_default"} {
		data, err := os.ReadFile(filepath.Join(cli.DataFolder(), "openb", list+".csv"))
		if cli.DataFolder() == "" || err != nil {
			t.Skipf("%v: set %s to the folder that holds openb/ to enable this test", err, cli.DataVariable)
		}
		envstest.Write(t, filepath.Join(dir, list+".csv"), string(data))
	}
	mustExecute(t, "podsched", "topology", "--data-dir", dir)
	config := simonConfig(t, dir, "shufflePod: true, workloadTuningConfig: {ratio: 1.3, seed: 42}")
	r := simulateReport(t, "-f", config, "-s", filepath.Join("..", "..", "..", "kwok", "kubeyaml", "testdata", "simon.yaml"))
	got := []int64{r.MilliGPU, r.MilliCPU, r.MemoryMiB, int64(len(r.Placements) + len(r.Failed)), int64(len(r.Failed))}
	if want := []int64{5_919_410, 89_928_302, 313_757_356, 10_866, 2_532}; !slices.Equal(got, want) {
		t.Errorf("milli-GPU, milli-CPU, MiB, pods, failed: %v, want %v", got, want)
	}
}

// TestSimulateSimonStages: descheduling and snapshots of pods as a Config of Simon asks for them.
func TestSimulateSimonStages(t *testing.T) {
	text := ""
	for _, n := range []string{"a", "b"} {
		text += fmt.Sprintf("---\nkind: Node\nmetadata: {name: %s}\nstatus: {allocatable: {cpu: 8, memory: 16Gi, alibabacloud.com/gpu-count: 2}}\n", n)
	}
	cluster := yamlFile(t, text+gpuPod("l1", "600", "a", "0")+gpuPod("l2", "600", "a", "1")+gpuPod("s1", "400", "b", "0")+gpuPod("s2", "400", "b", "1"))
	prefix := filepath.Join(t.TempDir(), "snapshots")
	config := simonConfig(t, cluster, fmt.Sprintf("descheduleConfig: {ratio: 1, policy: fragOnePod}, exportConfig: {podSnapshotYamlFilePrefix: '%s', nodeSnapshotCSVFilePrefix: x}", prefix))
	args := []string{"podsched", "simulate", "-f", config, "-s", filepath.Join("..", "..", "..", "kwok", "kubeyaml", "testdata", "simon.yaml")}
	out, notes, err := execute(t, context.Background(), args...)
	if err != nil || !strings.Contains(out, "before fragOnePod") || !strings.Contains(notes, "nodeSnapshotCSVFilePrefix has no effect") {
		t.Errorf("%v\n%s%s", err, out, notes)
	}
	for stage, want := range map[string]int{"InitSchedule": 2, "PostDeschedule": 1} {
		data := envstest.Read(t, filepath.Join(prefix, stage, "pod-snapshot.yaml"))
		if got := strings.Count(data, "nodeName: a\n"); got != want {
			t.Errorf("%s: %d pods on node a, want %d", stage, got, want)
		}
	}
}

func TestPodschedSimulate(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "kwok", "kubeyaml", "testdata")
	args := []string{"podsched", "simulate", "-f", filepath.Join(dir, "cluster.yaml"), "-s", filepath.Join(dir, "scheduler.yaml")}
	out := mustExecute(t, args...)
	for _, want := range []string{"default/half-2", "0/3 nodes are available: 1 another GPU model, 1 no GPU, 1 untolerated taint dedicated", "3 placed, 1 failed", "GPU 75.00 %"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	report := clitest.Decode[map[string]any](t, mustExecute(t, append(args, "--json")...))
	if placements, ok := report["placements"].([]any); !ok || len(placements) != 3 {
		t.Errorf("placements: %v, want 3", report["placements"])
	}
}

// TestCompareLeavesOut: a baseline that cannot serve the options is left out of a comparison of
// all, and an error where it was asked for.
func TestCompareLeavesOut(t *testing.T) {
	args := []string{"compare", "--env", "k8s/PodBalance-v0", "--episodes", "2", "--env-kwargs", "resets:1"}
	if out := mustExecute(t, args...); !strings.Contains(out, "left out: baseline Exact: balance: Exact needs") || !strings.Contains(out, "KubeDefault") {
		t.Errorf("comparison of all baselines:\n%s", out)
	}
	if _, _, err := execute(t, context.Background(), append(args, "--baseline", "Exact")...); err == nil || !strings.Contains(err.Error(), "Exact needs") {
		t.Errorf("--baseline Exact: %v, want an error", err)
	}
	if out := mustExecute(t, append(args, "--env-kwargs", "nodes:2", "--env-kwargs", "reset_pods:[4]")...); !strings.Contains(out, "Exact (clairvoyant)") {
		t.Errorf("a toy without Exact:\n%s", out)
	}
}
