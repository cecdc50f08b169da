package gpu

import (
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// Explain describes the coming decision, as [gpushare.Explain] does. There are no rows at an episode's end.
func (t *Task) Explain(s *cluster.State) (columns []string, rows [][]string) {
	var c *gpushare.Class
	var outcomes []gpushare.Outcome
	if t.current >= 0 {
		c = t.class(t.current)
		outcomes = t.table.Row(c)
	}
	model := func(node int32) string { return t.nodes[node].Model }
	return gpushare.Explain(&t.inventory, t.in.Outlook.OrEmpty().Reserve, c, outcomes, s.NodeName, model)
}
