package gpu

import "github.com/kubernasium/kubernasium/envs/podsched/kubescore"

// catalogue numbers the models of nodes and the shapes of pods.
type catalogue struct {
	models   modelTable
	classes  []class
	of       map[Shape]int32
	counters int // of topology spread
}

func newCatalogue(nodes []Node, pods []Pod) (*catalogue, error) {
	cat := &catalogue{of: map[Shape]int32{}}
	kinds := map[Shape]int32{}
	for i := range nodes {
		if err := cat.models.add(nodes[i].Model); err != nil {
			return nil, err
		}
	}
	for i := range pods {
		s := pods[i].Shape
		if _, ok := cat.of[s]; !ok {
			id := int32(len(cat.classes))
			cat.of[s] = id
			cat.classes = append(cat.classes, newClass(s, id, &cat.models))
			alike := Shape{MilliCPU: s.MilliCPU, GPUs: s.GPUs, MilliGPU: s.MilliGPU}
			if _, ok := kinds[alike]; !ok {
				kinds[alike] = int32(len(kinds))
			}
			cat.classes[id].kind = kinds[alike]
			// A trace does not say whose a pod is: pods of equal shape pass for replicas.
			cat.classes[id].counted = []int32{id}
			cat.classes[id].prefers = &preferences{spread: []spreadConstraint{{counter: id, maxSkew: kubescore.DefaultHostnameMaxSkew}}}
		}
	}
	cat.counters = len(cat.classes)
	return cat, nil
}
