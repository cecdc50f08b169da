package gpushare

import "testing"

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
