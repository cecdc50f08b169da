package core

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// playedReturns plays static_2 on three episodes of the split, with nothing of this package.
func playedReturns(t *testing.T, split string, more ...map[string]any) []float64 {
	t.Helper()
	opts := cli.MergeKwargs(append(more, map[string]any{"steps": 20, "split": split})...)
	v, err := envs.Make("k8s/GangWindow-v0", 3, envs.VecOptions{Options: opts, Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	p, err := baseline.New(v, "static_2", 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := evaluation.Play(t.Context(), v, p, evaluation.Seeds(play.CompareSeed, 3))
	if err != nil {
		t.Fatal(err)
	}
	return r.Returns
}

// TestHeldOutInstances: tables are of held-out instances, those of a model that was trained on
// others too, unless the user asks for others.
func TestHeldOutInstances(t *testing.T) {
	heldOut, train := playedReturns(t, "heldout"), playedReturns(t, "train")
	if slices.Equal(heldOut, train) {
		t.Fatal("the splits have equal episodes")
	}
	folder := t.TempDir()
	mustExecute(t, small(folder, "-n", "64", "--env-kwargs", "split:train", "--json")...)
	model := filepath.Join(folder, "ppo", "k8s-GangWindow-v0_1", "k8s-GangWindow-v0.safetensors")
	for _, tc := range []struct {
		name string
		args []string
		want []float64
	}{
		{"default", []string{"--env-kwargs", "steps:20"}, heldOut},
		{"model of the other split", []string{"--env-kwargs", "steps:20", "--model", model}, heldOut},
		{"env-kwargs win", []string{"--env-kwargs", "steps:20", "--env-kwargs", "split:train"}, train},
		{"eval-env-kwargs win", []string{"--env-kwargs", "steps:20", "--eval-env-kwargs", "split:train"}, train},
		{"the model's steps, eval-env-kwargs win", []string{"--model", model, "--eval-env-kwargs", "split:train"}, train},
		{"eval-env-kwargs over env-kwargs", []string{"--env-kwargs", "split:train", "--env-kwargs", "steps:20", "--eval-env-kwargs", "split:heldout"}, heldOut},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"compare", "--env", "k8s/GangWindow-v0", "--baseline", "static_2", "--episodes", "3"}, tc.args...)
			c := clitest.Decode[play.Comparison](t, mustExecute(t, append(args, "--json")...))
			i := slices.IndexFunc(c.Rows, func(r play.Row) bool { return r.Policy == "static_2" })
			if got, want := c.Rows[i].MeanReturn, tracking.Mean(tc.want); got != want {
				t.Errorf("compare: mean return %v, want %v", got, want)
			}
			words := "3 held-out episodes"
			if slices.Equal(tc.want, train) {
				words = "3 episodes of split:train, which are not held out"
			}
			if text := mustExecute(t, args...); !strings.Contains(text, words) {
				t.Errorf("compare does not say %q:\n%s", words, text)
			}
			if slices.Contains(tc.args, "--model") {
				return
			}
			one := append([]string{"--env", "k8s/GangWindow-v0", "--baseline", "static_2", "--episodes", "3"}, tc.args...)
			if r := clitest.Decode[evalResult](t, mustExecute(t, append([]string{"eval", "--json"}, one...)...)); !slices.Equal(r.Returns, tc.want) {
				t.Errorf("eval: returns %v, want %v", r.Returns, tc.want)
			}
			if r := clitest.Decode[enjoyResult](t, mustExecute(t, append([]string{"enjoy", "--json"}, one...)...)); !slices.Equal(r.Returns, tc.want) {
				t.Errorf("enjoy: returns %v, want %v", r.Returns, tc.want)
			}
			if text := mustExecute(t, append([]string{"eval"}, one...)...); !strings.Contains(text, words) {
				t.Errorf("eval does not say %q:\n%s", words, text)
			}
		})
	}
}

