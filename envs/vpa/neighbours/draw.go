package neighbours

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/node"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// checkEvery is the number of samples between checks of the context.
const checkEvery = 1 << 12

const mib = 1 << 20

// Law holds the parameters of random nodes.
type Law struct {
	Number              int      // of neighbours
	SizeLow, SizeHigh   float64  // mean usage of a neighbour over that of the controller's pods
	BusyCPU, BusyMemory float64  // largest fraction of the history in which demand exceeds the node
	NodeCPU, NodeMemory float64  // millicores and MiB of the node; 0 derives them from BusyCPU and BusyMemory
	FaultsPerDay        float64  // mean number
	Types               []string // of the neighbours' workloads
	Interval            float64  // seconds of a step
}

// Own describes the controller's pods.
type Own struct {
	Past       []cluster.Resources // their workload's demand before the episode
	Steps      int                 // of the episode
	StartOfDay float64             // seconds since Monday 00:00 at the first sample of Past
	Shares     []float64           // of the demand, for each pod
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
	ownRoom        = 1.5 // free room for the controller's pods, over their peak
	roomCPU        = 50  // … and millicores in addition
	roomMemory     = 300 * mib
	memoryMargin   = 1.02 // of the node's memory over the quantile of the demand for it
)

// Draw draws a node, its neighbours and faults into n, and reuses its memory. When ctx ends, it returns early.
func (l *Law) Draw(ctx context.Context, n *Node, own *Own, rng *rand.Rand) {
	n.History = len(own.Past)
	shares := sum(own.Shares)
	mean, peak := metrics.Mean(own.Past), workload.Max(own.Past)
	for len(n.Neighbours) < l.Number {
		n.Neighbours = append(n.Neighbours, Neighbour{})
	}
	n.Neighbours = n.Neighbours[:l.Number]
	for k := range n.Neighbours {
		nb := &n.Neighbours[k]
		c := workload.Draw(l.Types[rng.IntN(len(l.Types))], n.History+own.Steps, l.Interval, rng)
		if c.Law != (workload.Law{}) {
			c.Law.Start = own.StartOfDay // all have the same time of day
		}
		nb.Demand = c.Append(ctx, nb.Demand[:0], rng)
		if ctx.Err() != nil {
			return
		}
		l.size(nb, n.History, mean, rng)
		nb.classify(n.History, rng)
	}
	totals := make([]cluster.Resources, n.History)
	for i := range totals {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return
		}
		totals[i] = metrics.Scale(own.Past[i], shares)
		for k := range n.Neighbours {
			totals[i].MilliCPU += n.Neighbours[k].Demand[i].MilliCPU
			totals[i].MemoryBytes += n.Neighbours[k].Demand[i].MemoryBytes
		}
	}
	var scratch []float64
	n.Capacity = cluster.Resources{
		MilliCPU:    int64(math.Ceil(metrics.CPUQuantile(ctx, totals, 1-l.BusyCPU*rng.Float64(), &scratch))),
		MemoryBytes: int64(memoryMargin*metrics.MemoryQuantile(ctx, totals, 1-l.BusyMemory*rng.Float64(), &scratch)) + node.EvictionThreshold,
	}
	n.fit(cluster.Resources{
		MilliCPU:    int64(ownRoom*shares*float64(peak.MilliCPU)) + roomCPU,
		MemoryBytes: int64(ownRoom*shares*float64(peak.MemoryBytes)) + roomMemory + node.EvictionThreshold,
	})
	if l.NodeCPU > 0 {
		n.Capacity.MilliCPU = int64(l.NodeCPU)
	}
	if l.NodeMemory > 0 {
		n.Capacity.MemoryBytes = int64(l.NodeMemory * mib)
	}
	l.drawFaults(n, own, mean, rng)
}

func sum(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum
}

// size scales a neighbour's demand such that its mean over the history is that of the controller's pods times a factor.
func (l *Law) size(nb *Neighbour, history int, own [2]float64, rng *rand.Rand) {
	want := l.SizeLow * math.Pow(l.SizeHigh/l.SizeLow, rng.Float64())
	mean := metrics.Mean(nb.Demand[:history])
	cpu, mem := want*own[0]/max(mean[0], 1), want*own[1]/max(mean[1], 1)
	for i := range nb.Demand {
		u := &nb.Demand[i]
		u.MilliCPU, u.MemoryBytes = int64(cpu*float64(u.MilliCPU)), int64(mem*float64(u.MemoryBytes))
	}
	nb.Mean = want * prices.Cores(own[0], own[1])
}

