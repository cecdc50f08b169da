package play

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/search"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

func TestVerdict(t *testing.T) {
	row := func(policy, kind string, values ...float64) Row {
		return Row{Policy: policy, Kind: kind, Mean: tracking.Mean(values), Values: values}
	}
	for _, tc := range []struct {
		name  string
		lower bool
		model []float64
		want  string
	}{
		{"better, lower", true, []float64{90, 91, 89}, "m is better than the best baseline, b, by 10.00 %"},
		{"worse, lower", true, []float64{110, 111, 109}, "m is worse than the best baseline, b, by 10.00 %"},
		// Of 102, 130 and 79 the mean is 103.67, which is 3.67 % above 100: the sign of the table.
		{"noise, lower", true, []float64{102, 130, 79}, "m is not better than the best baseline, b: the difference of +3.67 % "},
		{"noise, higher", false, []float64{102, 130, 79}, "m is not better than the best baseline, b: the difference of +3.67 % "},
		{"better, higher", false, []float64{110, 111, 109}, "m is better than the best baseline, b, by 10.00 %"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Comparison{Lower: tc.lower, Rows: []Row{row("m", KindModel, tc.model...), row("b", KindBaseline, 100, 101, 99)}}
			c.rank()
			if len(c.Verdict) != 1 || !strings.HasPrefix(c.Verdict[0], tc.want) {
				t.Errorf("verdict %q, want %s …", c.Verdict, tc.want)
			}
			m := c.Rows[slices.IndexFunc(c.Rows, func(r Row) bool { return r.Kind == KindModel })]
			if d := m.Difference; d == nil || math.Abs(d.Mean-(tracking.Mean(tc.model)-100)) > 1e-9 {
				t.Errorf("difference %+v, want the model's mean less 100", d)
			}
		})
	}
}

// TestBestOfZero: beside a best baseline whose mean is 0, the difference is no percentage.
func TestBestOfZero(t *testing.T) {
	for want, model := range map[string][]float64{"m is better than the best baseline, b, by 5.0000 (": {5, 5.5, 4.5}, "the difference of +0.3333 may be chance": {-3, 1, 3}} {
		c := Comparison{Rows: []Row{ofTraining("m", model...), ofBaseline("b", 0, 0.5, -0.5)}}
		if c.rank(); len(c.Verdict) != 1 || !strings.Contains(c.Verdict[0], want) {
			t.Errorf("verdict %q, want %s", c.Verdict, want)
		}
	}
}

// values returns the numbers of a row of n episodes: mean ± spread, by turns.
func values(mean, spread float64, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = mean + spread*float64(1-2*(i%2))
	}
	return x
}

func ofTraining(name string, values ...float64) Row {
	return Row{Policy: name, Kind: KindModel, Training: name, Mean: tracking.Mean(values), Values: values}
}

func ofBaseline(name string, values ...float64) Row {
	return Row{Policy: name, Kind: KindBaseline, Mean: tracking.Mean(values), Values: values}
}

// claims returns the claims of the models by name.
func claims(c *Comparison) map[string]*Claim {
	all := map[string]*Claim{}
	for _, r := range c.Rows {
		if r.Claim != nil {
			all[r.Policy] = r.Claim
		}
	}
	return all
}

// TestClaimsAreCorrected: of eight episodes, 1 ± 1 above the baseline by turns, t is √7 = 2.646 and the
// two-sided p-value, as of any table of t with 7 degrees of freedom, 0.0331. Alone that is better. Beside
// four models that equal the baseline it is not: 5 × 0.0331 = 0.166.
func TestClaimsAreCorrected(t *testing.T) {
	best, none := ofTraining("best", values(101, 1, 8)...), values(100, 0, 8)
	alone := Comparison{Rows: []Row{best, ofBaseline("b", none...)}}
	alone.rank()
	if c := claims(&alone)["best"]; !c.Better() || math.Abs(c.Adjusted-0.0331) > 1e-4 || c.P != c.Adjusted {
		t.Errorf("alone: %+v, want better with p 0.0331", c)
	}
	five := Comparison{Rows: []Row{best, ofBaseline("b", none...)}}
	for _, name := range []string{"2", "3", "4", "5"} {
		five.Rows = append(five.Rows, ofTraining(name, none...))
	}
	five.rank()
	if c := claims(&five)["best"]; c.Verdict != VerdictUndecided || math.Abs(c.P-0.0331) > 1e-4 || math.Abs(c.Adjusted-0.1655) > 5e-4 {
		t.Errorf("best of five: %+v, want undecided with p 0.0331 and 0.166", c)
	}
	if v := five.Verdict[0]; !strings.HasPrefix(v, "best is not better than the best baseline, b: the difference of +1.00 % may be chance (p = 0.17, corrected for 5 models)") {
		t.Errorf("verdict %q", v)
	}
}

