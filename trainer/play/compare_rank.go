package play

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/agents/search"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// docs/results/method.md describes the statistics of this file.

// Alpha limits the probability that a comparison calls any policy better or worse that is not.
const Alpha = 0.05

// Verdicts of a claim.
const (
	VerdictBetter    = "better" // than every baseline that is not clairvoyant
	VerdictWorse     = "worse"  // than at least one such baseline
	VerdictUndecided = "undecided"
)

// Claim compares a model, a search over one, or a training with all baselines that are not clairvoyant.
type Claim struct {
	P        float64 `json:"p"`      // two-sided, of this claim only
	Adjusted float64 `json:"p_holm"` // corrected for all claims of its kind in the comparison
	Verdict  string  `json:"verdict"`
}

// Better reports whether the claim says that its policy is better than every baseline; a nil claim does not.
func (c *Claim) Better() bool { return c != nil && c.Verdict == VerdictBetter }

// Training holds the models of one algorithm with equal settings and several seeds.
type Training struct {
	Name       string             `json:"name"`
	Seeds      int                `json:"seeds"`
	Mean       tracking.Estimate  `json:"mean"`                 // of the metric, over seeds and episodes
	Difference *tracking.Estimate `json:"difference,omitempty"` // to the best baseline, over seeds and episodes
	Claim      *Claim             `json:"claim,omitempty"`      // corrected for the number of trainings
}

// String names the training with its number of seeds.
func (t Training) String() string { return fmt.Sprintf("%s, %d seeds", t.Name, t.Seeds) }

// kindTraining marks the row of a training in a table.
const kindTraining = "training"

// trainings groups models by their training.
type trainings struct {
	names map[string]string // by settings
	taken map[string]bool
}

// of returns the name of a model's training: the algorithm's name, with a number from the second training of
// that algorithm on. Two models belong to the same training if they differ only in their seeds. Those of searches over models
// are trainings of their own, by method and parameters.
func (t *trainings) of(meta models.Checkpoint, over *search.Config) string {
	if t.names == nil {
		t.names, t.taken = map[string]string{}, map[string]bool{}
	}
	spec, _ := json.Marshal(meta.Spec) // the settings were read from JSON
	name, settings := meta.Algo, fmt.Sprintf("%s %s %s %s %s", meta.Algo, meta.Env, meta.EnvKwargs, spec, meta.Config)
	if over != nil {
		p := over.Parameters
		p.Base = ""
		name, settings = over.Method+" over "+name, fmt.Sprintf("%s %s %+v", settings, over.Method, p)
	}
	for again := 0; ; again++ { // the same seed again is another file of that training, not an independent model
		key := fmt.Sprintf("%s %d", settings, again)
		if t.names[key] == "" {
			t.names[key] = t.newName(name)
		}
		if seed := fmt.Sprintf("%s %d", key, meta.Seed); !t.taken[seed] {
			t.taken[seed] = true
			return t.names[key]
		}
	}
}

func (t *trainings) newName(algo string) string {
	n := 1
	for _, name := range t.names {
		if name == algo || len(name) > len(algo) && name[:len(algo)+1] == algo+" " {
			n++
		}
	}
	if n == 1 {
		return algo
	}
	return fmt.Sprintf("%s %d", algo, n)
}

// sort sorts rows, best first.
func (res *Comparison) sort(rows []Row) {
	sign := -1.0
	if res.Lower {
		sign = 1
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(sign*a.Mean, sign*b.Mean) })
}

// rank sorts the rows, finds the best baseline, computes the differences to it, and makes the claims for models, searches
// over models, and trainings.
func (res *Comparison) rank() {
	res.sort(res.Rows)
	var best *Row
	if i := slices.IndexFunc(res.Rows, func(r Row) bool { return r.Kind == KindBaseline }); i >= 0 {
		best = &res.Rows[i]
		res.BestBaseline = best.Policy
	}
	var claims []*Claim
	of := "models"
	for k := range res.Rows {
		row := &res.Rows[k]
		if best == nil || row == best {
			continue
		}
		row.Difference = new(tracking.PairedDifference(row.Values, best.Values))
		if row.learned() {
			row.Claim = res.claim(func(baseline []float64) tracking.Test { return tracking.PairedTest(row.Values, baseline) })
			claims = append(claims, row.Claim)
			if row.Kind == KindSearch {
				of = "models and searches"
			}
		}
	}
	correct(claims)
	for _, row := range res.Rows {
		if row.Claim != nil {
			res.Verdict = append(res.Verdict, res.judge(row.Policy, row.Claim, *row.Difference, best, len(claims), of))
		}
	}
	res.rankTrainings(best)
	res.testStates()
}

