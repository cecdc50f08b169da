package run

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/replay"
)

// TestTransitionsComeBack: a file gives back what was written, masks too, where there are any.
func TestTransitionsComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recorded.safetensors")
	want := replay.Transitions{
		Obs: []float32{1, 2, 3, 4}, NextObs: []float32{5, 6, 7, 8}, Action: []float32{0, 2}, Reward: []float64{-1, 0.5},
		Terminated: []bool{false, true}, Truncated: []bool{true, false},
		Mask: []bool{true, false, true, true, true, false}, NextMask: []bool{false, true, true, true, false, true},
	}
	for _, masks := range []bool{true, false} {
		if !masks {
			want.Mask, want.NextMask = nil, nil
		}
		if err := WriteTransitions(path, want, TransitionsMeta{Env: "k8s/X-v0", Policy: "rule"}, 3); err != nil {
			t.Fatal(err)
		}
		got, meta, err := ReadTransitions(path)
		if d := cmp.Diff(want, got); d != "" || err != nil || meta.Env != "k8s/X-v0" || meta.Policy != "rule" {
			t.Errorf("with masks %v: %+v, %v (-want +got):\n%s", masks, meta, err, d)
		}
	}
}
