package gpushare

import (
	"cmp"
	"math/rand"
	"slices"
)

// Constants of the reference simulator's experiments.
const (
	// DefaultRatio is the target of the requested GPUs over the existing ones.
	DefaultRatio = 1.3

	// lostDraws is the number of draws that the reference takes from its generator between the tuning and the naming of
	// nodes. It was found by reproduction: among 0 to 45, only 10 gives the published curves, and it gives all of them.
	lostDraws = 10
)

// Workload is a sequence of pods for a cluster.
type Workload struct {
	Nodes    []Node // in the order that breaks ties: the lowest index wins
	Arrivals []Pod  // in the order of their arrival
	Types    []Pod  // whose shapes future pods are expected to have: the untuned list

	rng *rand.Rand // state of the reference after all draws
}

// ReferenceWorkload orders nodes and pods and tunes the pods to request ratio times the GPUs of the nodes, as the
// reference simulator does for a random seed. It shuffles the pods. Then it removes random pods until they request no
// more than that, or adds copies of random pods until the next one would exceed it. A ratio of 0 skips this step. Then
// it permutes the nodes.
//
// Source: the artifact of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
// Gradient Descent", USENIX ATC 2023. The order of the draws, and two unused draws, are those of the artifact.
func ReferenceWorkload(nodes []Node, pods []Pod, seed int64, ratio float64) *Workload {
	return OrderedWorkload(nodes, pods, seed, ratio, true)
}

// OrderedWorkload is ReferenceWorkload with pods that are shuffled or, as an option of the reference, in the order of
// their names.
func OrderedWorkload(nodes []Node, pods []Pod, seed int64, ratio float64, shuffle bool) *Workload {
	rng := rand.New(rand.NewSource(seed))
	types := slices.Clone(pods)
	slices.SortStableFunc(types, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	rng.Int() // the reference draws one for a line of its log
	arrivals := slices.Clone(types)
	if shuffle {
		rng.Shuffle(len(arrivals), func(i, j int) { arrivals[i], arrivals[j] = arrivals[j], arrivals[i] })
	}
	if ratio > 0 {
		arrivals = tune(rng, types, arrivals, ratio*float64(capacity(nodes)))
	}
	for range lostDraws {
		rng.Float64()
	}
	byName := slices.Clone(nodes)
	slices.SortStableFunc(byName, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	ordered := make([]Node, len(nodes))
	for i, place := range rng.Perm(len(nodes)) {
		ordered[place] = byName[i]
	}
	return &Workload{Nodes: ordered, Arrivals: arrivals, Types: types, rng: rng}
}

// capacity returns the thousandths of a GPU of all nodes.
func capacity(nodes []Node) int64 {
	var total int64
	for i := range nodes {
		total += int64(nodes[i].GPUs) * WholeGPU
	}
	return total
}

// RequestedMilliGPU returns the thousandths of a GPU that pods request in total.
func RequestedMilliGPU(pods []Pod) int64 {
	var total int64
	for i := range pods {
		total += pods[i].TotalMilliGPU()
	}
	return total
}

// tune removes pods from arrivals, or adds copies of types to them, until they request target.
func tune(rng *rand.Rand, types, arrivals []Pod, target float64) []Pod {
	total := RequestedMilliGPU(arrivals)
	if float64(total) > target {
		for float64(total) > target && len(arrivals) > 0 {
			i := rng.Intn(len(arrivals))
			total -= arrivals[i].TotalMilliGPU()
			arrivals = slices.Delete(arrivals, i, i+1)
		}
		return arrivals
	}
	if total == 0 {
		return arrivals // copies of pods that request no GPU would never reach the target
	}
	for {
		p := types[rng.Intn(len(types))]
		// As in the reference, the share of one device decides, not that of all devices.
		if float64(total+int64(p.MilliGPU)) > target {
			return arrivals
		}
		total += p.TotalMilliGPU()
		arrivals = append(arrivals, p)
	}
}
