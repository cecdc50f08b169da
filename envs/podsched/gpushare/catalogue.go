package gpushare

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// Catalogue numbers the models of nodes and the shapes of pods.
type Catalogue struct {
	Models   ModelTable
	Classes  []Class
	Of       map[Shape]int32
	counters int // of topology spread
}

// NewCatalogue returns the catalogue of the models of nodes and the shapes of pods. More than [MaxModels] models are an
// error.
func NewCatalogue(nodes []Node, pods []Pod) (*Catalogue, error) {
	cat := &Catalogue{Of: map[Shape]int32{}}
	kinds := map[Shape]int32{}
	for i := range nodes {
		if err := cat.Models.add(nodes[i].Model); err != nil {
			return nil, err
		}
	}
	for i := range pods {
		s := pods[i].Shape
		if _, ok := cat.Of[s]; !ok {
			id := int32(len(cat.Classes))
			cat.Of[s] = id
			cat.Classes = append(cat.Classes, newClass(s, id, &cat.Models))
			alike := Shape{MilliCPU: s.MilliCPU, GPUs: s.GPUs, MilliGPU: s.MilliGPU}
			if _, ok := kinds[alike]; !ok {
				kinds[alike] = int32(len(kinds))
			}
			cat.Classes[id].Kind = kinds[alike]
			// A trace does not give the controllers of pods: pods of equal shape count as replicas.
			cat.Classes[id].counted = []int32{id}
			cat.Classes[id].prefers = &preferences{spread: []spreadConstraint{{counter: id, maxSkew: kubescore.DefaultHostnameMaxSkew}}}
		}
	}
	cat.counters = len(cat.Classes)
	return cat, nil
}

// ModelTable numbers GPU models.
type ModelTable struct{ names []string }

// add adds a model; "" is none.
func (m *ModelTable) add(name string) error {
	if name == "" || slices.Contains(m.names, name) {
		return nil
	}
	if len(m.names) == MaxModels {
		return fmt.Errorf("gpu: model %q is one more than the %d that are possible", name, MaxModels)
	}
	m.names = append(m.names, name)
	return nil
}

// index returns the number of a model, or -1.
func (m *ModelTable) index(name string) int8 { return int8(slices.Index(m.names, name)) }

// set returns the models of a gpu_spec as bits, without models that no node has.
func (m *ModelTable) set(spec string) uint64 {
	if spec == "" {
		return ^uint64(0)
	}
	var set uint64
	for _, name := range SplitModels(spec) {
		if i := m.index(name); i >= 0 {
			set |= 1 << i
		}
	}
	return set
}

// Class is a shape, prepared for an [Inventory].
type Class struct {
	Shape
	ID       int32
	Kind     int32   // classes that differ only in memory and models are of one kind
	ModelSet uint64  // bits of the models that it may run on
	Allowed  []bool  // by node; nil permits all
	tag      int32   // of GpuClustering: 0 shares a device, n has n whole devices; -1 none
	counted  []int32 // counters of topology spread that its pods count in
	prefers  *preferences

	// Beyond the requests, for the strategies of NodeResourcesFit; see Request.
	ExtraCPU, ExtraMemory int64
}

func newClass(s Shape, id int32, m *ModelTable) Class {
	c := Class{Shape: s, ID: id, ModelSet: m.set(s.Models), tag: s.GPUs}
	if s.GPUs == 0 {
		c.tag = -1
	} else if s.Sharing() {
		c.tag = 0
	}
	return c
}
