package vpa

import (
	"context"
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/node"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// neighbour is a pod of another controller on the node. Its requests and limits stay.
type neighbour struct {
	demand           []cluster.Resources // history, then a sample for each step
	requests, limits cluster.Resources
	mean             float64 // demand over the history in cores, with memory at its price
}

// fault is a defect of a container, from one step to another or until the container restarts.
type fault struct {
	pod      int
	from, to int     // steps
	spin     float64 // millicores that it burns
	leak     float64 // bytes more in each step
}

// Probabilities of the neighbours' quality-of-service classes; the rest is Burstable without limits.
const (
	neighbourGuaranteed = 0.25
	neighbourBestEffort = 0.1
	neighbourLimited    = 0.35 // Burstable with limits
)

// Amounts of the neighbours and of the node.
const (
	guaranteedRoom = 1.2 // request and limit of a Guaranteed neighbour, over its peak
	burstableLow   = 0.5 // request of a Burstable neighbour, over its mean: least
	burstableLimit = 1.5 // its limit, over its peak
	leastRequest   = 0.2 // by which requests of Burstable neighbours are scaled, to leave room
	ownRoom        = 1.5 // room that is left for the controller's pods, over their peak
	roomCPU        = 50  // … and so many millicores more
	roomMemory     = 300 * mib
	memoryMargin   = 1.02 // of the node's memory over the quantile of the demand for it
)

// drawNode draws the neighbours, the node's size and the faults of an episode.
func (g *generator) drawNode(ctx context.Context, in *instance) {
	o := g.src.shared
	own, n := in.shareSum(), len(in.demand)
	history := in.past()
	mean, peak := metrics.Mean(history), workload.Max(history)
	for len(in.neighbours) < o.Neighbours {
		in.neighbours = append(in.neighbours, neighbour{})
	}
	in.neighbours = in.neighbours[:o.Neighbours]
	for k := range in.neighbours {
		nb := &in.neighbours[k]
		c := workload.Draw(g.src.types[g.rng.IntN(len(g.src.types))], n, o.Interval, g.rng)
		if c.Law != (workload.Law{}) {
			c.Law.Start = in.startOfDay // all live in the same day
		}
		nb.demand = c.Append(ctx, nb.demand[:0], g.rng)
		if ctx.Err() != nil {
			return
		}
		g.size(nb, in.history, mean)
		g.classify(nb, in.history)
	}
	totals := make([]cluster.Resources, in.history)
	for i := range totals {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return
		}
		totals[i] = metrics.Scale(history[i], own)
		for k := range in.neighbours {
			totals[i].MilliCPU += in.neighbours[k].demand[i].MilliCPU
			totals[i].MemoryBytes += in.neighbours[k].demand[i].MemoryBytes
		}
	}
	var scratch []float64
	in.node = cluster.Resources{
		MilliCPU:    int64(math.Ceil(metrics.CPUQuantile(ctx, totals, 1-o.BusyCPU*g.rng.Float64(), &scratch))),
		MemoryBytes: int64(memoryMargin*metrics.MemoryQuantile(ctx, totals, 1-o.BusyMemory*g.rng.Float64(), &scratch)) + node.EvictionThreshold,
	}
	in.fit(cluster.Resources{
		MilliCPU:    int64(ownRoom*own*float64(peak.MilliCPU)) + roomCPU,
		MemoryBytes: int64(ownRoom*own*float64(peak.MemoryBytes)) + roomMemory + node.EvictionThreshold,
	})
	if o.NodeCPU > 0 {
		in.node.MilliCPU = int64(o.NodeCPU)
	}
	if o.NodeMemory > 0 {
		in.node.MemoryBytes = int64(o.NodeMemory * mib)
	}
	g.drawFaults(in, mean)
}

// shareSum returns the pods' demand over the workload's.
func (in *instance) shareSum() float64 {
	sum := 0.0
	for _, s := range in.shares {
		sum += s
	}
	return sum
}

