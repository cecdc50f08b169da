package gpu

import (
	"fmt"
	"math/rand"
	"strings"

	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// Request is a pod for [Simulate].
type Request struct {
	Name string
	Shape

	// Group is a key that pods share if all that follows is equal for them, and their shapes.
	Group string

	Refusals []string // by node: why it is closed to the pod, whatever is free there, or ""; nil refuses none
	Profile  int      // of those given to Simulate
	Node     int      // that it is bound to already, or -1
	Devices  []int    // of that node that it has; nil takes those of best fit

	// Requests beyond those of Shape that NodeResourcesFit counts where containers state none.
	ExtraMilliCPU, ExtraMemoryMiB int64

	Taints   []int64 // by node: taints PreferNoSchedule that it does not tolerate; nil is none
	Affinity []int64 // by node: sum of the weights of the preferred terms that the node matches; nil is none
	Images   []int64 // by node: score of ImageLocality; nil is none
	Counted  []int32 // counters of topology spread, from 0, that it counts in
	Spread   []Spread
}

// Spread is a topology spread constraint ScheduleAnyway.
type Spread struct {
	Counter int32   // of the pods that it spreads
	Domain  []int32 // by node, from 0; -1 where the node lacks the key; nil: each node is a domain
	MaxSkew int
	System  bool // a default of the scheduler, to which a node that lacks the key is no worse
}

// Profile says by which plugins nodes are scored.
type Profile struct {
	Plugins []ScorePlugin
	Devices string // the policy that chooses devices: one of PolicyNames, or WorstFit
}

// WorstFit chooses, for a pod that shares a device, that with the most free.
const WorstFit = "WorstFit"

// ScorePlugin is a plugin with its weight: a policy of PolicyNames, one of kube-scheduler's in
// [KubePlugins], or Simon, the score of Alibaba's open-simulator.
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

// scheduler is the cluster of a [Simulation] and the plugins of its profiles.
type scheduler struct {
	board   board
	pods    []Request
	nodes   []Node
	cat     *catalogue
	classes []*class // by pod
	placers []placer // by profile
}

// newScheduler takes what is to come to be like types, or like pods if there are none.
func newScheduler(nodes []Node, pods []Request, types []Pod, profiles []Profile, seed int64) (*scheduler, error) {
	s := &scheduler{pods: pods, nodes: nodes, cat: &catalogue{}}
	for i := range nodes {
		if err := s.cat.models.add(nodes[i].Model); err != nil {
			return nil, err
		}
	}
	if err := s.classify(); err != nil {
		return nil, err
	}
	if types == nil {
		types = make([]Pod, len(pods))
		for i := range pods {
			types[i].Shape = pods[i].Shape
		}
	}
	s.board.reset(nodes, s.cat, newFragmenter(TypicalPods(types), len(types), &s.cat.models))
	rng := rand.New(rand.NewSource(seed))
	reserve := newReserve(types, &s.cat.models)
	for _, p := range profiles {
		placer, err := s.placer(p, reserve, rng.Intn)
		if err != nil {
			return nil, err
		}
		s.placers = append(s.placers, placer)
	}
	return s, nil
}

// classify gives each pod its class: one for each group.
func (s *scheduler) classify() error {
	groups := map[string]*class{}
	for i := range s.pods {
		p := &s.pods[i]
		if err := p.check(); err != nil {
			return fmt.Errorf("gpu: pod %s: %w", p.Name, err)
		}
		key := fmt.Sprintf("%+v %s", p.Shape, p.Group)
		c, ok := groups[key]
		if !ok {
			n := newClass(p.Shape, int32(len(groups)), &s.cat.models)
			c = &n
			groups[key] = c
			c.extraCPU, c.extraMem = p.ExtraMilliCPU, p.ExtraMemoryMiB
			c.prefers = &preferences{taints: p.Taints, affinity: p.Affinity, images: p.Images}
			for _, sp := range p.Spread {
				domains := 0
				for _, d := range sp.Domain {
					domains = max(domains, int(d)+1)
				}
				c.prefers.spread = append(c.prefers.spread, spreadConstraint{sp.Counter, sp.Domain, domains, sp.MaxSkew, sp.System})
				s.cat.counters = max(s.cat.counters, int(sp.Counter)+1)
			}
			c.counted = p.Counted
			for _, k := range p.Counted {
				s.cat.counters = max(s.cat.counters, int(k)+1)
			}
			if p.Refusals != nil {
				c.allowed = make([]bool, len(p.Refusals))
				for k, why := range p.Refusals {
					c.allowed[k] = why == ""
				}
			}
		}
		s.classes = append(s.classes, c)
	}
	return nil
}

// placer makes the plugins of a profile.
func (s *scheduler) placer(p Profile, r *reserve, draw intner) (placer, error) {
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
	return newWeighted(&s.board, plugins, device), nil
}

// deviceChoice returns how the policy of that name chooses devices.
func deviceChoice(name string, draw intner) (func(b *board, c *class, i int32) uint64, error) {
	if name == WorstFit {
		return (*board).loosest, nil
	}
	p, err := policyByName(name)
	if err != nil {
		return nil, err
	}
	if name == "Random" {
		return func(b *board, c *class, i int32) uint64 { return randomDevice(b, c, i, draw) }, nil
	}
	return func(b *board, c *class, i int32) uint64 {
		_, devices := p.score(b, c, i)
		return devices
	}, nil
}

func (s *scheduler) plugin(sp ScorePlugin, r *reserve, draw intner) (plugin, error) {
	b := &s.board
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
		return stretched{&weighedScores{newWeighing(b, r)}}, nil
	case "KubeDefault", "KubeResources":
		return nil, fmt.Errorf("gpu: %s is no plugin but a set of kube-scheduler's: enable those", sp.Name)
	case "Simon":
		return stretched{newScored(b, simon)}, nil
	case "BestFit":
		return stretched{newScored(b, bestFit)}, nil
	}
	p, err := policyByName(sp.Name)
	if err != nil {
		return nil, err
	}
	return newScored(b, p.score), nil
}

