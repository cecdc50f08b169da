package tune

import (
	"fmt"
	"io"
	"slices"

	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// baselineResult is the JSON of `tune --baseline --json`.
type baselineResult struct {
	Env        string             `json:"env"`
	EnvKwargs  map[string]any     `json:"env_kwargs"`
	Folder     string             `json:"folder"`
	Metric     string             `json:"metric"`
	Lower      bool               `json:"lower_is_better"`
	Candidates int                `json:"candidates"`
	Timesteps  int                `json:"timesteps"`
	Tuned      string             `json:"tuned"`      // the best finalist
	Difference *tracking.Estimate `json:"difference"` // the best finalist minus the given baseline, paired by episode; nil if they are the same
	Finalists  []candidate        `json:"finalists"`  // on validation seeds, best first
}

func (t *baselineTuner) result(folder string) *baselineResult {
	res := &baselineResult{Env: t.study.Env, EnvKwargs: t.study.EnvKwargs, Folder: folder, Metric: "return", Lower: t.lower,
		Candidates: t.played, Timesteps: t.steps}
	if t.column >= 0 {
		res.Metric = t.spec.Info[t.column].Name
	}
	for _, c := range t.results {
		if c.Validation {
			res.Finalists = append(res.Finalists, c)
		}
	}
	given := res.Finalists[0]
	slices.SortStableFunc(res.Finalists, t.better)
	best := res.Finalists[0]
	if res.Tuned = best.Baseline; best.Baseline != given.Baseline && given.Error == "" {
		res.Difference = new(tracking.PairedDifference(best.Values, given.Values))
	}
	return res
}

func (res *baselineResult) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s %v: %d candidates, %d environment steps; the finalists on validation seeds:\n\n", res.Env, res.EnvKwargs, res.Candidates, res.Timesteps)
	table := tracking.NewTable("baseline", ">mean "+res.Metric, ">95 % interval")
	for _, c := range res.Finalists {
		e := tracking.StudentT(c.Values)
		table.Append(c.Baseline, fmt.Sprintf("%.6g", e.Mean), fmt.Sprintf("[%.6g, %.6g]", e.Low, e.High))
	}
	table.WriteText(w)
	line := "no candidate is better than it"
	if d := res.Difference; d != nil {
		line = fmt.Sprintf("%+.4g [%.4g, %.4g] to the given one, pair by pair, on the episodes that chose it", d.Mean, d.Low, d.High)
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s\n", res.Tuned, line)
	return err
}