// classify draws the neighbour's requests and limits, and with them its quality-of-service class.
func (nb *Neighbour) classify(history int, rng *rand.Rand) {
	past := nb.Demand[:history]
	peak, mean := workload.Max(past), metrics.Mean(past)
	u, low := rng.Float64(), [2]float64{rng.Float64(), rng.Float64()}
	nb.Requests, nb.Limits = cluster.Resources{}, cluster.Resources{}
	switch {
	case u < neighbourGuaranteed:
		nb.Requests = atLeastOne(metrics.Scale(peak, guaranteedRoom))
		nb.Limits = nb.Requests
	case u < neighbourGuaranteed+neighbourBestEffort:
	default:
		nb.Requests = atLeastOne(cluster.Resources{
			MilliCPU:    int64((burstableLow + (1-burstableLow)*low[0]) * mean[0]),
			MemoryBytes: int64((burstableLow + (1-burstableLow)*low[1]) * mean[1]),
		})
		if u < neighbourGuaranteed+neighbourBestEffort+neighbourLimited {
			nb.Limits = atLeastOne(metrics.Scale(peak, burstableLimit))
		}
	}
}

func atLeastOne(r cluster.Resources) cluster.Resources {
	return cluster.Resources{MilliCPU: max(r.MilliCPU, 1), MemoryBytes: max(r.MemoryBytes, mib)}
}

// fit leaves room for the controller's pods: it scales down the requests of Burstable neighbours, and
// enlarges the node if that is not enough.
func (n *Node) fit(room cluster.Resources) {
	var fixed, burstable cluster.Resources
	for k := range n.Neighbours {
		nb := &n.Neighbours[k]
		to := &burstable
		if nb.Requests == nb.Limits {
			to = &fixed
		}
		to.MilliCPU += nb.Requests.MilliCPU
		to.MemoryBytes += nb.Requests.MemoryBytes
	}
	scale := func(node, room, fixed, burstable int64) (factor float64, size int64) {
		factor = min(max(float64(node-room-fixed)/float64(max(burstable, 1)), leastRequest), 1)
		return factor, max(node, room+fixed+int64(factor*float64(burstable))+1)
	}
	var cpu, mem float64
	cpu, n.Capacity.MilliCPU = scale(n.Capacity.MilliCPU, room.MilliCPU, fixed.MilliCPU, burstable.MilliCPU)
	mem, n.Capacity.MemoryBytes = scale(n.Capacity.MemoryBytes, room.MemoryBytes, fixed.MemoryBytes, burstable.MemoryBytes)
	for k := range n.Neighbours {
		if nb := &n.Neighbours[k]; nb.Requests != nb.Limits {
			nb.Requests.MilliCPU = int64(cpu * float64(nb.Requests.MilliCPU))
			nb.Requests.MemoryBytes = int64(mem * float64(nb.Requests.MemoryBytes))
		}
	}
}

// drawFaults draws the faults of an episode: half spin with one to four times the mean CPU of a pod,
// and half leak 0.5 to 3 times its mean memory in an hour. They last two hours on average.
func (l *Law) drawFaults(n *Node, own *Own, mean [2]float64, rng *rand.Rand) {
	n.Faults = n.Faults[:0]
	hours := time.Duration(math.Round(l.Interval * float64(time.Second))).Hours()
	perStep := l.FaultsPerDay * hours / 24
	if perStep == 0 {
		return
	}
	for at := rng.ExpFloat64() / perStep; at < float64(own.Steps); at += rng.ExpFloat64() / perStep {
		f := Fault{Pod: rng.IntN(len(own.Shares)), From: int(at)}
		f.To = f.From + 1 + int(2*rng.ExpFloat64()/hours)
		share := own.Shares[f.Pod]
		if rng.IntN(2) == 0 {
			f.Spin = share * mean[0] * (1 + 3*rng.Float64())
		} else {
			f.Leak = share * mean[1] * (0.5 + 2.5*rng.Float64()) * hours
		}
		n.Faults = append(n.Faults, f)
	}
}
