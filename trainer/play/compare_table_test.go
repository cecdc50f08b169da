package play

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// TestPrint: the printed table says where and what was played, which direction is better, which policy
// knows the future, every difference to the best baseline, the verdict, and who is missing. The
// differences of 90, 92 and 88 to 100, 101 and 99 are -10, -9 and -11; Student's t of 4.303 for two degrees
// of freedom makes their interval -10 ± 2.48, and the two-sided p-value of t = 10√3 is 0.00332.
func TestPrint(t *testing.T) {
	row := func(policy, kind string, values ...float64) Row {
		return Row{Policy: policy, Kind: kind, Mean: tracking.Mean(values), Low: 1, High: 2, MeanReturn: -7, Metrics: map[string]float64{"moves": 3}, Values: values}
	}
	c := Comparison{Env: "k8s/X-v0", URLs: []string{"ws://a"}, Metric: "cost", Lower: true, Metrics: []envs.Metric{{Column: "cost"}, {Column: "moves"}},
		Rows:    []Row{row("rule", KindBaseline, 100, 101, 99), row("ppo", KindModel, 90, 92, 88), row("bound", KindClairvoyant, 80, 82, 78)},
		LeftOut: []string{"exact: too large"}, NotPlayed: []string{"slow", "slower"}, played: "3 held-out episodes"}
	c.rank()
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		if words := strings.Join(strings.Fields(line), " "); strings.Trim(words, "- ") != "" {
			got = append(got, words)
		}
	}
	want := []string{
		"k8s/X-v0 over [ws://a], 3 held-out episodes, lower is better",
		"policy mean cost 95 % interval difference to rule 95 % interval p (Holm) verdict moves return",
		"bound (clairvoyant) 80.00 [1.00, 2.00] -20.00 [-22.48, -17.52] 3.00 -7.00",
		"ppo 90.00 [1.00, 2.00] -10.00 [-12.48, -7.52] 0.0033 better 3.00 -7.00",
		"rule 100.00 [1.00, 2.00] 3.00 -7.00",
		"ppo is better than the best baseline, rule, by 10.00 % (difference -10.00, 95 % interval [-12.48, -7.52]; p = 0.0033)",
		"left out: exact: too large",
		"not played, because of an interrupt: slow, slower",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("print (-want +got):\n%s", d)
	}
	c.URLs, c.Lower = nil, false
	b.Reset()
	if err := c.Print(&b); err != nil || !strings.Contains(b.String(), "k8s/X-v0, 3 held-out episodes, higher is better") {
		t.Errorf("in process, higher is better: %v\n%s", err, b.String())
	}
}

// TestPrintDecimals: a difference of some thousandths is in print where all means are below 10. Those of 0.94 and 0.952 to
// 0.95 and 0.97 are -0.01 and -0.018, -0.014 in the mean.
func TestPrintDecimals(t *testing.T) {
	row := func(policy, kind string, values ...float64) Row {
		return Row{Policy: policy, Kind: kind, Mean: tracking.Mean(values), Low: 0.9, High: 1, Values: values}
	}
	c := Comparison{Metric: "throughput", Rows: []Row{row("rule", KindBaseline, 0.95, 0.97), row("ppo", KindModel, 0.94, 0.952)}}
	c.rank()
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0.9600  [0.9000, 1.0000]", "0.9460  [0.9000, 1.0000]", "-0.0140", "difference -0.0140, 95 % interval [-0.0648, 0.0368]"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	c.Rows[0].Mean = 10
	if got := c.Decimals(); got != 2 {
		t.Errorf("%d decimals beside a mean of 10, want 2", got)
	}
}

// TestModelName: a model that is compared alone has its algorithm's name, several have their files'.
func TestModelName(t *testing.T) {
	for _, tc := range []struct {
		path  string
		alone bool
		want  string
	}{
		{"logs/ppo/X_3/best_model.safetensors", true, "ppo"},
		{"logs/ppo/X_3/best_model.safetensors", false, "ppo X_3"},
		{"models/X/ppo.safetensors", false, "ppo"},
		{"mine.safetensors", false, "ppo mine"},
	} {
		if got := ModelName(tc.path, "ppo", tc.alone); got != tc.want {
			t.Errorf("ModelName(%q, alone %v) = %q, want %q", tc.path, tc.alone, got, tc.want)
		}
	}
}

// TestCompareOfOne: an interval needs two episodes, and a comparison an environment.
func TestCompareOfOne(t *testing.T) {
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compare(t.Context(), CompareConfig{Spec: spec, Episodes: 1}); err == nil || !strings.Contains(err.Error(), "--episodes 1, want at least 2") {
		t.Errorf("one episode: %v", err)
	}
	if _, _, err := EnvOf("", nil); err == nil || !strings.Contains(err.Error(), "neither --env nor --model") {
		t.Errorf("neither an id nor a model: %v", err)
	}
}

// TestBars: a plot marks clairvoyant policies as the table does, and leaves out a policy that is more than eight
// times as far from the best as the median, unless it is a model.
func TestBars(t *testing.T) {
	res := &Comparison{Rows: []Row{
		{Policy: "sees", Kind: KindClairvoyant, Mean: 10}, {Policy: "ppo", Kind: KindModel, Mean: 11}, {Policy: "rule", Kind: KindBaseline, Mean: 12},
		{Policy: "never", Kind: KindBaseline, Mean: 29}, {Policy: "a2c", Kind: KindModel, Mean: 40},
	}}
	var got []string
	bars, omitted := res.bars()
	for _, b := range bars {
		got = append(got, b.Name)
	}
	if want := "sees (clairvoyant), ppo, rule, a2c"; strings.Join(got, ", ") != want {
		t.Errorf("bars of %s, want %s", strings.Join(got, ", "), want)
	}
	if omitted != 1 {
		t.Errorf("the plot omits %d policies, want 1", omitted)
	}
}
