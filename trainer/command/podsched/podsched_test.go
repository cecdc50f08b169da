package podsched

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
)

// files writes files into a new folder and returns it.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		envstest.Write(t, path, text)
	}
	return dir
}

// objects reads a YAML file as plain data.
func objects(t *testing.T, path string) []map[string]any {
	t.Helper()
	var all []map[string]any
	dec := yaml.NewDecoder(strings.NewReader(envstest.Read(t, path)))
	for {
		var o map[string]any
		if err := dec.Decode(&o); err != nil {
			return all
		}
		all = append(all, o)
	}
}

func labels(t *testing.T, path string) []string {
	t.Helper()
	var all []string
	for _, o := range objects(t, path) {
		if o["kind"] == "Node" {
			l := o["metadata"].(map[string]any)["labels"].(map[string]any)
			all = append(all, l["rack"].(string)+" "+l["server"].(string))
		}
	}
	return all
}

const nodesYAML = `# the cluster
apiVersion: v1
kind: Node
metadata:
  name: a
  labels: {zone: z1, rack: by-the-window} # kept
status:
  allocatable: {cpu: "4", memory: 8Gi}
---
apiVersion: v1
kind: Node
metadata: {name: b}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: c}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
`

const podYAML = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  schedulerName: default-scheduler
  containers:
  - {name: main, image: busybox}