// TestClaimOfEveryBaseline: a model is 1 above the best baseline in each episode, and 2 ± 8 above another,
// whose episodes differ more. It is not shown to be better than that one: t is 2√7/8 = 0.661, p 0.5295.
// It is worse than one of three baselines only if three times its p-value is small: 3 × 0.0331.
func TestClaimOfEveryBaseline(t *testing.T) {
	c := Comparison{Rows: []Row{ofTraining("m", values(101, 0, 8)...), ofBaseline("steady", values(100, 0, 8)...), ofBaseline("wild", values(99, 8, 8)...)}}
	c.rank()
	if got := claims(&c)["m"]; c.BestBaseline != "steady" || got.Verdict != VerdictUndecided || math.Abs(got.P-0.5295) > 1e-3 {
		t.Errorf("best baseline %s, claim %+v; want steady, undecided with p 0.5295", c.BestBaseline, got)
	}
	c = Comparison{Rows: []Row{ofTraining("m", values(100, 0, 8)...), ofBaseline("a", values(101, 1, 8)...), ofBaseline("b", values(90, 1, 8)...), ofBaseline("c", values(90, 1, 8)...),
		{Policy: "o", Kind: KindClairvoyant, Mean: 200, Values: values(200, 0, 8)}}}
	c.rank()
	if got := claims(&c)["m"]; got.Verdict != VerdictUndecided || math.Abs(got.P-0.0993) > 3e-4 {
		t.Errorf("claim %+v, want undecided with p 3 × 0.0331", got)
	}
}

// TestTraining: five seeds and a model of another training. The interval is over seeds and episodes,
// that of tracking.TwoWayTest, which has tests of its own; the corrections are for six models and for
// two trainings.
func TestTraining(t *testing.T) {
	x := [][]float64{{88, 93, 92, 90}, {90, 92, 95, 91}, {89, 91, 96, 92}, {92, 94, 95, 90}, {91, 92, 97, 93}} // best first
	baseline := []float64{97, 99, 104, 98}
	c := Comparison{Lower: true, Metric: "cost", Rows: []Row{ofTraining("dqn", values(200, 1, 4)...), ofBaseline("b", baseline...)}}
	var d [][]float64
	for _, row := range x {
		c.Rows = append(c.Rows, ofTraining("ppo", row...))
		d = append(d, []float64{row[0] - 97, row[1] - 99, row[2] - 104, row[3] - 98})
	}
	c.rank()
	mean, difference := tracking.TwoWayTest(x), tracking.TwoWayTest(d)
	if len(c.Trainings) != 1 {
		t.Fatalf("%d trainings, want that of five seeds", len(c.Trainings))
	}
	got := c.Trainings[0]
	if got.Name != "ppo" || got.Seeds != 5 || got.Mean != mean.Estimate || *got.Difference != difference.Estimate {
		t.Errorf("%+v, want mean %+v and difference %+v", got, mean.Estimate, difference.Estimate)
	}
	if want := 2 * difference.Below; got.Claim.P != want || got.Claim.Adjusted > 2*want || !got.Claim.Better() {
		t.Errorf("claim %+v, want better with p %v", got.Claim, want)
	}
	// Means by hand: 92.15 and 99.5.
	if v := c.Verdict[len(c.Verdict)-1]; len(c.Verdict) != 7 || !strings.HasPrefix(v, "ppo, 5 seeds is better than the best baseline, b, by 7.39 % (difference -7.35, 95 % interval [") ||
		!strings.HasSuffix(v, "corrected for 2 trainings)") {
		t.Errorf("verdicts %q, want one of the five seeds at the end", c.Verdict)
	}
	var b strings.Builder
	if err := c.Table().WriteCSV(&b); err != nil || !strings.Contains(b.String(), "\n\"ppo, 5 seeds\",92.15,") {
		t.Errorf("table: %v\n%s", err, b.String())
	}
}

// TestTrainingsOf: models belong together if they differ in their seeds alone, and searches over them if they have equal
// parameters. The last model of a training is no further seed beside its best.
func TestTrainingsOf(t *testing.T) {
	ppo := func(seed uint64, config string) models.Checkpoint {
		return models.Checkpoint{Algo: "ppo", Env: "X", Seed: seed, Timesteps: int64(1000 + seed), Config: []byte(config)}
	}
	wide := ppo(1, "{}")
	wide.Spec.Inputs = 7
	other := ppo(1, "{}")
	other.EnvKwargs = []byte(`{"split":"train"}`)
	var all trainings
	var got []string
	for _, m := range []models.Checkpoint{ppo(1, "{}"), ppo(2, "{}"), ppo(1, `{"gamma":1}`), ppo(3, "{}"), ppo(2, "{}"), wide, other, {Algo: "ppo_lstm"}} {
		got = append(got, all.of(m, nil))
	}
	for seed := range uint64(2) {
		for _, trust := range []float64{24, 12} {
			c := search.Config{Method: search.MethodPosterior, Parameters: search.Parameters{Base: fmt.Sprint(seed), Trust: trust}}
			got = append(got, all.of(ppo(seed, "{}"), &c))
		}
	}
	want := []string{"ppo", "ppo", "ppo 2", "ppo", "ppo 3", "ppo 4", "ppo 5", "ppo_lstm",
		"posterior over ppo", "posterior over ppo 2", "posterior over ppo", "posterior over ppo 2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
