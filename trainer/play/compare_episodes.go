package play

import (
	"strconv"

	"github.com/kubernasium/kubernasium/trainer/cli"
)

// WriteEpisodes writes a CSV file with a row for each episode of each policy. Numbers have all their digits, so
// that a reader gets the same bits.
func (res *Comparison) WriteEpisodes(path string) error {
	header := []string{"policy", "kind", "seed", "return", "length"}
	for _, m := range res.Metrics {
		header = append(header, m.Column)
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	var rows [][]string
	for _, r := range res.Rows {
		for i, ret := range r.Episodes.Returns {
			cells := []string{r.Policy, r.Kind, strconv.FormatUint(res.Seed+uint64(i), 10), number(ret), strconv.FormatInt(r.Episodes.Lengths[i], 10)}
			for _, m := range res.Metrics {
				cells = append(cells, number(r.Episodes.Metrics[m.Column][i]))
			}
			rows = append(rows, cells)
		}
	}
	return cli.WriteCSV(path, header, rows)
}
