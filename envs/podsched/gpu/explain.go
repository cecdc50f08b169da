package gpu

import (
	"strconv"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// Explain describes the coming decision, a row for each node: its name, its GPU model, the device that option devices
// would take, and the score of each baseline; for a masked node, only the reason. Baselines without a score of single
// nodes (Random) have no column. There are no rows at an episode's end.
func (t *Task) Explain(s *cluster.State) (columns []string, rows [][]string) {
	columns = []string{"node", "model", "devices"}
	var scores []func(c *gpushare.Class, nodes []int32, scores []int64)
	for i := range gpushare.Policies {
		if of := gpushare.Policies[i].Scores(&t.inventory, t.in.Outlook.OrEmpty().Reserve); of != nil {
			columns, scores = append(columns, gpushare.Policies[i].Name), append(scores, of)
		}
	}
	columns = append(columns, "why not")
	if t.current < 0 {
		return columns, nil
	}
	c := t.class(t.current)
	table := t.table.Row(c)
	var fitting []int32
	for i := range table {
		row := make([]string, len(columns))
		row[0], row[1] = s.NodeName(int32(i)), t.nodes[i].Model
		if table[i].Fits {
			fitting = append(fitting, int32(i))
			row[2] = gpushare.FormatDevices(table[i].Devices)
		} else {
			row[len(row)-1] = t.inventory.Refusal(c, int32(i))
		}
		rows = append(rows, row)
	}
	values := make([]int64, len(fitting))
	for k, of := range scores {
		of(c, fitting, values)
		for j, i := range fitting {
			rows[i][3+k] = strconv.FormatInt(values[j], 10)
		}
	}
	return columns, rows
}
