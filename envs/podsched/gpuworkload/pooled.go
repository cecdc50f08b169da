package gpuworkload

import (
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// A pool has the resources of all nodes of a GPU model.
type pool struct {
	set                uint64 // bit of the model
	cpu, memory, total int64  // free; total thousandths
	devices            []int32
}

// A pooledPod runs on devices of a pool.
type pooledPod struct {
	until   time.Duration
	class   *gpushare.Class
	pool    *pool
	devices []int
}

// forever is the end of a pod that has none, as in recordings that lack it.
const forever = time.Duration(math.MaxInt64)

// PooledWait returns the mean waiting time, in seconds, of timed arrivals in a cluster of which only the capacity counts,
// without what placements could save: the nodes of each GPU model are one node, and pods that are not bound to models take
// nothing and never wait. As in the environment, pods wait in the order of arrival, and a pod that fits starts. A pod takes
// the devices of best fit from the permitted model with the most free devices. Pods that no end of another one can help are
// given up. The first arrivals, as many as placed, run when the episode begins: they take their part, and do not count.
//
// It is no strict bound: in another order pods may wait less, and placements decide which pod fits first.
func PooledWait(inventory *gpushare.Inventory, cat *gpushare.Catalogue, arrivals []Arrival, placed int) float64 {
	counts := func(pod int32) bool { return int(pod) >= placed }
	pools, every := newPools(inventory)
	var queue []int32
	var running []pooledPod
	var waited time.Duration
	pods := 0
	for next := 0; next < len(arrivals) || len(queue) > 0; {
		at := forever
		if next < len(arrivals) {
			at = arrivals[next].At
		}
		for i := range running {
			at = min(at, running[i].until)
		}
		if at == forever {
			queue = slices.DeleteFunc(queue, func(pod int32) bool { return !counts(pod) })
			pods -= len(queue)
			break
		}
		running = slices.DeleteFunc(running, func(p pooledPod) bool {
			if p.until > at {
				return false
			}
			p.pool.take(p.class, p.devices, -1)
			return true
		})
		for ; next < len(arrivals) && arrivals[next].At <= at; next++ {
			c := &cat.Classes[arrivals[next].Class]
			if !inventory.CouldFitSome(c) {
				continue // it fails in the environment, too
			}
			if counts(int32(next)) {
				pods++
			}
			if c.GPUs > 0 && c.ModelSet&every != every {
				queue = append(queue, int32(next))
			}
		}
		queue = slices.DeleteFunc(queue, func(pod int32) bool {
			a := &arrivals[pod]
			c := &cat.Classes[a.Class]
			p, devices := best(pools, c)
			if p == nil {
				return false
			}
			p.take(c, devices, 1)
			until := forever
			if a.Duration > 0 {
				until = at + a.Duration
			}
			running = append(running, pooledPod{until, c, p, devices})
			if counts(pod) {
				waited += at - a.At
			}
			return true
		})
	}
	return waited.Seconds() / float64(max(pods, 1))
}

// newPools returns the empty pools, and the bits of their models.
func newPools(inventory *gpushare.Inventory) (pools []*pool, every uint64) {
	of := map[int8]*pool{}
	for i := range inventory.Nodes {
		n := &inventory.Nodes[i]
		if n.Model < 0 {
			continue
		}
		p := of[n.Model]
		if p == nil {
			p = &pool{set: 1 << n.Model}
			of[n.Model] = p
			pools, every = append(pools, p), every|p.set
		}
		p.cpu, p.memory = p.cpu+n.AllCPU, p.memory+n.AllMemory
		for range n.Devices {
			p.devices, p.total = append(p.devices, gpushare.WholeGPU), p.total+gpushare.WholeGPU
		}
	}
	return pools, every
}

// best returns the pool with the most free thousandths on which a pod of class c fits, and the devices of best fit.
func best(pools []*pool, c *gpushare.Class) (found *pool, devices []int) {
	for _, p := range pools {
		if c.ModelSet&p.set == 0 || found != nil && p.total <= found.total {
			continue
		}
		if d := p.fit(c); d != nil {
			found, devices = p, d
		}
	}
	return found, devices
}

// fit returns the devices with the least free that a pod of class c fits on; nil if it does not fit.
func (p *pool) fit(c *gpushare.Class) []int {
	if c.MilliCPU > p.cpu || c.MemoryMiB > p.memory {
		return nil
	}
	var devices []int
	for range c.GPUs {
		at := -1
		for i, free := range p.devices {
			if free >= c.MilliGPU && (at < 0 || free < p.devices[at]) && !slices.Contains(devices, i) {
				at = i
			}
		}
		if at < 0 {
			return nil
		}
		devices = append(devices, at)
	}
	return devices
}

// take takes what a pod of class c needs if sign is 1, and gives it back if sign is -1.
func (p *pool) take(c *gpushare.Class, devices []int, sign int64) {
	p.cpu, p.memory, p.total = p.cpu-sign*c.MilliCPU, p.memory-sign*c.MemoryMiB, p.total-sign*c.TotalMilliGPU()
	for _, i := range devices {
		p.devices[i] -= int32(sign) * c.MilliGPU
	}
}
