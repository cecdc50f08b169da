package deployments

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
)

// TestResample: two pods of a deployment have arrived. They stay, and so do its size and requests. What
// comes is the same whether or not the stream had been looked at ahead, and other than before.
func TestResample(t *testing.T) {
	config := &Config{Nodes: 2, MixedPods: true, ReplicasMin: 4, ReplicasMax: 9, UsageMin: 0.2, UsageMax: 0.9}
	pods := func(ahead int, resample bool) []Pod {
		s := NewStream(config)
		s.Draw(1)
		for i := range max(2, ahead) {
			s.Pod(i)
		}
		if resample {
			if err := s.Resample(2, rand.New(rand.NewPCG(3, 4))); err != nil {
				t.Fatal(err)
			}
		}
		var all []Pod
		for i := range 60 {
			p, _ := s.Pod(i)
			all = append(all, *p)
		}
		return all
	}
	before, after := pods(0, false), pods(0, true)
	if d := cmp.Diff(after, pods(50, true)); d != "" {
		t.Errorf("the future depends on what was drawn ahead:\n%s", d)
	}
	if d := cmp.Diff(before[:2], after[:2]); d != "" {
		t.Errorf("the past changes:\n%s", d)
	}
	if a, b := before[2], after[2]; a.Requests != b.Requests || a.Replicas != b.Replicas || a.Usage == b.Usage {
		t.Errorf("the next pod of the deployment is %+v, was %+v: want another usage alone", b, a)
	}
	if cmp.Equal(before[10:], after[10:]) {
		t.Error("the future stays as it was")
	}
}

// TestResampleRefuses: a file is played as it is, and the cluster knows when pods end.
func TestResampleRefuses(t *testing.T) {
	for _, c := range []*Config{{File: []Deployment{{Replicas: 1}}}, {ReplicasMin: 1, ReplicasMax: 1, Lifetime: 10}} {
		s := NewStream(c)
		s.Draw(1)
		s.Pod(0)
		if err := s.Resample(1, rand.New(rand.NewPCG(1, 2))); !errors.Is(err, envs.ErrCannotResample) {
			t.Errorf("%+v: %v, want ErrCannotResample", c, err)
		}
	}
}