// TestTrainComparesOnEvaluationOptions: train --compare plays what --eval-env-kwargs says.
// TestTrainComparesOnEvaluationOptions: the comparison that ends a training takes the options of its evaluations, but for
// what chooses the instances: they are held out.
func TestTrainComparesOnEvaluationOptions(t *testing.T) {
	for _, more := range [][]string{nil, {"--seeds", "5"}} {
		if testing.Short() && more != nil {
			break
		}
		args := small(t.TempDir(), append(more, "-n", "64", "--eval-env-kwargs", "split:train", "--eval-env-kwargs", "penalty:7", "--compare", "3", "--json")...)
		if more != nil {
			args = withoutSeed(args)
		}
		res := clitest.Decode[struct{ Comparison play.Comparison }](t, mustExecute(t, args...))
		if got := res.Comparison.EnvKwargs; got["split"] != "heldout" || fmt.Sprint(got["penalty"]) != "7" {
			t.Errorf("train %v compares on %v, want split heldout and penalty 7", more, got)
		}
		i := slices.IndexFunc(res.Comparison.Rows, func(r play.Row) bool { return r.Policy == "static_2" })
		if got, want := res.Comparison.Rows[i].MeanReturn, tracking.Mean(playedReturns(t, "heldout", map[string]any{"penalty": 7})); got != want {
			t.Errorf("train %v: static_2 has a mean return of %v, want %v", more, got, want)
		}
	}
}

// TestCompareOnServers: on one server, and on two that share the episodes, the ranking is that of
// this process, of a model and of baselines.
func TestCompareOnServers(t *testing.T) {
	a, b := hosttest.Start(t).WS, hosttest.Start(t).Unix
	folder := t.TempDir()
	mustExecute(t, small(folder, "-n", "64", "--json")...)
	model := filepath.Join(folder, "ppo", "k8s-GangWindow-v0_1", "k8s-GangWindow-v0.safetensors")
	args := []string{"compare", "--model", model, "--episodes", "4", "--baseline", "static_2", "--baseline", "dynamic_mpc", "--baseline", "one_time", "--json"}
	want := clitest.Decode[play.Comparison](t, mustExecute(t, args...))
	for _, urls := range [][]string{{a}, {a, b}} {
		more := slices.Clone(args)
		for _, u := range urls {
			more = append(more, "--url", u)
		}
		got := clitest.Decode[play.Comparison](t, mustExecute(t, more...))
		if !slices.Equal(got.URLs, urls) {
			t.Errorf("urls %v, want %v", got.URLs, urls)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(play.Comparison{}, play.Row{}), cmpopts.IgnoreFields(play.Comparison{}, "URLs")); diff != "" {
			t.Errorf("%v (-in process +on servers):\n%s", urls, diff)
		}
	}
}

// TestCompareLeavesOutOnServers: a baseline that cannot serve the options is left out there, too.
func TestCompareLeavesOutOnServers(t *testing.T) {
	args := []string{"compare", "--env", "k8s/PodBalance-v0", "--episodes", "2", "--json"}
	want := clitest.Decode[play.Comparison](t, mustExecute(t, args...))
	got := clitest.Decode[play.Comparison](t, mustExecute(t, append(args, "--url", hosttest.Start(t).WS)...))
	if diff := cmp.Diff(want.Rows, got.Rows, cmpopts.IgnoreUnexported(play.Row{})); diff != "" {
		t.Errorf("rows (-in process +on a server):\n%s", diff)
	}
	if len(got.LeftOut) != len(want.LeftOut) || !strings.Contains(strings.Join(got.LeftOut, " "), "Exact needs reset_pods or steps") {
		t.Errorf("left out %q, in process %q; want Exact with its reason", got.LeftOut, want.LeftOut)
	}
}

