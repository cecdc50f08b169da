package gpu

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

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

// modelTable numbers GPU models.
type modelTable struct{ names []string }

// add enters a model; "" is none.
func (m *modelTable) add(name string) error {
	if name == "" || slices.Contains(m.names, name) {
		return nil
	}
	if len(m.names) == maxModels {
		return fmt.Errorf("gpu: model %q is one more than the %d that are possible", name, maxModels)
	}
	m.names = append(m.names, name)
	return nil
}

// index returns the number of a model, or -1.
func (m *modelTable) index(name string) int8 { return int8(slices.Index(m.names, name)) }

// set returns the models of a gpu_spec as bits. Models that no node has are none.
func (m *modelTable) set(spec string) uint64 {
	if spec == "" {
		return ^uint64(0)
	}
	var set uint64
	for _, name := range splitModels(spec) {
		if i := m.index(name); i >= 0 {
			set |= 1 << i
		}
	}
	return set
}

// class is a shape as a board sees it. Its id is its place in a catalogue.
type class struct {
	Shape
	id      int32
	kind    int32   // classes that differ in memory and models only are of one kind
	models  uint64  // bits of the models that it may run on
	allowed []bool  // by node; nil is all
	tag     int32   // of GpuClustering: 0 shares a device, n has n devices whole; -1 none
	counted []int32 // counters of topology spread that its pods count in
	prefers *preferences

	// Beyond the requests, for the strategies of NodeResourcesFit; see Request.
	extraCPU, extraMem int64
}

func newClass(s Shape, id int32, m *modelTable) class {
	c := class{Shape: s, id: id, models: m.set(s.Models), tag: s.GPUs}
	if s.GPUs == 0 {
		c.tag = -1
	} else if s.sharing() {
		c.tag = 0
	}
	return c
}
