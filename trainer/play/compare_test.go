package play

import (
	"math"
	"slices"
	"strings"
	"testing"

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

// TestSeveralModels: differences of -10 and -14 have mean -12 and, with Student's t of 12.706
// for one degree of freedom and a standard error of 2, the interval -12 ± 25.41.
func TestSeveralModels(t *testing.T) {
	row := func(kind string, mean float64) Row {
		return Row{Policy: kind, Kind: kind, Mean: mean, Values: []float64{mean - 1, mean, mean + 1}}
	}
	c := Comparison{Lower: true, Rows: []Row{row(KindModel, 90), row(KindModel, 86), row(KindBaseline, 100)}}
	c.rank()
	if c.Models == nil || math.Abs(c.Models.Mean+12) > 1e-9 || math.Abs(c.Models.High-c.Models.Low-50.825) > 0.01 {
		t.Errorf("over models: %+v, want -12 ± 25.41", c.Models)
	}
	if v := c.Verdict[len(c.Verdict)-1]; !strings.HasPrefix(v, "2 models: mean difference to baseline -12.00, 95 % interval over models ") {
		t.Errorf("verdict %q, want one of both models", v)
	}
}