// size scales a neighbour's demand, so that its mean over the history is that of the controller's pods
// times a factor.
func (g *generator) size(nb *neighbour, history int, own [2]float64) {
	o := g.src.shared
	want := o.SizeLow * math.Pow(o.SizeHigh/o.SizeLow, g.rng.Float64())
	mean := metrics.Mean(nb.demand[:history])
	cpu, mem := want*own[0]/max(mean[0], 1), want*own[1]/max(mean[1], 1)
	for i := range nb.demand {
		u := &nb.demand[i]
		u.MilliCPU, u.MemoryBytes = int64(cpu*float64(u.MilliCPU)), int64(mem*float64(u.MemoryBytes))
	}
	nb.mean = want * (own[0]/1000 + own[1]/gib*memoryPrice)
}

// classify draws a neighbour's requests and limits, and with them its quality-of-service class.
func (g *generator) classify(nb *neighbour, history int) {
	past := nb.demand[:history]
	peak, mean := workload.Max(past), metrics.Mean(past)
	u, low := g.rng.Float64(), [2]float64{g.rng.Float64(), g.rng.Float64()}
	nb.requests, nb.limits = cluster.Resources{}, cluster.Resources{}
	switch {
	case u < neighbourGuaranteed:
		nb.requests = atLeastOne(metrics.Scale(peak, guaranteedRoom))
		nb.limits = nb.requests
	case u < neighbourGuaranteed+neighbourBestEffort:
	default:
		nb.requests = atLeastOne(cluster.Resources{
			MilliCPU:    int64((burstableLow + (1-burstableLow)*low[0]) * mean[0]),
			MemoryBytes: int64((burstableLow + (1-burstableLow)*low[1]) * mean[1]),
		})
		if u < neighbourGuaranteed+neighbourBestEffort+neighbourLimited {
			nb.limits = atLeastOne(metrics.Scale(peak, burstableLimit))
		}
	}
}

func atLeastOne(r cluster.Resources) cluster.Resources {
	return cluster.Resources{MilliCPU: max(r.MilliCPU, 1), MemoryBytes: max(r.MemoryBytes, mib)}
}

// fit leaves room for the controller's pods: it scales down the requests of Burstable neighbours, and
// enlarges the node if that is not enough.
func (in *instance) fit(room cluster.Resources) {
	var fixed, burstable cluster.Resources
	for k := range in.neighbours {
		nb := &in.neighbours[k]
		to := &burstable
		if nb.requests == nb.limits {
			to = &fixed
		}
		to.MilliCPU += nb.requests.MilliCPU
		to.MemoryBytes += nb.requests.MemoryBytes
	}
	scale := func(node, room, fixed, burstable int64) (factor float64, size int64) {
		factor = min(max(float64(node-room-fixed)/float64(max(burstable, 1)), leastRequest), 1)
		return factor, max(node, room+fixed+int64(factor*float64(burstable))+1)
	}
	var cpu, mem float64
	cpu, in.node.MilliCPU = scale(in.node.MilliCPU, room.MilliCPU, fixed.MilliCPU, burstable.MilliCPU)
	mem, in.node.MemoryBytes = scale(in.node.MemoryBytes, room.MemoryBytes, fixed.MemoryBytes, burstable.MemoryBytes)
	for k := range in.neighbours {
		if nb := &in.neighbours[k]; nb.requests != nb.limits {
			nb.requests.MilliCPU = int64(cpu * float64(nb.requests.MilliCPU))
			nb.requests.MemoryBytes = int64(mem * float64(nb.requests.MemoryBytes))
		}
	}
}

// drawFaults draws the faults of an episode: half spin with one to four times the mean CPU of a pod,
// and half leak 0.5 to 3 times its mean memory in an hour. They last two hours on average.
func (g *generator) drawFaults(in *instance, mean [2]float64) {
	in.faults = in.faults[:0]
	perStep := g.src.shared.Faults * g.src.interval.Hours() / 24
	if perStep == 0 {
		return
	}
	for at := g.rng.ExpFloat64() / perStep; at < float64(g.src.opts.Steps); at += g.rng.ExpFloat64() / perStep {
		f := fault{pod: g.rng.IntN(len(in.shares)), from: int(at)}
		f.to = f.from + 1 + int(2*g.rng.ExpFloat64()/g.src.interval.Hours())
		share := in.shares[f.pod]
		if g.rng.IntN(2) == 0 {
			f.spin = share * mean[0] * (1 + 3*g.rng.Float64())
		} else {
			f.leak = share * mean[1] * (0.5 + 2.5*g.rng.Float64()) * g.src.interval.Hours()
		}
		in.faults = append(in.faults, f)
	}
}