// TestCompareTimed: at the end of a timed episode no pod runs to speak of, so policies are ranked by
// how long pods wait; without departures by what is allocated.
func TestCompareTimed(t *testing.T) {
	args := []string{"compare", "--env", "k8s/GPUPodScheduling-v0", "--env-kwargs", "num_nodes:8", "--episodes", "3",
		"--baseline", "FGD", "--baseline", "Random", "--baseline", "BestFit", "--json"}
	for dynamics, want := range map[string]struct {
		metric string
		lower  bool
	}{"timed": {"waiting_time_s", true}, "time_free": {"alloc_pct", false}} {
		c := clitest.Decode[play.Comparison](t, mustExecute(t, append(args, "--env-kwargs", "dynamics:"+dynamics, "--env-kwargs", "num_pods:200")...))
		if c.Metric != want.metric || c.Lower != want.lower {
			t.Errorf("%s: ranked by %s, lower is better: %t; want %+v", dynamics, c.Metric, c.Lower, want)
		}
		for i, r := range c.Rows {
			if r.Mean != r.Metrics[want.metric] || len(r.Metrics) != 8 {
				t.Errorf("%s: %s has mean %v of %v", dynamics, r.Policy, r.Mean, r.Metrics)
			}
			if i > 0 && (r.Mean < c.Rows[i-1].Mean) == want.lower && r.Mean != c.Rows[i-1].Mean {
				t.Errorf("%s: %s with %v comes after %v", dynamics, r.Policy, r.Mean, c.Rows[i-1].Mean)
			}
		}
	}
}

// TestCompareSearchesOverModels: a search over a model makes a claim, as a model does.
func TestCompareSearchesOverModels(t *testing.T) {
	const model = "../../../models/pretrained/k8s-GPUPodScheduling-v2/ppo.safetensors"
	c := clitest.Decode[play.Comparison](t, mustExecute(t, "compare", "--env", "k8s/GPUPodScheduling-v2", "--env-kwargs", "num_nodes:6",
		"--episodes", "2", "--baseline", "Random", "--model", model, "--search", "posterior:m=2,base="+model, "--json"))
	for _, r := range c.Rows {
		want := map[string]string{play.KindModel: "ppo", play.KindSearch: "posterior over ppo"}[r.Kind]
		if r.Training != want || (r.Claim != nil) != (want != "") {
			t.Errorf("%s: training %q with claim %v, want %q", r.Policy, r.Training, r.Claim, want)
		}
	}
	if len(c.Verdict) != 2 || !strings.Contains(c.Verdict[0], "2 models and searches") {
		t.Errorf("verdicts %q, want two, corrected for a model and a search", c.Verdict)
	}
}

// TestCompareSearches plays searches beside a baseline. A clairvoyant one is marked, and none plays on
// servers.
func TestCompareSearches(t *testing.T) {
	args := []string{"compare", "--env", "k8s/GPUPodScheduling-v1", "--env-kwargs", "num_nodes:6", "--env-kwargs", "load_end:0.6", "--episodes", "2",
		"--baseline", "FGD", "--search", "rollout:base=FGD,k=2,m=2,horizon=3", "--search", "gumbel:base=FGD,k=2,m=1,horizon=2",
		"--search", "rollout:base=FGD,k=2,m=1,confidence=0,horizon=3,clairvoyant=true", "--json"}
	c := clitest.Decode[play.Comparison](t, mustExecute(t, args...))
	kinds := map[string]string{}
	for _, r := range c.Rows {
		kinds[r.Policy] = r.Kind
	}
	want := map[string]string{
		"FGD": play.KindBaseline, "rollout:base=FGD,k=2,m=2,horizon=3": play.KindSearch, "gumbel:base=FGD,k=2,m=1,horizon=2": play.KindSearch,
		"rollout:base=FGD,k=2,m=1,confidence=0,horizon=3,clairvoyant=true": play.KindClairvoyant,
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if _, _, err := execute(t, t.Context(), append(args, "--url", hosttest.Start(t).WS)...); err == nil || !strings.Contains(err.Error(), "of this process") {
		t.Errorf("on a server: %v, want an error", err)
	}
	if _, _, err := execute(t, t.Context(), "compare", "--env", "k8s/GPUPodScheduling-v1", "--episodes", "2", "--search", "rollout:base=FGD,k=1"); err == nil {
		t.Error("a search of one action is no error")
	}
}
