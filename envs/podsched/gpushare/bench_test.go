package gpushare

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkReproduce plays the default list with one policy.
func BenchmarkReproduce(b *testing.B) {
	dir := openb(b)
	nodes, err := ReadNodes(dir + "/openb_node_list_gpu_node.csv")
	if err != nil {
		b.Fatal(err)
	}
	pods, err := ReadPods(dir + "/openb_pod_list_default.csv")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"FGD", "KubeDefault", "Random"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Reproduce(nodes, pods, name, 42, DefaultRatio); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRollout plays WeightedFGD from the empty cluster of 12 nodes into a future of 160 pods: by a
// look-ahead, and by the policy in a copy of the inventory.
func BenchmarkRollout(b *testing.B) {
	inventory, r, cat, arrivals := drawnCluster(b, rand.New(rand.NewPCG(3, 1)))
	first := &cat.Classes[arrivals[0]]
	node, devices := newWeighing(inventory, r, DefaultWeights).Choose(first)
	b.Run("Lookahead", func(b *testing.B) {
		look, err := NewLookahead(inventory, r, DefaultWeights, cat)
		if err != nil {
			b.Fatal(err)
		}
		look.begin()
		for b.Loop() {
			look.play(first, node, arrivals[1:], nil)
		}
	})
	b.Run("Copy", func(b *testing.B) {
		for b.Loop() {
			copied := inventory.Clone()
			copied.Place(first, node, devices)
			player := newWeighing(&copied, r, DefaultWeights)
			for _, id := range arrivals[1:] {
				c := &cat.Classes[id]
				if n, d := player.Choose(c); n >= 0 {
					copied.Place(c, n, d)
				}
			}
		}
	})
}
