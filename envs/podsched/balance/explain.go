package balance

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/topology"
)

// Explain describes the coming decision to users, a row for each node: the node, its rack, the cost after the bind, the
// scores of kube-scheduler's plugins and their weighted sum; for a masked node, only the reason. There are no rows at
// an episode's end.
func (t *Task) Explain(s *cluster.State) (columns []string, rows [][]string) {
	columns = []string{"node", "rack", "cost", "LeastAllocated", "MostAllocated", "BalancedAllocation", "PodTopologySpread", "KubeDefault", "why not"}
	if t.pod == noPod {
		return columns, nil
	}
	mask := make([]bool, len(s.Nodes))
	s.FitMask(t.pod, mask)
	k := kube{}
	k.score(t, s, mask)
	at := 0
	for i, ok := range mask {
		row := make([]string, len(columns))
		row[0], row[1] = s.NodeName(int32(i)), topology.RackName(int(t.rackOf[i]), 1) // labels of a running cluster
		if ok {
			row[2] = fmt.Sprintf("%.4f", t.costIf(s, i))
			for j, v := range []int64{leastAllocated(t, s, i), mostAllocated(t, s, i),
				balancedAllocation(t, s, i), k.spread[at], k.total[at]} {
				row[3+j] = strconv.FormatInt(v, 10)
			}
			at++
		} else {
			row[8] = reason(s.Reason(t.pod, int32(i)))
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// reason returns the text of an error without that of the sentinel that it wraps.
func reason(err error) string {
	text := err.Error()
	if inner := errors.Unwrap(err); inner != nil {
		text = text[:max(0, len(text)-len(": "+inner.Error()))]
	}
	return text
}
