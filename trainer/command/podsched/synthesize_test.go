package podsched

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

func TestSynthesize(t *testing.T) {
	dir := t.TempDir()
	var texts [][]byte
	for i, seed := range []string{"1", "1", "2"} {
		path := filepath.Join(dir, string(rune('a'+i))+".jsonl")
		mustExecute(t, "podsched", "synthesize", "--nodes", "20", "--pods", "300", "--seed", seed, "--out", path)
		trace, err := clustertrace.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(trace.Nodes) != 20 || len(trace.Pods) < 300 {
			t.Errorf("%d nodes and %d pods, want 20 and 300 or a few more", len(trace.Nodes), len(trace.Pods))
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if !bytes.Equal(texts[0], texts[1]) || bytes.Equal(texts[0], texts[2]) {
		t.Error("recordings of seeds 1, 1 and 2: want the first two equal, and the third different")
	}
	bad := filepath.Join(dir, "bad.jsonl")
	if _, _, err := execute(t, t.Context(), "podsched", "synthesize", "--load", "1", "--out", bad); err == nil || !strings.Contains(err.Error(), "a load above 0 and below 1") {
		t.Errorf("load 1: %v, want an error that says which loads can be", err)
	}
	if _, err := os.Stat(bad); err == nil {
		t.Error("a refused law leaves a file")
	}
}
