package node

import "github.com/kubernasium/kubernasium/envs/cluster"

// QoS is a pod's quality-of-service class.
type QoS uint8

// The classes, in the order in which pods lose their memory.
const (
	BestEffort QoS = iota // no requests and no limits
	Burstable
	Guaranteed // limits of CPU and memory that equal the requests
)

// String returns the class's name in Kubernetes.
func (q QoS) String() string { return [...]string{"BestEffort", "Burstable", "Guaranteed"}[q] }

// Class returns the class of a pod with these requests and limits; a limit of 0 is none.
func Class(requests, limits cluster.Resources) QoS {
	none := cluster.Resources{}
	switch {
	case requests == none && limits == none:
		return BestEffort
	case requests == limits && requests.MilliCPU > 0 && requests.MemoryBytes > 0:
		return Guaranteed
	}
	return Burstable
}

// Pod is one pod's demand on its node in a step.
type Pod struct {
	Class    QoS
	Requests cluster.Resources
	CPU      float64 // millicores wanted, within the pod's own limit
	Memory   float64 // bytes in use
}

// Constants of kubelet.
const (
	guaranteedAdj = -997
	bestEffortAdj = 1000
	minShares     = 2    // weight of a pod or group without a request
	sharesPerCore = 1024 // weight of a core
)

// Default settings of kubelet's eviction.
const (
	EvictionThreshold = 100 << 20 // free bytes below which kubelet evicts: memory.available<100Mi
	EvictionsInMinute = 6         // one in each interval of 10 s
)

// OOMScoreAdj returns the oom_score_adj that kubelet gives to p's containers on a node with capacity bytes of memory.
func OOMScoreAdj(p *Pod, capacity int64) int64 {
	switch p.Class {
	case Guaranteed:
		return guaranteedAdj
	case BestEffort:
		return bestEffortAdj
	}
	adj := 1000 - 1000*p.Requests.MemoryBytes/max(capacity, 1)
	return min(max(adj, 1000+guaranteedAdj), bestEffortAdj-1)
}

// OOMVictim returns the index of the pod that the kernel kills when a node with capacity bytes is out of memory: the
// one with the largest score. Pods without memory in use are no victims; -1 means that there is none.
func OOMVictim(pods []Pod, capacity int64) int {
	victim, most := -1, 0.0
	for i := range pods {
		p := &pods[i]
		if p.Memory <= 0 {
			continue
		}
		score := p.Memory + float64(OOMScoreAdj(p, capacity))*(float64(capacity)/1000)
		if victim < 0 || score > most {
			victim, most = i, score
		}
	}
	return victim
}

// EvictionVictim returns the index of the pod that kubelet evicts first under memory pressure, or -1 if no
// pod has memory in use.
func EvictionVictim(pods []Pod) int {
	victim, most := -1, 0.0
	for i := range pods {
		p := &pods[i]
		// Pods above their requests come first: their differences are positive.
		over := p.Memory - float64(p.Requests.MemoryBytes)
		if p.Memory > 0 && (victim < 0 || over > most) {
			victim, most = i, over
		}
	}
	return victim
}
