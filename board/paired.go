package board

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Paired holds the differences of policies that played the same episodes.
type Paired struct {
	Metric      string         `json:"metric"`
	Episodes    int            `json:"episodes"`
	Policies    []string       `json:"policies"`
	Differences [][]Difference `json:"differences"` // [a][b]: policy a minus policy b
}

// Difference is a mean with its 95 % interval by Student's t.
type Difference struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// maxPaired bounds the number of paired policies.
const maxPaired = 60

// pair returns the paired differences of the episodes in the comparison's metric. trainer compare writes episodes as
// rows of policy, kind, seed, return and further metrics. pair returns nil without two policies that played equal
// episodes.
func pair(episodes, comparison [][]string) *Paired {
	if len(episodes) < 2 || len(comparison) == 0 {
		return nil
	}
	p := &Paired{Metric: "return"}
	for _, name := range comparison[0] {
		if metric, ok := strings.CutPrefix(name, "mean "); ok {
			p.Metric = metric
			break
		}
	}
	policy, seed, column := slices.Index(episodes[0], "policy"), slices.Index(episodes[0], "seed"), slices.Index(episodes[0], p.Metric)
	if policy < 0 || seed < 0 || column < 0 {
		return nil
	}
	seeds, values := map[string][]string{}, map[string][]float64{}
	for _, row := range episodes[1:] {
		if len(row) != len(episodes[0]) {
			continue // the row is incomplete
		}
		v, err := strconv.ParseFloat(row[column], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		name := row[policy]
		if values[name] == nil && len(p.Policies) < maxPaired {
			p.Policies = append(p.Policies, name)
		}
		seeds[name], values[name] = append(seeds[name], row[seed]), append(values[name], v)
	}
	p.Policies = slices.DeleteFunc(p.Policies, func(name string) bool { return !slices.Equal(seeds[name], seeds[p.Policies[0]]) })
	if len(p.Policies) < 2 {
		return nil
	}
	p.Episodes = len(values[p.Policies[0]])
	if p.Episodes < 2 {
		return nil
	}
	for _, a := range p.Policies {
		var row []Difference
		for _, b := range p.Policies {
			row = append(row, difference(values[a], values[b]))
		}
		p.Differences = append(p.Differences, row)
	}
	return p
}

// difference returns the mean of a-b with its interval. There must be at least two values.
func difference(a, b []float64) Difference {
	d := floats.SubTo(make([]float64, len(a)), a, b)
	n := float64(len(d))
	mean, std := stat.MeanStdDev(d, nil)
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * std / math.Sqrt(n)
	return Difference{mean, mean - half, mean + half}
}