// bound returns the devices of a pod that is bound already.
func (s *scheduler) bound(i int) (uint64, error) {
	p, c := &s.pods[i], s.classes[i]
	node := int32(p.Node)
	if int(node) >= len(s.nodes) {
		return 0, fmt.Errorf("gpu: pod %s is bound to node %d, want less than %d", p.Name, node, len(s.nodes))
	}
	if why := s.board.refusal(c, node); why != "" { // what closes a node does not evict
		return 0, fmt.Errorf("gpu: pod %s is bound to node %s, which has %s", p.Name, s.nodes[node].Name, why)
	}
	if p.Devices == nil {
		return s.board.tightest(c, node), nil
	}
	var devices uint64
	free := s.board.devicesOf(node)
	for _, d := range p.Devices {
		if d < 0 || d >= len(free) || devices>>d&1 != 0 || free[d] < c.MilliGPU {
			return 0, fmt.Errorf("gpu: pod %s has device %d of node %s, which is not there or not free", p.Name, d, s.nodes[node].Name)
		}
		devices |= 1 << d
	}
	if len(p.Devices) != int(c.GPUs) {
		return 0, fmt.Errorf("gpu: pod %s has %d devices of node %s and requests %d", p.Name, len(p.Devices), s.nodes[node].Name, c.GPUs)
	}
	return devices, nil
}

// reasons counts what speaks against each node.
func (s *scheduler) reasons(i int) map[string]int {
	counts := map[string]int{}
	for k := range s.nodes {
		why := ""
		if p := &s.pods[i]; p.Refusals != nil {
			why = p.Refusals[k]
		}
		if why == "" {
			why = s.board.refusal(s.classes[i], int32(k))
		}
		counts[why]++
	}
	return counts
}

// refusal says why a pod of class c does not fit node i, or "".
func (b *board) refusal(c *class, i int32) string {
	n := &b.nodes[i]
	var lacks []string
	if c.MilliCPU > n.cpu {
		lacks = append(lacks, "cpu")
	}
	if c.MemoryMiB > n.mem {
		lacks = append(lacks, "memory")
	}
	if n.pods >= n.maxPods {
		lacks = append(lacks, "pods")
	}
	if c.GPUs > 0 {
		switch {
		case n.model < 0 || n.devices == 0:
			return "no GPU"
		case c.models>>n.model&1 == 0:
			return "another GPU model"
		case c.GPUs > n.devices || b.sorted[n.first+c.GPUs-1] < c.MilliGPU:
			lacks = append(lacks, "gpu")
		}
	}
	if lacks == nil {
		return ""
	}
	return "insufficient " + strings.Join(lacks, ", ")
}

// deviceList lists the bits set.
func deviceList(devices uint64) []int {
	var list []int
	for d := devices; d != 0; d &= d - 1 {
		list = append(list, lowest(d))
	}
	return list
}
