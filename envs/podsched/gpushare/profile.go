package gpushare

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// A plugin writes a score from 0 to 100 for each of the nodes, which a pod fits, to scores.
type plugin interface {
	scoreNodes(c *Class, nodes []int32, scores []int64)
}

type weightedPlugin struct {
	plugin
	weight int64
}

// weighted chooses the node with the highest sum of weighted scores of plugins, the first of equal ones. Except for the
// ties, kube-scheduler does the same.
type weighted struct {
	fitting *scored
	plugins []weightedPlugin
	device  func(b *Inventory, c *Class, i int32) uint64
	nodes   []int32
	scores  []int64
	sums    []int64
}

func newWeighted(b *Inventory, plugins []weightedPlugin, device func(b *Inventory, c *Class, i int32) uint64) *weighted {
	return &weighted{fitting: newScored(b, anyNode), plugins: plugins, device: device}
}

// Choose implements [Placer].
func (w *weighted) Choose(c *Class) (node int32, devices uint64) {
	w.nodes = w.nodes[:0]
	row := w.fitting.row(c)
	for i := range row {
		if row[i].score != noFit {
			w.nodes = append(w.nodes, int32(i))
		}
	}
	if len(w.nodes) == 0 {
		return -1, 0
	}
	node = w.nodes[0]
	if len(w.nodes) > 1 {
		w.sum(c)
		best := int64(math.MinInt64)
		for k, s := range w.sums[:len(w.nodes)] {
			if s > best {
				node, best = w.nodes[k], s
			}
		}
	}
	return node, w.device(w.fitting.b, c, node)
}

// sum sums the plugins' scores of w.nodes in w.sums.
func (w *weighted) sum(c *Class) {
	for len(w.sums) < len(w.nodes) {
		w.sums, w.scores = append(w.sums, 0), append(w.scores, 0)
	}
	sums, scores := w.sums[:len(w.nodes)], w.scores[:len(w.nodes)]
	clear(sums)
	for _, p := range w.plugins {
		p.scoreNodes(c, w.nodes, scores)
		for k, s := range scores {
			sums[k] += p.weight * s
		}
	}
}

// Profile holds the plugins that score nodes.
type Profile struct {
	Plugins []ScorePlugin
	Devices string // the policy that chooses devices: one of PolicyNames, or WorstFit
}

// WorstFit chooses the device with the most free, for a pod that shares one.
const WorstFit = "WorstFit"

// ScorePlugin is a plugin with its weight: a policy of PolicyNames, a plugin of kube-scheduler in [KubePlugins], or
// Simon, the score of Alibaba's open-simulator.
type ScorePlugin struct {
	Name     string
	Weight   int64
	Strategy *Strategy // of NodeResourcesFit; nil is LeastAllocated
}

// Strategy is the scoring strategy of NodeResourcesFit.
type Strategy struct {
	Type                    string // LeastAllocated, MostAllocated or RequestedToCapacityRatio
	CPUWeight, MemoryWeight int64
	Shape                   []kubescore.ShapePoint // of RequestedToCapacityRatio
}

// KubePlugins are kube-scheduler's score plugins with their default weights.
var KubePlugins = []ScorePlugin{
	{Name: "TaintToleration", Weight: kubescore.TaintTolerationWeight},
	{Name: "NodeAffinity", Weight: kubescore.NodeAffinityWeight},
	{Name: "NodeResourcesFit", Weight: kubescore.NodeResourcesFitWeight},
	{Name: "PodTopologySpread", Weight: kubescore.PodTopologySpreadWeight},
	{Name: "NodeResourcesBalancedAllocation", Weight: kubescore.BalancedAllocationWeight},
	{Name: "ImageLocality", Weight: kubescore.ImageLocalityWeight},
}

// placer makes the plugins of a profile.
func (s *scheduler) placer(p Profile, r *Reserve, draw Intn) (Placer, error) {
	device, err := deviceChoice(p.Devices, draw)
	if err != nil {
		return nil, err
	}
	var plugins []weightedPlugin
	for _, sp := range p.Plugins {
		one, err := s.plugin(sp, r, draw)
		if err != nil {
			return nil, err
		}
		plugins = append(plugins, weightedPlugin{one, sp.Weight})
	}
	return newWeighted(&s.inventory, plugins, device), nil
}

// deviceChoice returns the function by which the policy called name chooses devices.
func deviceChoice(name string, draw Intn) (func(b *Inventory, c *Class, i int32) uint64, error) {
	if name == WorstFit {
		return (*Inventory).loosest, nil
	}
	p, err := PolicyByName(name)
	if err != nil {
		return nil, err
	}
	if name == "Random" {
		return func(b *Inventory, c *Class, i int32) uint64 { return randomDevice(b, c, i, draw) }, nil
	}
	return func(b *Inventory, c *Class, i int32) uint64 {
		_, devices := p.score(b, c, i)
		return devices
	}, nil
}

func (s *scheduler) plugin(sp ScorePlugin, r *Reserve, draw Intn) (plugin, error) {
	b := &s.inventory
	switch sp.Name {
	case "TaintToleration":
		return taintToleration{}, nil
	case "NodeAffinity":
		return nodeAffinity{}, nil
	case "PodTopologySpread":
		return &podTopologySpread{b: b}, nil
	case "ImageLocality":
		return imageLocality{}, nil
	case "NodeResourcesBalancedAllocation":
		return newScored(b, balanced), nil
	case "NodeResourcesFit":
		fit, err := sp.Strategy.score()
		if err != nil {
			return nil, err
		}
		return newScored(b, fit), nil
	case "Random":
		return randomScores{draw}, nil
	case "ScarcityFGD":
		return &scarcityScores{newReserving(b, r)}, nil
	case "WeightedFGD":
		return stretched{&weighedScores{newWeighing(b, r, DefaultWeights)}}, nil
	case "KubeDefault", "KubeResources":
		return nil, fmt.Errorf("gpu: %s is no plugin but a set of kube-scheduler's: enable those", sp.Name)
	case "Simon":
		return stretched{newScored(b, simon)}, nil
	case "BestFit":
		return stretched{newScored(b, BestFit)}, nil
	}
	p, err := PolicyByName(sp.Name)
	if err != nil {
		return nil, err
	}
	return newScored(b, p.score), nil
}

// scoreNodes implements plugin, with a sum of plugins.
func (w *weighted) scoreNodes(c *Class, nodes []int32, scores []int64) {
	w.nodes = append(w.nodes[:0], nodes...)
	if len(nodes) == 0 {
		return
	}
	w.sum(c)
	copy(scores, w.sums)
}
