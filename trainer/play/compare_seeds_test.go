package play

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// TestReadSeedsRow reads back the table of a comparison of three seeds. Their means are 90, 92 and 88, together 90, and
// the best baseline has 100.
func TestReadSeedsRow(t *testing.T) {
	row := func(policy, kind, training string, values ...float64) Row {
		return Row{Policy: policy, Kind: kind, Training: training, Mean: tracking.Mean(values), Values: values}
	}
	c := Comparison{Metric: "cost", Lower: true, Metrics: []envs.Metric{{Column: "cost", Lower: true}}, Rows: []Row{
		row("rule", KindBaseline, "", 100, 101, 99), row("bound", KindClairvoyant, "", 80, 82, 78),
		row("ppo a", KindModel, "ppo", 90, 91, 89), row("ppo b", KindModel, "ppo", 92, 93, 91), row("ppo c", KindModel, "ppo", 88, 89, 87)}}
	c.rank()
	var b strings.Builder
	if err := c.Table().WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	table, err := tracking.ReadCSV(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadSeedsRow(table)
	if err != nil {
		t.Fatal(err)
	}
	if got.Interval == "" || got.P == "" || got.Verdict == "" {
		t.Errorf("%+v, want an interval, p and a verdict", got)
	}
	got.Interval, got.P, got.Verdict = "", "", ""
	want := &SeedsRow{Training: "ppo", Seeds: 3, Metric: "cost", Mean: "90.00", Difference: "-10.00", BestBaseline: "rule", BaselineMean: "100.00",
		Best: ModelMean{"c", "88.00"}, Worst: ModelMean{"b", "92.00"}, others: []string{"bound (clairvoyant)", "rule"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(SeedsRow{})); d != "" {
		t.Errorf("row (-want +got):\n%s", d)
	}
	spec := &envs.Spec{ID: "k8s/X-v0", Metrics: c.Metrics, Baselines: []envs.Baseline{{Name: "rule"}, {Name: "bound", Clairvoyant: true}}}
	if err := got.CheckEnv(spec, nil); err != nil {
		t.Errorf("its own environment: %v", err)
	}
	spec.Baselines = spec.Baselines[:1]
	if err := got.CheckEnv(spec, nil); err == nil || !strings.Contains(err.Error(), "k8s/X-v0 has no baseline bound (clairvoyant)") {
		t.Errorf("an environment without the clairvoyant one: %v", err)
	}
}

// FuzzReadSeedsRow: any CSV text gives an error or a training with a baseline, and no panic.
func FuzzReadSeedsRow(f *testing.F) {
	f.Add("policy,mean cost,95 % interval,difference to rule,95 % interval,p (Holm),verdict\nrule,2,,,,,\n\"ppo, 2 seeds\",1,,-1,,0.01,better\n")
	f.Add("policy,mean cost,95 % interval,difference to rule,95 % interval,p (Holm),verdict\nrule,2,,,,,\n\"ppo, 0 seeds\",1,,-1,,0.01,better\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := tracking.ReadCSV(strings.NewReader(text))
		if err != nil {
			return
		}
		if row, err := ReadSeedsRow(table); err == nil && (row.Training == "" || row.BaselineMean == "") {
			t.Errorf("%+v of %q", row, text)
		}
	})
}
