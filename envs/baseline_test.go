package envs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// settings are parameters of each type.
type settings struct {
	Share  float64 `opt:"share" doc:"A share." range:"0.5,2,log"`
	Window int     `opt:"window" doc:"A window." range:"1,9"`
	Mode   string  `opt:"mode" doc:"A mode." range:"slow|fast"`
	Safe   bool    `opt:"safe" doc:"Whether it is safe."`
	Fixed  float64 `opt:"fixed" doc:"A constant that is not tuned." valid:"-10,10"`
}

var defaults = settings{Share: 1, Window: 3, Mode: "slow", Fixed: 7}

// parametricSpec has a baseline whose policies write what they were made with to got.
func parametricSpec(got *settings) *envs.Spec {
	b := envs.Parametric(envs.Baseline{Name: "rule", Doc: "Follows settings."}, defaults, func(p settings) func(envs.Task) (envs.Policy, error) {
		return func(envs.Task) (envs.Policy, error) {
			*got = p
			return func(context.Context, *cluster.State, bool, []float32) error { return nil }, nil
		}
	})
	return &envs.Spec{ID: "toy/Parametric-v0", Baselines: []envs.Baseline{
		b,
		b.Tuned("rule_tuned", "Follows tuned settings.", map[string]any{"share": 1.5, "mode": "fast"}),
		{Name: "plain", New: b.New},
	}}
}

// TestParameters makes policies by names with parameters.
func TestParameters(t *testing.T) {
	for name, want := range map[string]settings{
		"rule":                              defaults,
		"rule:share=0.75":                   {Share: 0.75, Window: 3, Mode: "slow", Fixed: 7},
		"rule:safe=true,window=5,mode=fast": {Share: 1, Window: 5, Mode: "fast", Safe: true, Fixed: 7},
		"rule:share=3,fixed=-1e-3":          {Share: 3, Window: 3, Mode: "slow", Fixed: -0.001}, // ranges are for tuning alone
		"rule_tuned":                        {Share: 1.5, Window: 3, Mode: "fast", Fixed: 7},
	} {
		var got settings
		b, err := parametricSpec(&got).Baseline(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.New(nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	b, err := parametricSpec(new(settings)).Baseline("rule_tuned")
	if err != nil || b.StandsFor != "rule:share=1.5,mode=fast" {
		t.Errorf("the tuned baseline stands for %q (%v)", b.StandsFor, err)
	}
}

// TestParametersAreDescribed compares what tuning reads with the tags.
func TestParametersAreDescribed(t *testing.T) {
	b, err := parametricSpec(new(settings)).Baseline("rule")
	if err != nil {
		t.Fatal(err)
	}
	want := []envs.Parameter{
		{Option: envs.Option{Name: "share", Type: "float", Default: 1.0, Doc: "A share."}, Low: 0.5, High: 2, Log: true},
		{Option: envs.Option{Name: "window", Type: "int", Default: 3, Doc: "A window."}, Low: 1, High: 9},
		{Option: envs.Option{Name: "mode", Type: "string", Default: "slow", Doc: "A mode."}, Choices: []string{"slow", "fast"}},
		{Option: envs.Option{Name: "safe", Type: "bool", Default: false, Doc: "Whether it is safe."}},
		{Option: envs.Option{Name: "fixed", Type: "float", Default: 7.0, Doc: "A constant that is not tuned.", Min: new(-10.0), Max: new(10.0)}},
	}
	if diff := cmp.Diff(want, b.Parameters()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestParametersAreRefused names what is wrong.
func TestParametersAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"rule:":                   "not of the form parameter=value",
		"rule:share":              "not of the form parameter=value",
		"rule:shar=1":             `did you mean "share"?`,
		"rule:share=1,share=2":    "parameter share is given twice",
		"rule:share=much":         "want a float",
		"rule:share=NaN":          "want a float",
		"rule:window=1.5":         "want an int",
		"rule:safe=perhaps":       "want a bool",
		"rule:mode=swift":         "not one of slow, fast",
		"rule:fixed=10.5":         "fixed is 10.5, want -10 to 10",
		"plain:share=1":           "plain takes no parameters",
		"rule_tuned:share=1":      "rule_tuned takes no parameters",
		"ruler:share=1":           "it has rule, rule_tuned, plain",
		"rule:share=1,mode=fast,": "not of the form parameter=value",
	} {
		_, err := parametricSpec(new(settings)).Baseline(name)
		if !errors.Is(err, envs.ErrUnknownBaseline) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
}

// TestRangesAreChecked panics while an environment is registered, not while it is tuned.
func TestRangesAreChecked(t *testing.T) {
	makes := map[string]func(){
		"reversed": func() {
			type p struct {
				A float64 `opt:"a" range:"2,1"`
			}
			envs.Parametric(envs.Baseline{}, p{}, func(p) func(envs.Task) (envs.Policy, error) { return nil })
		},
		"logarithm of 0": func() {
			type p struct {
				A float64 `opt:"a" range:"0,1,log"`
			}
			envs.Parametric(envs.Baseline{}, p{}, func(p) func(envs.Task) (envs.Policy, error) { return nil })
		},
		"one bound": func() {
			type p struct {
				A int `opt:"a" range:"3"`
			}
			envs.Parametric(envs.Baseline{}, p{}, func(p) func(envs.Task) (envs.Policy, error) { return nil })
		},
		"no number": func() {
			type p struct {
				A int `opt:"a" range:"one,3"`
			}
			envs.Parametric(envs.Baseline{}, p{}, func(p) func(envs.Task) (envs.Policy, error) { return nil })
		},
	}
	for name, f := range makes {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a range that is %s is taken", name)
				}
			}()
			f()
		}()
	}
}

// embedded are parameters of which some are those of another baseline, too.
type embedded struct {
	settings `opt:",squash"`
	More     int `opt:"more" doc:"A number." range:"2,4"`
}

// TestParametersOfEmbeddedStructs: their ranges count as well.
func TestParametersOfEmbeddedStructs(t *testing.T) {
	b := envs.Parametric(envs.Baseline{Name: "rule"}, embedded{settings: defaults}, func(embedded) func(envs.Task) (envs.Policy, error) { return nil })
	got := map[string][2]float64{}
	for _, p := range b.Parameters() {
		got[p.Name] = [2]float64{p.Low, p.High}
	}
	want := map[string][2]float64{"share": {0.5, 2}, "window": {1, 9}, "mode": {}, "safe": {}, "fixed": {}, "more": {2, 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ranges (-want +got):\n%s", diff)
	}
}
