package gpushare

import (
	"fmt"
	"math/rand"
)

// scheduler is the cluster of a [Simulation] and the plugins of its profiles.
type scheduler struct {
	inventory Inventory
	pods      []Request
	nodes     []Node
	cat       *Catalogue
	classes   []*Class // by pod
	placers   []Placer // by profile
}

// newScheduler returns a scheduler that expects future pods like types or, if there are none, like pods.
func newScheduler(nodes []Node, pods []Request, types []Pod, profiles []Profile, seed int64) (*scheduler, error) {
	s := &scheduler{pods: pods, nodes: nodes, cat: &Catalogue{}}
	for i := range nodes {
		if err := s.cat.Models.add(nodes[i].Model); err != nil {
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
	s.inventory.Reset(nodes, s.cat, NewFragmenter(TypicalPods(Kinds(types)), len(types), &s.cat.Models))
	rng := rand.New(rand.NewSource(seed))
	reserve := NewReserve(Kinds(types), &s.cat.Models)
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
	groups := map[string]*Class{}
	for i := range s.pods {
		p := &s.pods[i]
		if err := p.Check(); err != nil {
			return fmt.Errorf("gpu: pod %s: %w", p.Name, err)
		}
		key := fmt.Sprintf("%+v %s", p.Shape, p.Group)
		c, ok := groups[key]
		if !ok {
			c = new(newClass(p.Shape, int32(len(groups)), &s.cat.Models))
			groups[key] = c
			c.ExtraCPU, c.ExtraMemory = p.ExtraMilliCPU, p.ExtraMemoryMiB
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
				c.Allowed = make([]bool, len(p.Refusals))
				for k, why := range p.Refusals {
					c.Allowed[k] = why == ""
				}
			}
		}
		s.classes = append(s.classes, c)
	}
	return nil
}

// bound returns the devices of a pod that is already bound.
func (s *scheduler) bound(i int) (uint64, error) {
	p, c := &s.pods[i], s.classes[i]
	node := int32(p.Node)
	if int(node) >= len(s.nodes) {
		return 0, fmt.Errorf("gpu: pod %s is bound to node %d, want less than %d", p.Name, node, len(s.nodes))
	}
	if why := s.inventory.Refusal(c, node); why != "" { // Refusals do not apply to bound pods
		return 0, fmt.Errorf("gpu: pod %s is bound to node %s, which has %s", p.Name, s.nodes[node].Name, why)
	}
	if p.Devices == nil {
		return s.inventory.Tightest(c, node), nil
	}
	var devices uint64
	free := s.inventory.DevicesOf(node)
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

// reasons counts the nodes by the reason that they reject pod i.
func (s *scheduler) reasons(i int) map[string]int {
	counts := map[string]int{}
	for k := range s.nodes {
		why := ""
		if p := &s.pods[i]; p.Refusals != nil {
			why = p.Refusals[k]
		}
		if why == "" {
			why = s.inventory.Refusal(s.classes[i], int32(k))
		}
		counts[why]++
	}
	return counts
}
