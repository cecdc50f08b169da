package vpa

import (
	"testing"

	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// TestSummarize: hand-worked, two models of three episodes.
func TestSummarize(t *testing.T) {
	row := func(kind string, cost, ooms float64, values ...float64) play.Row {
		return play.Row{Kind: kind, Mean: cost, Values: values,
			Metrics: map[string]float64{"slack_pct": 10 * cost, "throttled_pct": 0, "ooms": ooms, "evictions": 1}}
	}
	first, second := row(play.KindModel, 2, 0, 1, 2, 3), row(play.KindModel, 4, 1./3, 3, 4, 5)
	first.Difference, second.Difference = &tracking.Estimate{Mean: -3, Low: -4, High: -2}, &tracking.Estimate{Mean: -1, Low: -2, High: 0.5}
	first.Claim, second.Claim = &play.Claim{Verdict: play.VerdictBetter}, &play.Claim{Verdict: play.VerdictUndecided}
	base := row(play.KindBaseline, 5, 0, 4, 5, 6)
	r, err := summarize("azure", &play.Comparison{Episodes: 3, Rows: []play.Row{first, second, base}})
	if err != nil {
		t.Fatal(err)
	}
	// Means of the models are 2, 3, 4: 2 less than the baseline's in each episode.
	if r.Models.Cost != 3 || r.Models.Slack != 30 || r.Difference.Mean != -2 || r.Difference.High != -2 || r.Better != 1 {
		t.Errorf("%+v: want models at 3 and 30 %%, a difference of -2 without spread, one of two better", r)
	}
	if r.MostOOMs != 1 || r.OK {
		t.Errorf("%+v: want one kill, and not in order as the baseline has none", r)
	}
	first.Metrics["ooms"], second.Metrics["ooms"] = 0, 0
	if r, _ = summarize("azure", &play.Comparison{Episodes: 3, Rows: []play.Row{first, second, base}}); !r.OK {
		t.Errorf("%+v: want in order without kills", r)
	}
}
