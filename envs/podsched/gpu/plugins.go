package gpu

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// balanced is NodeResourcesBalancedAllocation of CPU and memory, which kube-scheduler skips for
// pods that request neither.
func balanced(b *board, c *class, i int32) (int64, uint64) {
	if c.MilliCPU == 0 && c.MemoryMiB == 0 {
		return 0, 0
	}
	cpu, mem := b.resources(c, i)
	return kubescore.BalancedAllocation(cpu, mem), 0
}

// score returns the function of a strategy of NodeResourcesFit.
func (s *Strategy) score() (scoreFunc, error) {
	if s == nil {
		s = &Strategy{Type: "LeastAllocated", CPUWeight: 1, MemoryWeight: 1}
	}
	var of func(r ...kubescore.Resource) int64
	switch s.Type {
	case "LeastAllocated":
		of = kubescore.LeastAllocated
	case "MostAllocated":
		of = kubescore.MostAllocated
	case "RequestedToCapacityRatio":
		for k, p := range s.Shape {
			if p.Utilization < 0 || p.Utilization > 100 || p.Score < 0 || p.Score > 10 || k > 0 && p.Utilization <= s.Shape[k-1].Utilization {
				return nil, fmt.Errorf("gpu: shape point %+v of RequestedToCapacityRatio, want utilizations that rise from 0 to 100 and scores from 0 to 10", p)
			}
		}
		if len(s.Shape) == 0 {
			return nil, fmt.Errorf("gpu: RequestedToCapacityRatio without a shape")
		}
		of = func(r ...kubescore.Resource) int64 { return kubescore.RequestedToCapacityRatio(s.Shape, r...) }
	default:
		return nil, fmt.Errorf("gpu: scoring strategy %q, want LeastAllocated, MostAllocated or RequestedToCapacityRatio", s.Type)
	}
	return func(b *board, c *class, i int32) (int64, uint64) {
		cpu, mem := b.nonZeroResources(c, i)
		cpu.Weight, mem.Weight = s.CPUWeight, s.MemoryWeight
		return of(cpu, mem), 0
	}, nil
}

// stretched scales the scores of the nodes to 0 … 100, as BestFit does.
type stretched struct{ plugin }

func (s stretched) scoreNodes(c *class, nodes []int32, scores []int64) {
	s.plugin.scoreNodes(c, nodes, scores)
	lo, hi := slices.Min(scores), slices.Max(scores)
	for k := range scores {
		if hi > lo {
			scores[k] = (scores[k] - lo) * kubescore.MaxNodeScore / (hi - lo)
		} else {
			scores[k] = kubescore.MaxNodeScore
		}
	}
}

// randomScores draws a score for each node.
type randomScores struct{ draw intner }

func (r randomScores) scoreNodes(_ *class, nodes []int32, scores []int64) {
	for k := range nodes {
		scores[k] = int64(r.draw(kubescore.MaxNodeScore + 1))
	}
}

// scarcityScores halves FGD's scores and adds 50 where the model is not scarce.
type scarcityScores struct{ *reserving }

func (s *scarcityScores) scoreNodes(c *class, nodes []int32, scores []int64) {
	s.scored.scoreNodes(c, nodes, scores)
	s.weigh(c)
	for k, i := range nodes {
		scores[k] /= 2
		if !s.scarce(i) {
			scores[k] += kubescore.MaxNodeScore / 2
		}
	}
}

// weighedScores are what WeightedFGD weighs, in hundredths of a point of FGD's score.
type weighedScores struct{ *weighing }

func (s *weighedScores) scoreNodes(c *class, nodes []int32, scores []int64) {
	row := s.row(c)
	s.weigh(c)
	for k, i := range nodes {
		scores[k] = int64(100 * s.value(c, i, &row[i]))
	}
}
