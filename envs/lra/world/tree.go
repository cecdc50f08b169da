package world

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// A Tree leads to one of its leaves, nodes or sub-clusters, by choices among children. The leaves below a vertex have
// consecutive numbers.
type Tree struct {
	fan, levels int // children of a vertex; choices from the root to a leaf
	level, from int // the current vertex: its level and its first leaf
}

// NewTree returns a tree whose n leaves are the children of its root.
func NewTree(n int) Tree { return Tree{fan: n, levels: 1} }

// NewTreeOfThrees returns a tree of n leaves with three children per vertex. Its error wraps envs.ErrInvalidOption.
func NewTreeOfThrees(n int) (Tree, error) {
	levels, m := 0, 1
	for m < n {
		m *= subcluster.FanOut
		levels++
	}
	if m != n || levels == 0 {
		return Tree{}, invalid("%d is no power of 3, which choices among three need", n)
	}
	return Tree{fan: subcluster.FanOut, levels: levels}, nil
}

// Levels returns the number of choices from the root to a leaf.
func (t *Tree) Levels() int { return t.levels }

// Fan returns the number of children of a vertex.
func (t *Tree) Fan() int { return t.fan }

// Reset returns to the root.
func (t *Tree) Reset() { t.level, t.from = 0, 0 }

// Descend goes down to a child. At a leaf it returns the leaf's number and true, and returns to the root.
func (t *Tree) Descend(child int) (leaf int, ok bool) {
	t.from += child * t.width()
	if t.level++; t.level < t.levels {
		return 0, false
	}
	leaf = t.from
	t.Reset()
	return leaf, true
}

// width returns the number of leaves below each child of the current vertex.
func (t *Tree) width() int {
	w := 1
	for range t.levels - 1 - t.level {
		w *= t.fan
	}
	return w
}

// Children returns the first leaf below the current vertex, and the number of leaves of each child.
func (t *Tree) Children() (first, width int) { return t.from, t.width() }

// Spaces returns the spaces of a choice: of the features of each child, within ±bound, and of the batch, with one more
// feature for each level if there are several; and of the child.
func (t *Tree) Spaces(bound float32, features int) (obs, act space.Space) {
	batch := BatchFeatures
	if t.levels > 1 {
		batch += t.levels
	}
	return space.Dict{Fields: []space.Field{
		{Key: "nodes", Space: space.NewBox(-bound, bound, t.fan, features)},
		{Key: "batch", Space: space.NewBox(0, 1, batch)},
	}}, space.Discrete{N: t.fan}
}

// BatchNames returns the names of the part batch.
func (t *Tree) BatchNames() []string {
	names := append(PerApp("container_is_"), PerApp("remaining_")...)
	names = append(names, "remaining", "slots_used", "violations_left")
	if t.levels > 1 {
		for level := range t.levels {
			names = append(names, fmt.Sprintf("level_%d", level))
		}
	}
	return names
}

// ObserveLevel writes the level of the choice after the other features of the batch.
func (t *Tree) ObserveLevel(batch []float32) {
	if t.levels > 1 {
		level := batch[BatchFeatures:]
		clear(level)
		level[t.level] = 1
	}
}

// Descent plans the path of a container down a tree.
type Descent struct {
	Tree     *Tree
	Decision func() int               // numbers the containers
	Choose   func() int               // chooses the leaf for a container
	Below    func(first, end int) int // chooses among the remaining leaves if other actions have left the path
}

// Policy returns a policy that follows a Descent; start makes one for each episode.
func Policy(start func(ctx context.Context) (Descent, error)) envs.Policy {
	var d Descent
	leaf, decision := 0, 0
	return func(ctx context.Context, _ *cluster.State, first bool, action []float32) error {
		if first {
			var err error
			if d, err = start(ctx); err != nil {
				return err
			}
		}
		t := d.Tree
		if first || t.level == 0 || d.Decision() != decision { // or it was not called at the root
			leaf, decision = d.Choose(), d.Decision()
		}
		width := t.width()
		if end := t.from + t.fan*width; leaf < t.from || leaf >= end {
			leaf = d.Below(t.from, end)
		}
		action[0] = float32((leaf - t.from) / width)
		return nil
	}
}
