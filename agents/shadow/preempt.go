package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// preempt makes room for a pending pod by evicting pods of lower priority, on the node where that costs least, and
// reports whether it did. Evicted pods are pending again, and later run for the rest of their lifetimes.
//
// Source: plugin DefaultPreemption of kube-scheduler.
func (w *world) preempt(p int32) (bool, error) {
	t := w.template(p)
	if t.PreemptionPolicy == "Never" || t.Priority <= w.history.lowest {
		return false, nil
	}
	lower, closed := w.lowerPriority(t.Priority), w.rejectedNodes(w.pods[p].template)
	budgets := w.allowances()
	var best *eviction
	for _, n := range w.order {
		if len(lower[n]) == 0 || closed[n] || w.nodes[n].hidden > 0 {
			continue
		}
		if e := w.victims(p, n, lower[n], budgets); e != nil && (best == nil || e.compare(best) < 0) {
			best = e
		}
	}
	if best == nil {
		return false, nil
	}
	w.meter.violations += best.violations
	for _, v := range best.pods {
		if err := w.evict(v); err != nil {
			return false, err
		}
		if err := w.wait(v); err != nil {
			return false, err
		}
		w.meter.preempted(w.now)
	}
	return true, nil
}

// lowerPriority returns by node the running pods of lower priority, except those that the policy does not place.
func (w *world) lowerPriority(priority int32) map[int32][]int32 {
	all := map[int32][]int32{}
	for _, p := range w.slots {
		if q := &w.pods[p]; q.phase == running && !w.history.pods[p].fixed && w.template(p).Priority < priority {
			all[q.node] = append(all[q.node], p)
		}
	}
	return all
}

// eviction holds the pods to evict from a node and the cost.
type eviction struct {
	pods          []int32
	violations    int           // of disruption budgets
	highest       int32         // priority of a pod
	sum           int64         // of priorities, each shifted to be positive
	earliestStart time.Duration // of the pods of the highest priority
}

// compare orders evictions as kube-scheduler's pickOneNodeForPreemption does.
func (e *eviction) compare(other *eviction) int {
	return cmp.Or(
		cmp.Compare(e.violations, other.violations),
		cmp.Compare(e.highest, other.highest), cmp.Compare(e.sum, other.sum), cmp.Compare(len(e.pods), len(other.pods)),
		cmp.Compare(other.earliestStart, e.earliestStart),
	)
}

// victims returns which of the pods on a node must be evicted so that pod p fits; nil if it does not fit without all of
// them. It first spares pods whose eviction violates a disruption budget, then the others, each by importance.
func (w *world) victims(p, n int32, pods []int32, budgets []allowance) *eviction {
	slices.SortFunc(pods, func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.template(b).Priority, w.template(a).Priority), cmp.Compare(w.pods[a].started, w.pods[b].started), cmp.Compare(a, b))
	})
	evicted, e := slices.Clone(pods), &eviction{}
	if !w.fitsWithout(p, n, evicted) {
		return nil
	}
	violating, others := w.splitViolating(pods, budgets)
	for i, v := range slices.Concat(violating, others) {
		without := slices.DeleteFunc(slices.Clone(evicted), func(u int32) bool { return u == v })
		if w.fitsWithout(p, n, without) {
			evicted = without
		} else if i < len(violating) {
			e.violations++
		}
	}
	if len(evicted) == 0 {
		return nil // p fits without evictions
	}
	e.pods, e.highest, e.earliestStart = evicted, w.template(evicted[0]).Priority, w.pods[evicted[0]].started
	for _, v := range evicted {
		e.sum += int64(w.template(v).Priority) + math.MaxInt32 + 1
	}
	return e
}

// fitsWithout reports whether pod p fits a node that admits its template after the eviction of some pods.
func (w *world) fitsWithout(p, n int32, evicted []int32) bool {
	t, node := w.template(p), w.nodes[n] // a copy, to subtract pods from
	node.other, node.ports = nil, nil
	other := map[string]int64{}
	var ports map[string]int // nil: p needs none
	for name := range t.Other {
		other[name] = w.nodes[n].other[name]
	}
	if len(t.HostPorts) > 0 {
		ports = maps.Clone(w.nodes[n].ports)
	}
	free := slices.Clone(w.state.NodeDevices(node.index))
	for _, v := range evicted {
		of := w.template(v)
		node.used.MilliCPU -= of.MilliCPU
		node.used.MemoryBytes -= of.MemoryBytes
		node.pods--
		for name := range other {
			other[name] -= of.Other[name]
		}
		if ports != nil {
			for _, port := range of.HostPorts {
				ports[port]--
			}
		}
		for d := range free {
			if w.pods[v].devices>>d&1 != 0 {
				free[d].Free += of.MilliGPU
			}
		}
	}
	node.other, node.ports = other, ports
	if !node.holds(t, free) || slices.ContainsFunc(w.pods[p].bound, func(terms []clustertrace.Term) bool { return !clustertrace.MatchesAny(terms, node.info) }) {
		return false
	}
	return !w.excludedWithout(p, n, evicted)
}

// holds reports whether a node has room for a pod: resources, pod slots, host ports and devices.
func (n *node) holds(t *clustertrace.Template, free []cluster.Device) bool {
	if t.MilliCPU > max(0, n.info.MilliCPU-n.used.MilliCPU) || t.MemoryBytes > max(0, n.info.MemoryBytes-n.used.MemoryBytes) ||
		n.info.Pods > 0 && n.pods >= n.info.Pods || n.lacks(t) {
		return false
	}
	devices := int32(0)
	for _, d := range free {
		if d.Free >= t.MilliGPU {
			devices++
		}
	}
	return devices >= t.GPUs
}

// excludedWithout reports whether constraints on other pods exclude a node for pod p after the eviction of some pods.
func (w *world) excludedWithout(p, n int32, evicted []int32) bool {
	if w.podsByNode == nil {
		return false
	}
	count := func(by int) {
		for _, v := range evicted {
			w.countPods(w.pods[v].template, n, by)
		}
	}
	count(-1)
	defer count(1)
	excludes := w.interPodFilter(w.pods[p].template)
	return excludes != nil && excludes(n)
}

// evict removes a running pod from its node and records its remaining lifetime.
func (w *world) evict(p int32) error {
	q := &w.pods[p]
	q.remaining = q.ends
	if q.ends != never {
		q.remaining = max(1, q.ends-w.now)
	}
	return w.displace(p)
}

// mustFit returns an error for a pod that fits no node, though room was made for it.
func (w *world) mustFit(p int32, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("shadow: pod %s fits no node after an eviction", w.history.pods[p].name)
}