`

func TestTopologyOfYAML(t *testing.T) {
	dir := files(t, map[string]string{
		"1-nodes.yaml": nodesYAML, "2-more.yml": "kind: Node\nmetadata: {name: d, labels: null}\n", "pod.yaml": podYAML,
		"other/nodes.yaml": "kind: NodeList\nitems:\n- metadata: {name: a}\n", "config.yaml": "kind: ConfigMap\n", "notes.txt": "kind: Node\n",
	})
	out := mustExecute(t, "podsched", "topology", "--data-dir", dir, "--servers-per-rack", "2", "--json")
	got := clitest.Decode[[]hierFile](t, out)
	in := func(name string) string { return filepath.Join(dir, name) }
	want := []hierFile{
		{Source: in("1-nodes.yaml"), Written: in("1-nodes-hier.yaml"), Nodes: 3, Racks: 2},
		{Source: in("2-more.yml"), Written: in("2-more-hier.yaml"), Nodes: 1, Racks: 1},
		{Source: in("other/nodes.yaml"), Written: in("other/nodes-hier.yaml"), Nodes: 1, Racks: 1},
		{Source: in("pod.yaml"), Written: in("pod-hier.yaml"), Pods: 1},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(hierFile{})); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	// c is in a List, which labels does not look into.
	if diff := cmp.Diff([]string{"by-the-window rack-0-srv-0", "rack-0 rack-0-srv-1"}, labels(t, in("1-nodes-hier.yaml"))); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	text := envstest.Read(t, in("1-nodes-hier.yaml"))
	for _, s := range []string{"# the cluster", "zone: z1", "# kept", "rack: rack-1", "server: rack-1-srv-0", "name: other"} {
		if !strings.Contains(text, s) {
			t.Errorf("no %q in\n%s", s, text)
		}
	}
	if diff := cmp.Diff([]string{"rack-1 rack-1-srv-1"}, labels(t, in("2-more-hier.yaml"))); diff != "" {
		t.Errorf("labels of the second file (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(objects(t, in("pod.yaml")), objects(t, in("pod-hier.yaml"))); diff != "" {
		t.Errorf("the pod changed:\n%s", diff)
	}

	// A second run finds what the first found, and writes the same.
	before := envstest.Read(t, in("1-nodes-hier.yaml"))
	if again := mustExecute(t, "podsched", "topology", "--data-dir", dir, "--servers-per-rack", "2", "--json"); again != out {
		t.Errorf("a second run does otherwise:\n%s", again)
	}
	if after := envstest.Read(t, in("1-nodes-hier.yaml")); after != before {
		t.Errorf("a second run writes\n%s", after)
	}

	mustExecute(t, "podsched", "topology", "--data-dir", dir, "--scheduler-name", "mine")
	if text := envstest.Read(t, in("pod-hier.yaml")); !strings.Contains(text, "schedulerName: mine\n") || strings.Contains(text, "default-scheduler") {
		t.Errorf("the pod's scheduler:\n%s", text)
	}
}

// TestTopologyOfAnchors: nodes that share their labels in the file get racks of their own.
func TestTopologyOfAnchors(t *testing.T) {
	dir := files(t, map[string]string{"nodes.yaml": "kind: List\nitems:\n- kind: Node\n  metadata: {name: a, labels: &l {zone: z}}\n" +
		"- kind: Node\n  metadata: {name: b, labels: *l}\n"})
	mustExecute(t, "podsched", "topology", "--data-dir", dir, "--servers-per-rack", "1")
	items := objects(t, filepath.Join(dir, "nodes-hier.yaml"))[0]["items"].([]any)
	for i, want := range []map[string]any{
		{"zone": "z", "rack": "rack-0", "server": "rack-0-srv-0"}, {"zone": "z", "rack": "rack-1", "server": "rack-1-srv-0"},
	} {
		if diff := cmp.Diff(want, items[i].(map[string]any)["metadata"].(map[string]any)["labels"]); diff != "" {
			t.Errorf("node %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestTopologyOfCSV(t *testing.T) {
	dir := files(t, map[string]string{
		"all.csv":  "sn,cpu_milli,memory_mib,gpu,model\nn0,94000,1024,0,\nn1,64500,262144,2,P100\n",
		"gpu.csv":  "sn,cpu_milli,memory_mib,gpu,model\nn1,64500,262144,2,P100\n",
		"pods.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,12000,16384,1,460,V100M16|T4\np1,500,0,0,0,\n",
		"runs.csv": "a,b\n1,2\n",
	})
	mustExecute(t, "podsched", "topology", "--data-dir", dir, "--servers-per-rack", "1")
	// gpu.csv names n1 again and so is another list.
	for name, want := range map[string][]string{"all": {"rack-0 rack-0-srv-0", "rack-1 rack-1-srv-0"}, "gpu": {"rack-0 rack-0-srv-0"}} {
		if diff := cmp.Diff(want, labels(t, filepath.Join(dir, name+"-hier.yaml"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	amounts := map[string]any{"cpu": "64500m", "memory": "262144Mi", "pods": "1001", "alibabacloud.com/gpu-count": "2", "alibabacloud.com/gpu-milli": "2000"}
	want := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n1", "labels": map[string]any{
		"alibabacloud.com/gpu-card-model": "P100", "rack": "rack-1", "server": "rack-1-srv-0"}},
		"status": map[string]any{"allocatable": amounts, "capacity": amounts}}
	if diff := cmp.Diff(want, objects(t, filepath.Join(dir, "all-hier.yaml"))[1]); diff != "" {
		t.Errorf("node n1 (-want +got):\n%s", diff)
	}
	pods := objects(t, filepath.Join(dir, "pods-hier.yaml"))
	want = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p0", "annotations": map[string]any{
		"alibabacloud.com/gpu-count": "1", "alibabacloud.com/gpu-milli": "460", "alibabacloud.com/gpu-card-model": "V100M16|T4"}},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "registry.k8s.io/pause:3.10",
			"resources": map[string]any{"requests": map[string]any{"cpu": "12", "memory": "16384Mi"}}}}}}
	if diff := cmp.Diff(want, pods[0]); diff != "" || len(pods) != 2 {
		t.Errorf("%d pods, p0 (-want +got):\n%s", len(pods), diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs-hier.yaml")); err == nil {
		t.Error("a table of something else became YAML")
	}
}

// TestTopologyOfTheTrace: 1,213 nodes are 304 racks, of which the last holds one, as the earlier
// project's script had it; its server names were not unique, these are.
func TestTopologyOfTheTrace(t *testing.T) {
	data := cli.DataFolder()
	list, err := os.ReadFile(filepath.Join(data, "openb", "openb_node_list_gpu_node.csv"))
	if data == "" || err != nil {
		t.Skipf("%v: set %s to the folder that holds openb/ to enable this test", err, cli.DataVariable)
	}
	dir := files(t, map[string]string{"nodes.csv": string(list)})
	got := clitest.Decode[[]hierFile](t, mustExecute(t, "podsched", "topology", "--data-dir", dir, "--json"))
	if len(got) != 1 || got[0].Nodes != 1213 || got[0].Racks != 304 {
		t.Errorf("%+v, want 1213 nodes in 304 racks", got)
	}
	inRack, servers := map[string]int{}, map[string]bool{}
	for _, l := range labels(t, filepath.Join(dir, "nodes-hier.yaml")) {
		rack, server, _ := strings.Cut(l, " ")
		inRack[rack]++
		servers[server] = true
	}
	if inRack["rack-302"] != 4 || inRack["rack-303"] != 1 || len(servers) != 1213 {
		t.Errorf("racks 302 and 303 hold %d and %d, with %d different servers; want 4, 1, 1213", inRack["rack-302"], inRack["rack-303"], len(servers))
	}
}

func TestTopologyRefuses(t *testing.T) {
	for _, tc := range []struct {
		files map[string]string
		args  []string
		want  string
	}{
		{nil, nil, "no nodes or pods"},
		{map[string]string{"n.yaml": "kind: Node\n"}, nil, "n.yaml: line 1: a Node without a name"},
		{map[string]string{"n.yaml": "kind: [Node\n"}, nil, "n.yaml: yaml:"},
		{map[string]string{"p.yaml": "kind: Pod\nmetadata: {name: p}\n"}, []string{"--scheduler-name", "x"}, "a Pod without a spec"},
		{map[string]string{"n.csv": "sn,cpu_milli,memory_mib,gpu,model\na,-1,2,0,\n"}, nil, `line 2: cpu_milli is "-1"`},
		{map[string]string{"n.csv": "sn,cpu_milli,memory_mib,gpu,model\na,1,2,0,\n", "n.yaml": "kind: Node\nmetadata: {name: b}\n"}, nil, "would both become"},
		{map[string]string{"n.yaml": "kind: Node\nmetadata: &m {name: b, labels: *m}\n"}, nil, "more than 100 levels"},
		{map[string]string{"n.yaml": "kind: Node\nmetadata: {name: b}\n"}, []string{"--servers-per-rack", "0"}, "want at least 1"},
	} {
		dir := files(t, tc.files)
		_, _, err := execute(t, context.Background(), append([]string{"podsched", "topology", "--data-dir", dir}, tc.args...)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want an error with %q", tc.files, err, tc.want)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*-hier.yaml")); len(left) > 0 {
			t.Errorf("%v: wrote %v", tc.files, left)
		}
	}
}

// FuzzManifests sees that whatever can be read is labelled, and written so that it can be read
// again, with as many objects.
func FuzzManifests(f *testing.F) {
	f.Add(nodesYAML, false)
	f.Add(podYAML, false)
	f.Add("kind: NodeList\nitems: [{metadata: &m {name: a, labels: {<<: {x: y}}}}, {metadata: *m}]\n", false)
	f.Add("sn,cpu_milli,memory_mib,gpu,model\nn0,94000,1024,0,\nn1,64500,262144,2,P100\n", true)
	f.Add("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np0,12000,16384,1,460,V100M16|T4\n", true)
	f.Fuzz(func(t *testing.T, text string, isCSV bool) {
		parse := parseYAML
		if isCSV {
			parse = parseCSV
		}
		docs, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		var file hierFile
		if err := file.label(docs, &numbering{}, 3, "mine"); err != nil || file.Nodes+file.Pods == 0 {
			return
		}
		out, err := encodeManifests(docs)
		if err != nil {
			t.Fatalf("encode %q: %v", text, err)
		}
		again, err := parseYAML(bytes.NewReader(out))
		if err != nil {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		var second hierFile
		if err := second.label(again, &numbering{}, 3, "mine"); err != nil || second.Nodes != file.Nodes || second.Pods != file.Pods {
			t.Errorf("%q became %q: %+v, then %+v, %v", text, out, file, second, err)
		}
	})
}

// explainModel: a model's probabilities sum to 1 over the nodes, stand beside them in the text, and the most probable node
// is its choice.
func explainModel(t *testing.T) {
	t.Helper()
	model := filepath.Join("..", "..", "..", "models", "pretrained", "k8s-PodBalance-v0", "ppo.safetensors")
	args := []string{"podsched", "explain", "--decision", "12", "--model", model}
	e := clitest.Decode[explanation](t, mustExecute(t, append(args, "--json")...))
	s := e.Scores["ppo"]
	if s == nil || s.Kind != "probability" || s.Entropy == nil || *s.Entropy <= 0 || len(s.Actions) != 10 {
		t.Fatalf("scores %+v", s)
	}
	sum, best := 0.0, 0
	for i, p := range s.Actions {
		if sum += *p; *p > *s.Actions[best] {
			best = i
		}
		if got, want := e.Nodes[i]["ppo probability"], fmt.Sprintf("%.4f", *p); got != want {
			t.Errorf("node %d: %q, want %q", i, got, want)
		}
	}
	if math.Abs(sum-1) > 1e-6 || e.Choices["ppo"] != e.Nodes[best]["node"] {
		t.Errorf("the probabilities sum to %v; %s is chosen, the most probable is %s", sum, e.Choices["ppo"], e.Nodes[best]["node"])
	}
	if text := mustExecute(t, args...); !strings.Contains(text, "ppo probability") || !strings.Contains(text, "entropy") {
		t.Errorf("no probabilities and entropy in\n%s", text)
	}
}

// TestExplain: the first pod ties on all nodes of the default setting, and goes to the first.
func TestExplain(t *testing.T) {
	e := clitest.Decode[explanation](t, mustExecute(t, "podsched", "explain", "--decision", "0", "--json"))
	want := map[string]string{"node": "worker-9", "rack": "rack-2", "cost": "0.3516", "LeastAllocated": "98", "MostAllocated": "0",
		"BalancedAllocation": "99", "PodTopologySpread": "100", "KubeDefault": "397"}
	// On an empty node 1 of 64 CPU and 2 of 256 Gi: free 98.4 and 99.2 %, difference 0.78 %. Cost:
	// a share of 1/64 on one of ten nodes has the deviation 1/64·0.3, memory half of that.
	if diff := cmp.Diff(want, e.Nodes[9]); diff != "" || len(e.Nodes) != 10 {
		t.Errorf("%d nodes, the last (-want +got):\n%s", len(e.Nodes), diff)
	}
	if e.Choices["KubeDefault"] != "worker-0" || e.Choices["Exact"] != "" {
		t.Errorf("choices %v", e.Choices)
	}
	text := mustExecute(t, "podsched", "explain", "--decision", "70", "--follow", "First", "--seed", "3", "--env-kwargs", "cpu_load:0.5")
	for _, s := range []string{"worker-0     rack-0    ████████████████████ 100.0%", "node worker-0 has 0 CPU", "RoundRobin"} {
		if !strings.Contains(text, s) {
			t.Errorf("no %q in\n%s", s, text)
		}
	}
	explainModel(t)
	for _, tc := range [][]string{
		{"--decision", "-1", "want 0 or more"}, {"--decision", "100000", "but the episode has"},
		{"--env", "classic/CartPole-v1", "does not explain"}, {"--follow", "Nobody", "no baseline"},
	} {
		_, _, err := execute(t, context.Background(), "podsched", "explain", tc[0], tc[1])
		if err == nil || !strings.Contains(err.Error(), tc[2]) {
			t.Errorf("%v: %v", tc, err)
		}
	}
}
