package play

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// Decimals returns the number of decimals for printed means and differences of the metric: four if all means
// are below 10, or else two.
func (res *Comparison) Decimals() int {
	for _, r := range res.Rows {
		if math.Abs(r.Mean) >= 10 {
			return 2
		}
	}
	return 4
}

// Table returns the comparison as a table: a row for each policy and for each training of several seeds, best
// first.
func (res *Comparison) Table() *tracking.Table {
	metrics := res.otherMetrics()
	claims := slices.ContainsFunc(res.Rows, func(r Row) bool { return r.Claim != nil })
	names := []string{"policy", ">mean " + res.Metric, ">95 % interval", ">difference to " + res.BestBaseline, ">95 % interval"}
	if claims {
		names = append(names, ">p (Holm)", "verdict")
	}
	for _, m := range metrics {
		names = append(names, ">"+m)
	}
	if res.Metric != "return" {
		names = append(names, ">return")
	}
	t := tracking.NewTable(names...)
	decimals := res.Decimals()
	for _, r := range res.withTrainings() {
		cells := []string{r.label(), fmt.Sprintf("%.*f", decimals, r.Mean), cli.Interval(r.Low, r.High, decimals), "", ""}
		if r.Difference != nil {
			cells[3], cells[4] = fmt.Sprintf("%+.*f", decimals, r.Difference.Mean), cli.Interval(r.Difference.Low, r.Difference.High, decimals)
		}
		switch {
		case r.Claim != nil:
			cells = append(cells, fmt.Sprintf("%.2g", r.Claim.Adjusted), r.Claim.Verdict)
		case claims:
			cells = append(cells, "", "")
		}
		for _, m := range metrics {
			cells = append(cells, cli.Number(r.Metrics[m]))
		}
		if res.Metric != "return" {
			cells = append(cells, cli.Number(r.MeanReturn))
		}
		t.Append(cells...)
	}
	return t
}

// withTrainings returns the rows of policies and of trainings of several seeds, best first.
func (res *Comparison) withTrainings() []Row {
	rows := slices.Clone(res.Rows)
	for _, t := range res.Trainings {
		row := Row{Policy: t.String(), Kind: kindTraining, Mean: t.Mean.Mean, Low: t.Mean.Low, High: t.Mean.High,
			Difference: t.Difference, Claim: t.Claim, Metrics: map[string]float64{}}
		for _, r := range res.Rows {
			if !r.learned() || r.Training != t.Name {
				continue
			}
			row.MeanReturn += r.MeanReturn / float64(t.Seeds)
			for name, x := range r.Metrics {
				row.Metrics[name] += x / float64(t.Seeds)
			}
		}
		rows = append(rows, row)
	}
	res.sort(rows)
	return rows
}

// otherMetrics returns the names of the metrics after the first.
func (res *Comparison) otherMetrics() []string {
	var names []string
	for i, m := range res.Metrics {
		if i > 0 {
			names = append(names, m.Column)
		}
	}
	return names
}

// Print writes a line about the episodes, the table and the verdict.
func (res *Comparison) Print(out io.Writer) error {
	w := bufio.NewWriter(out)
	where := ""
	if len(res.URLs) > 0 {
		where = fmt.Sprintf(" over %v", res.URLs)
	}
	fmt.Fprintf(w, "\n%s%s, %s, %s is better\n\n", res.Env, where, res.played, res.Better())
	res.Table().WriteText(w)
	fmt.Fprintln(w)
	for _, v := range res.Verdict {
		fmt.Fprintln(w, v)
	}
	if res.Sealed != "" {
		fmt.Fprintln(w, res.Sealed)
	}
	for _, l := range res.LeftOut {
		fmt.Fprintln(w, "left out:", l)
	}
	if len(res.NotPlayed) > 0 {
		fmt.Fprintln(w, "not played, because of an interrupt:", strings.Join(res.NotPlayed, ", "))
	}
	return w.Flush()
}

// label names the row's policy, and marks clairvoyant ones.
func (r *Row) label() string {
	if r.Kind == KindClairvoyant {
		return r.Policy + " (clairvoyant)"
	}
	return r.Policy
}

// plotCutoff is the ratio of a policy's to the median's distance from the best from which the plot omits the
// policy, because it would flatten the others.
const plotCutoff = 8

// Draw writes the comparison as a PNG file with bars. Its axis says how many policies it omits.
func (res *Comparison) Draw(path string) error {
	bars, omitted := res.bars()
	axis := res.Metric
	if omitted > 0 {
		axis += fmt.Sprintf(" (%d too far away to be shown)", omitted)
	}
	return tracking.Bars(path, res.Env+", "+res.played, axis, bars)
}

// bars returns the bars of the plot, and the number of policies that are too far from the others to be drawn.
func (res *Comparison) bars() (bars []tracking.Bar, omitted int) {
	bound := plotCutoff * math.Abs(res.Rows[len(res.Rows)/2].Mean-res.Rows[0].Mean)
	for _, r := range res.Rows {
		if math.Abs(r.Mean-res.Rows[0].Mean) <= bound || r.Kind == KindModel {
			bars = append(bars, tracking.Bar{Name: r.label(), Mean: r.Mean, Low: r.Low, High: r.High, Highlight: r.Kind == KindModel})
		} else {
			omitted++
		}
	}
	return bars, omitted
}
