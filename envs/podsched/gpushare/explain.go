package gpushare

import "strconv"

// Explain describes a decision for a pod of class c, a row for each node: its name, its GPU model, the devices that its outcome takes,
// and the score of each policy of [Policies]; for a node that the pod does not fit, only the reason. Policies without a score of
// single nodes (Random) have no column. There are no rows if c is nil.
func Explain(b *Inventory, r *Reserve, c *Class, outcomes []Outcome, name, model func(node int32) string) (columns []string, rows [][]string) {
	columns = []string{"node", "model", "devices"}
	var scores []func(c *Class, nodes []int32, scores []int64)
	for i := range Policies {
		if of := Policies[i].Scores(b, r); of != nil {
			columns, scores = append(columns, Policies[i].Name), append(scores, of)
		}
	}
	columns = append(columns, "why not")
	if c == nil {
		return columns, nil
	}
	var fitting []int32
	for k := range outcomes {
		node, row := int32(k), make([]string, len(columns))
		row[0], row[1] = name(node), model(node)
		if outcomes[k].Fits {
			fitting = append(fitting, node)
			row[2] = FormatDevices(outcomes[k].Devices)
		} else {
			row[len(row)-1] = b.Refusal(c, node)
		}
		rows = append(rows, row)
	}
	values := make([]int64, len(fitting))
	for k, of := range scores {
		of(c, fitting, values)
		for j, node := range fitting {
			rows[node][3+k] = strconv.FormatInt(values[j], 10)
		}
	}
	return columns, rows
}