// rankTrainings estimates the trainings of several seeds and makes their claims.
func (res *Comparison) rankTrainings(best *Row) {
	var names []string
	values := map[string][][]float64{}
	for _, r := range res.Rows {
		if !r.learned() {
			continue
		}
		if values[r.Training] == nil {
			names = append(names, r.Training)
		}
		values[r.Training] = append(values[r.Training], r.Values)
	}
	if best == nil {
		best = &Row{}
	}
	var claims []*Claim
	for _, name := range names {
		x := values[name]
		t := Training{Name: name, Seeds: len(x)}
		test := func(baseline []float64) tracking.Test {
			if len(x) == 1 {
				return tracking.PairedTest(x[0], baseline)
			}
			return tracking.TwoWayTest(minus(x, baseline))
		}
		if best.Values != nil {
			t.Difference, t.Claim = new(test(best.Values).Estimate), res.claim(test)
			claims = append(claims, t.Claim) // also of a training with one seed, which counts for the correction
		}
		if len(x) > 1 {
			t.Mean = tracking.TwoWayTest(x).Estimate
			res.Trainings = append(res.Trainings, t)
		}
	}
	correct(claims)
	for _, t := range res.Trainings {
		if t.Claim != nil {
			res.Verdict = append(res.Verdict, res.judge(t.String(), t.Claim, *t.Difference, best, len(claims), "trainings"))
		}
	}
}

// minus returns the rows of x minus the baseline.
func minus(x [][]float64, baseline []float64) [][]float64 {
	d := make([][]float64, len(x))
	for i, values := range x {
		d[i] = make([]float64, len(values))
		for k, v := range values {
			d[i][k] = v - baseline[k]
		}
	}
	return d
}

// claim tests the differences to all baselines that are not clairvoyant. Its verdict is not corrected yet. A policy
// is better than the best baseline only if it is better than each, so that the largest p-value decides,
// whichever baseline was best here (an intersection-union test). It is worse if it is worse than any one, with
// Bonferroni's correction.
func (res *Comparison) claim(test func(baseline []float64) tracking.Test) *Claim {
	better, worse, n := 0.0, 1.0, 0
	for _, r := range res.Rows {
		if r.Kind != KindBaseline {
			continue
		}
		t := test(r.Values)
		above, below := t.Above, t.Below
		if res.Lower {
			above, below = below, above
		}
		better, worse, n = math.Max(better, above), math.Min(worse, below), n+1
	}
	worse *= float64(n)
	c := &Claim{P: math.Min(1, 2*math.Min(better, worse)), Verdict: VerdictWorse}
	if better < worse {
		c.Verdict = VerdictBetter
	}
	return c
}

// correct adjusts claims for their number, and sets those that are no longer significant to undecided.
func correct(claims []*Claim) {
	p := make([]float64, len(claims))
	for i, c := range claims {
		p[i] = c.P
	}
	for i, adjusted := range tracking.Holm(p) {
		claims[i].Adjusted = adjusted
		if adjusted > Alpha {
			claims[i].Verdict = VerdictUndecided
		}
	}
}

// judge returns a claim as a sentence. Signed numbers have the table's sign: the policy's mean minus the
// baseline's.
func (res *Comparison) judge(name string, c *Claim, d tracking.Estimate, best *Row, n int, of string) string {
	size := fmt.Sprintf("%+.2f %%", 100*d.Mean/math.Abs(best.Mean))
	if best.Mean == 0 {
		size = fmt.Sprintf("%+.*f", res.Decimals(), d.Mean)
	}
	p := fmt.Sprintf("p = %.2g", c.Adjusted)
	if c.Adjusted < 1e-4 {
		p = "p < 0.0001"
	}
	if n > 1 {
		p += fmt.Sprintf(", corrected for %d %s", n, of)
	}
	if of == "trainings" || n == 1 {
		p = fmt.Sprintf("difference %+.*f, 95 %% interval %s; %s", res.Decimals(), d.Mean, cli.Interval(d.Low, d.High, res.Decimals()), p)
	}
	if c.Verdict == VerdictUndecided {
		return fmt.Sprintf("%s is not better than the best baseline, %s: the difference of %s may be chance (%s)", name, best.Policy, size, p)
	}
	return fmt.Sprintf("%s is %s than the best baseline, %s, by %s (%s)", name, c.Verdict, best.Policy, size[1:], p)
}
