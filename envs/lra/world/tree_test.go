package world_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// TestTreeByHand goes down a tree of nine leaves: child 1 has the leaves 3 to 5, of which child 2 is 5.
func TestTreeByHand(t *testing.T) {
	tree, err := world.NewTreeOfThrees(9)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := tree.Descend(1); ok {
		t.Error("a leaf after one of two choices")
	}
	if first, width := tree.Children(); first != 3 || width != 1 {
		t.Errorf("children from leaf %d, %d each; want 3 and 1", first, width)
	}
	if leaf, ok := tree.Descend(2); !ok || leaf != 5 {
		t.Errorf("leaf %d, %v; want 5", leaf, ok)
	}
	if first, width := tree.Children(); first != 0 || width != 3 {
		t.Errorf("behind a leaf children from %d, %d each; want the root's 0 and 3", first, width)
	}
	for _, n := range []int{0, 1, 2, 8, 28} {
		if _, err := world.NewTreeOfThrees(n); !errors.Is(err, envs.ErrInvalidOption) {
			t.Errorf("a tree of %d leaves: %v, want an invalid option", n, err)
		}
	}
}

// TestPolicyDescends: a policy follows its choice of leaf 5, and chooses among leaves 6 to 8 where another
// action has left that way.
func TestPolicyDescends(t *testing.T) {
	tree, err := world.NewTreeOfThrees(9)
	if err != nil {
		t.Fatal(err)
	}
	chosen := 0
	policy := world.Policy(func(context.Context) (world.Descent, error) {
		return world.Descent{
			Tree: &tree, Decision: func() int { return 0 },
			Choose: func() int { chosen++; return 5 },
			Below:  func(first, end int) int { return end - 1 },
		}, nil
	})
	ask := func(first bool) int {
		var action [1]float32
		if err := policy(t.Context(), nil, first, action[:]); err != nil {
			t.Fatal(err)
		}
		return int(action[0])
	}
	if child := ask(true); child != 1 {
		t.Errorf("child %d at the root, want 1", child)
	}
	tree.Descend(1)
	if child := ask(false); child != 2 || chosen != 1 {
		t.Errorf("child %d after %d choices, want 2 after 1", child, chosen)
	}
	tree.Reset()
	tree.Descend(2)
	if child := ask(false); child != 2 { // leaf 8
		t.Errorf("child %d off the way, want 2", child)
	}
}

// TestObserveChildren: of nine nodes the first has a Redis. A child shows the mean of its nodes, and the
// largest gain.
func TestObserveChildren(t *testing.T) {
	o := options(t)
	o.Nodes, o.Batches, o.Batch = 9, batches(t, lra.Counts{1, 1}), 0
	src, e, c := begin(t, o, 1)
	tree, err := world.NewTreeOfThrees(9)
	if err != nil {
		t.Fatal(err)
	}
	place(t, e, c, 0)
	box, _ := tree.Spaces(src.Bound, world.NodeFeatures)
	obs, mask := make([]float32, box.Size()), make([]bool, 3)
	e.Observe(&tree, e.Rows(), obs, mask)
	const value, gain = lra.NumApps + 1, world.GainFeature
	for i, want := range map[int]float32{
		0: 1. / 8 / 3, value: 1. / 8 / 3, gain: 1.7, // the MMS gains 1.7 beside the Redis
		world.NodeFeatures: 0, world.NodeFeatures + gain: 1,
		len(obs) - 2: 1, len(obs) - 1: 0, // the first of two levels
	} {
		if diff := obs[i] - want; diff > 1e-6 || diff < -1e-6 {
			t.Errorf("feature %d is %v, want %v", i, obs[i], want)
		}
	}
	for i, ok := range mask {
		if !ok {
			t.Errorf("child %d is masked out, want all permitted", i)
		}
	}
}
