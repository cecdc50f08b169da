package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// randomMeta draws metadata whose strings are of the bytes 0 and 1, as are the lengths and counts of
// anything short, so that keys that leave out a length coincide.
func randomMeta(rng *rand.Rand) cluster.Meta {
	text := func() string {
		b := make([]byte, rng.IntN(3))
		for i := range b {
			b[i] = byte(rng.IntN(2))
		}
		return string(b)
	}
	m := cluster.Meta{Name: text(), GPUModel: text()}
	for range rng.IntN(2) {
		m.Labels = append(m.Labels, cluster.Label{Key: text(), Value: text()})
	}
	for range rng.IntN(2) {
		m.NodeSelector = append(m.NodeSelector, cluster.Label{Key: text(), Value: text()})
	}
	for range rng.IntN(3) {
		m.Taints = append(m.Taints, cluster.Taint{Key: text(), Value: text(), Effect: cluster.TaintEffect(text())})
	}
	for range rng.IntN(2) {
		m.Tolerations = append(m.Tolerations, cluster.Toleration{Key: text(), Operator: cluster.TolerationOperator(text()), Value: text(), Effect: cluster.TaintEffect(text())})
	}
	for range rng.IntN(3) {
		m.GPUModels = append(m.GPUModels, text())
	}
	return m
}

// content writes out a set of taints and models, whose order and repeats do not matter.
func content(m cluster.Meta) string {
	set := func(texts []string) []string { slices.Sort(texts); return slices.Compact(texts) }
	var taints []string
	for _, t := range m.Taints {
		taints = append(taints, fmt.Sprintf("%q %q %q", t.Key, t.Value, t.Effect))
	}
	return fmt.Sprintf("%q %q %q %q %q %q %q", m.Name, m.GPUModel, m.Labels, m.NodeSelector, set(taints), m.Tolerations, set(slices.Clone(m.GPUModels)))
}

// Metadata has the index of another one exactly if their contents are equal.
func TestInternDistinguishes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s, indices, contents := cluster.NewState(), map[string]int32{}, map[int32]string{}
		for range 40 { // few: the table of what permits what grows with the square
			m := randomMeta(rng)
			i, c := s.Intern(m), content(m)
			if j, ok := indices[c]; ok && i != j {
				t.Fatalf("%s has index %d and index %d", c, i, j)
			}
			if d, ok := contents[i]; ok && c != d {
				t.Fatalf("%s and %s have index %d", c, d, i)
			}
			indices[c], contents[i] = i, c
		}
	}
}

// Intern sorts a copy; the caller's slices stay as they are.
func TestInternSortsACopy(t *testing.T) {
	s := cluster.NewState()
	models := []string{"V100", "A10", "A10"}
	i := s.Intern(cluster.Meta{Name: "p", GPUModels: models})
	if want := []string{"V100", "A10", "A10"}; !cmp.Equal(models, want) {
		t.Errorf("the caller's models are %q, want %q", models, want)
	}
	models[1] = "T4"
	if want := []string{"A10", "V100"}; !cmp.Equal(s.Meta(i).GPUModels, want) {
		t.Errorf("models %q, want %q", s.Meta(i).GPUModels, want)
	}
}

// States whose pods differ in metadata alone are not equal.
func TestEqualLooksAtPods(t *testing.T) {
	states := make([]*cluster.State, 2)
	for i := range states {
		states[i] = cluster.NewState()
		states[i].Intern(cluster.Meta{Name: "p", GPUModels: []string{"T4", "A10"}[i : i+1]})
		apply(t, states[i], parse(t, "AddPod meta=0 cpu=1")...)
	}
	if states[0].Equal(states[1]) {
		t.Error("Equal is true of pods that want T4 and A10")
	}
}

// A mask may be longer or shorter than there are nodes; it is all false for a pod that does not exist.
func TestFitMaskOfOtherLengths(t *testing.T) {
	s := example(t)
	for _, n := range []int{0, 1, 2, 4} {
		for pod := int32(-1); pod < 5; pod++ {
			mask := slices.Repeat([]bool{true}, n)
			s.FitMask(pod, mask)
			for i, got := range mask {
				if want := s.Fits(pod, int32(i)); got != want {
					t.Errorf("pod %d, mask of %d: node %d is %v, want %v", pod, n, i, got, want)
				}
			}
		}
	}
	// Pod 2 fits node 0 once it wants less: a mask that was true throughout becomes what Fits says.
	apply(t, s, parse(t, "AddPod meta=2 cpu=1")...)
	mask := []bool{false, true, true}
	s.FitMask(3, mask)
	if want := []bool{true, false, false}; !cmp.Equal(mask, want) { // node 1 has its one pod, and there is no node 2
		t.Errorf("mask %v, want %v", mask, want)
	}
}
