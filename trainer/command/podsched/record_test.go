package podsched

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "episode.jsonl.zst")
	out := mustExecute(t, "podsched", "record", "--policy", "RoundRobin", "--env-kwargs", "nodes:3", "--env-kwargs", "reset_pods:[7]", "--out", path)
	trace, err := clustertrace.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(trace.Nodes) != 3 || len(trace.Pods) != 7 || !strings.Contains(out, "3 nodes, 7 pods") {
		t.Fatalf("%d nodes and %d pods, said %q, want 3 and 7", len(trace.Nodes), len(trace.Pods), out)
	}
	for i, p := range trace.Pods { // one on each node in turn, and for ever
		if p.Node != int32(i%3) || p.Bound != p.Created || p.Freed() != clustertrace.Never {
			t.Errorf("pod %d on node %d, created %v, bound %v, freed %v; want node %d at once and for ever", i, p.Node, p.Created, p.Bound, p.Freed(), i%3)
		}
	}
	model := filepath.Join(dir, "model.jsonl")
	mustExecute(t, "podsched", "record", "--model", "../../../models/pretrained/k8s-PodBalance-v0/ppo.safetensors", "--env-kwargs", "reset_pods:[7]", "--out", model)
	if trace, err = clustertrace.Load(model); err != nil || len(trace.Pods) != 7 {
		t.Errorf("by a model: %v, want 7 pods", err)
	}
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no file", []string{"--policy", "Greedy"}, "give --out"},
		{"no policy", []string{"--out", "a.jsonl"}, "want one of --model and --policy"},
		{"no nodes", []string{"--env", "classic/CartPole-v1", "--policy", "random", "--out", filepath.Join(dir, "cart.jsonl")}, "has no nodes"},
		{"the file is there", []string{"--policy", "Greedy", "--env-kwargs", "reset_pods:[7]", "--out", path}, "episode.jsonl.zst"},
	} {
		if _, _, err := execute(t, t.Context(), append([]string{"podsched", "record"}, tc.args...)...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", tc.name, err, tc.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "cart.jsonl")); err == nil {
		t.Error("an error leaves a file")
	}
}
