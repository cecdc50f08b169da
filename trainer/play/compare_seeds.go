package play

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// SeedsRow is the row of a training of several seeds in a table of `compare --csv`, with the cells of its best and
// worst model and of the best baseline. Numbers are as printed.
type SeedsRow struct {
	Training string // its name, without the number of seeds
	Seeds    int
	Metric   string

	Mean, Difference, Interval, P, Verdict string // the interval is that of the difference; P is Holm's

	BestBaseline, BaselineMean string

	Best, Worst ModelMean // zero unless the table has a row for each seed

	others []string // the table's policies other than models, with the marks of clairvoyant ones
}

// ModelMean is the mean of one model of a training.
type ModelMean struct {
	Model string // name without that of the training
	Mean  string
}

// seedsLabel is the form of [Training.String].
var seedsLabel = regexp.MustCompile(`^(.+), (\d+) seeds$`)

// Columns of [Comparison.Table] by their order, as far as they are the same in all tables.
const (
	columnPolicy = iota
	columnMean
	_ // the mean's interval
	columnDifference
	columnInterval
	columnP
	columnVerdict
	comparisonColumns
)

// ReadSeedsRow finds the training of several seeds in a table of `compare --csv`. It is an error if the table has none
// or more than one, or no baseline.
func ReadSeedsRow(t *tracking.Table) (*SeedsRow, error) {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	if len(names) < comparisonColumns || names[columnPolicy] != "policy" || names[columnP] != "p (Holm)" || names[columnVerdict] != "verdict" {
		return nil, fmt.Errorf("columns %q, want those of compare --csv with models and baselines", names)
	}
	metric, isMean := strings.CutPrefix(names[columnMean], "mean ")
	best, isDifference := strings.CutPrefix(names[columnDifference], "difference to ")
	if !isMean || !isDifference {
		return nil, fmt.Errorf("columns %q, want those of compare --csv with models and baselines", names)
	}
	row := &SeedsRow{Metric: metric, BestBaseline: best}
	var models []ModelMean // best first, as the table's rows
	trainings := 0
	for _, cells := range t.Rows {
		label := seedsLabel.FindStringSubmatch(cells[columnPolicy])
		switch {
		case cells[columnVerdict] == "":
			row.others = append(row.others, cells[columnPolicy])
			if cells[columnPolicy] == best {
				row.BaselineMean = cells[columnMean]
			}
		case label == nil:
			models = append(models, ModelMean{cells[columnPolicy], cells[columnMean]})
		default:
			trainings++
			row.Training = label[1]
			row.Seeds, _ = strconv.Atoi(label[2]) // digits; 0 if there are too many, which no table has
			row.Mean, row.Difference, row.Interval = cells[columnMean], cells[columnDifference], cells[columnInterval]
			row.P, row.Verdict = cells[columnP], cells[columnVerdict]
		}
	}
	switch {
	case trainings != 1:
		return nil, fmt.Errorf("%d trainings of several seeds, want one: a table of compare --csv whose models differ only in their seeds", trainings)
	case row.BaselineMean == "":
		return nil, fmt.Errorf("no row of the best baseline, %q", best)
	}
	if len(models) > 0 && len(models) == row.Seeds {
		for i := range models {
			models[i].Model = strings.TrimPrefix(models[i].Model, row.Training+" ")
		}
		row.Best, row.Worst = models[0], models[len(models)-1]
	}
	return row, nil
}

// CheckEnv returns an error unless the table can be of the environment with these options: its metric must be the one
// that ranks policies, and its baselines must be the environment's. Versions with equal metrics and baselines look the same.
func (r *SeedsRow) CheckEnv(spec *envs.Spec, kwargs map[string]any) error {
	metric := "return"
	if ranking := spec.Ranking(kwargs); len(ranking) > 0 {
		metric = ranking[0].Column
	}
	if r.Metric != metric {
		return fmt.Errorf("a table of another environment: its metric is %s, that of %s is %s", r.Metric, spec.ID, metric)
	}
	for _, label := range r.others {
		if label == baseline.RandomName || strings.HasSuffix(label, constantName) || strings.HasSuffix(label, shuffledName) {
			continue
		}
		if !slices.ContainsFunc(spec.Baselines, func(b envs.Baseline) bool {
			kind := KindBaseline
			if b.Clairvoyant {
				kind = KindClairvoyant
			}
			return label == (&Row{Policy: b.Name, Kind: kind}).label()
		}) {
			return fmt.Errorf("a table of another environment: %s has no baseline %s", spec.ID, label)
		}
	}
	return nil
}
