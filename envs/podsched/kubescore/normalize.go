package kubescore

import "math"

// Normalize scales raw scores of the feasible nodes in place so that the highest becomes [MaxNodeScore]: 100*score/max.
// With reverse, the result is subtracted from 100. If all are 0, they stay 0 or, with reverse, become 100.
//
// NodeAffinity is Normalize of each node's sum of weights of the preferred terms that it matches; TaintToleration is
// Normalize, reversed, of each node's number of PreferNoSchedule taints that the pod does not tolerate.
func Normalize(scores []int64, reverse bool) {
	var highest int64
	for _, s := range scores {
		highest = max(highest, s)
	}
	for i, s := range scores {
		if highest > 0 {
			s = MaxNodeScore * s / highest
		}
		if reverse {
			s = MaxNodeScore - s
		}
		scores[i] = s
	}
}

// Maximal skews of the constraints that PodTopologySpread applies by default, to pods of a
// Service, ReplicaSet or StatefulSet that state none.
const (
	DefaultHostnameMaxSkew = 3
	DefaultZoneMaxSkew     = 5
)

// SpreadWeight returns the weight of a constraint of PodTopologySpread with the given number of domains among the
// feasible nodes.
func SpreadWeight(domains int) float64 { return math.Log(float64(domains + 2)) }

// SpreadTerm returns what one ScheduleAnyway constraint of PodTopologySpread adds to a node's raw score: count is the
// number of matching pods in the node's domain, and weight the constraint's [SpreadWeight]. A node's raw score is the
// sum over the constraints, rounded by math.Round.
func SpreadTerm(count int64, weight float64, maxSkew int) float64 {
	return float64(count)*weight + float64(maxSkew-1)
}

// Spread appends to scores those of PodTopologySpread for the feasible nodes, by one constraint. count holds the
// matching pods in each domain, and domainOf the domain of each node; nil means that each node is a domain.
func Spread(scores []int64, nodes []int, count, domainOf []int32, maxSkew int) []int64 {
	domains := len(nodes)
	if domainOf != nil {
		seen := make([]bool, len(count))
		domains = 0
		for _, i := range nodes {
			if d := domainOf[i]; !seen[d] {
				seen[d] = true
				domains++
			}
		}
	}
	from, weight := len(scores), SpreadWeight(domains)
	last, score := int32(-1), int64(0) // most nodes have as many matching pods as the previous one
	for _, i := range nodes {
		d := int32(i)
		if domainOf != nil {
			d = domainOf[i]
		}
		if c := count[d]; c != last {
			last, score = c, int64(math.Round(SpreadTerm(int64(c), weight, maxSkew)))
		}
		scores = append(scores, score)
	}
	NormalizeSpread(scores[from:])
	return scores
}

// SpreadIgnored marks, in the raw scores for [NormalizeSpread], a node without one of the keys.
const SpreadIgnored = -1

// NormalizeSpread converts the raw scores of PodTopologySpread in place to scores: 100*(max+min-raw)/max, 100 if max is
// 0, and 0 for a node that is [SpreadIgnored].
func NormalizeSpread(scores []int64) {
	lo, hi := int64(math.MaxInt64), int64(0)
	for _, s := range scores {
		if s != SpreadIgnored {
			lo, hi = min(lo, s), max(hi, s)
		}
	}
	for i, s := range scores {
		switch {
		case s == SpreadIgnored:
			scores[i] = 0
		case hi == 0:
			scores[i] = MaxNodeScore
		default:
			scores[i] = quotient(MaxNodeScore*(hi+lo-s), hi)
		}
	}
}

// Image is a container image that the pod needs and the node has.
type Image struct {
	SizeBytes int64
	NumNodes  int // number of nodes that have the image
}

const (
	imageMinBytes          = 23 << 20
	imageMaxContainerBytes = 1000 << 20
)

// ImageLocality is the plugin of that name: the sizes of the images that the node already has, each times the part of
// the cluster's nodes that have it, clamped to 23 MiB and 1000 MiB for each of the pod's containers, linear from 0 to
// 100.
func ImageLocality(images []Image, totalNodes, containers int) int64 {
	var sum int64
	for _, im := range images {
		sum += int64(float64(im.SizeBytes) * (float64(im.NumNodes) / float64(totalNodes)))
	}
	highest := int64(imageMaxContainerBytes) * int64(containers)
	sum = min(max(sum, imageMinBytes), highest)
	return MaxNodeScore * (sum - imageMinBytes) / (highest - imageMinBytes)
}
