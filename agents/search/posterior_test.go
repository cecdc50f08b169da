package search

import (
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/agents/trained"
	"github.com/kubernasium/kubernasium/envs"
)

const gainsModel = "../../models/pretrained/k8s-GPUPodScheduling-v2/ppo.safetensors"

func gpuVec(t *testing.T, n int) *envs.Vec {
	t.Helper()
	v, err := envs.Make("k8s/GPUPodScheduling-v2", n, envs.VecOptions{Autoreset: envs.SameStep, Options: map[string]any{"num_nodes": 8}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v
}

func openGains(t *testing.T, v *envs.Vec) *trained.Policy {
	t.Helper()
	obs, act := v.Spaces()
	model, err := trained.OpenFor(gainsModel, obs, act)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func play(t *testing.T, v *envs.Vec, p agents.Policy) *evaluation.Result {
	t.Helper()
	r, err := evaluation.Play(t.Context(), v, p, evaluation.Seeds(1, v.NumEnvs()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPosterior: a score of 2 that counts as one future, and a gain of 5 in the mean of three others.
func TestPosterior(t *testing.T) {
	c := Config{Parameters: Parameters{Trust: 1, Futures: 3}}
	if got := c.posterior(2, 5); got != 4.25 { // (2 + 5 + 5 + 5) / 4
		t.Errorf("weighted mean %v, want 4.25", got)
	}
}

// TestPosteriorTrustsModel: a model that counts as very many futures decides alone.
func TestPosteriorTrustsModel(t *testing.T) {
	v := gpuVec(t, 1)
	alone := play(t, v, modelPolicy{openGains(t, v)})
	v = gpuVec(t, 1)
	trusted := play(t, v, mustNew(t, v, "posterior:trust=1e12,m=2,base="+gainsModel))
	if d := cmp.Diff(alone, trusted); d != "" {
		t.Errorf("a model and a search that trusts it (-model +search):\n%s", d)
	}
}

// TestPosteriorTrustsRollouts: without trust in the model the candidate with the largest gain in the futures is taken,
// which is often another one than the model's.
func TestPosteriorTrustsRollouts(t *testing.T) {
	v := gpuVec(t, 1)
	model, search := openGains(t, v), mustNew(t, v, "posterior:trust=0,k=4,m=3,base="+gainsModel)
	b, err := v.Reset(t.Context(), envs.VecResetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scores, action, others := make([]float32, len(b.Mask)), make([]float32, 1), 0
	for step := range 60 {
		if err := search.Act(b, action); err != nil {
			t.Fatal(err)
		}
		if err := model.Scores(b.Obs, scores); err != nil {
			t.Fatal(err)
		}
		four := bestOf(scores, b.Mask, 4)
		gains, err := v.Env(0).Task().(envs.GainEstimator).EstimateGains(four, 3, search.searcher.seed(b.EpisodeLength[0], b.Obs))
		if err != nil {
			t.Fatal(err)
		}
		chosen := slices.Index(four, int32(action[0]))
		if chosen < 0 || gains[chosen] != slices.Max(gains) {
			t.Fatalf("step %d: action %v of %v, want one of the largest gain of %v", step, action, four, gains)
		}
		if chosen > 0 {
			others++
		}
		if b, err = v.Step(t.Context(), action); err != nil {
			t.Fatal(err)
		}
	}
	if others == 0 {
		t.Error("the model's action has the largest gain in each of 60 steps, so that the test shows nothing")
	}
}

// bestOf returns the n permitted actions of the highest scores, one for each score.
func bestOf(scores []float32, mask []bool, n int) (best []int32) {
	taken := map[float32]bool{}
	for len(best) < n {
		at := -1
		for a, ok := range mask {
			if ok && !taken[scores[a]] && (at < 0 || scores[a] > scores[at]) {
				at = a
			}
		}
		if at < 0 {
			break
		}
		taken[scores[at]], best = true, append(best, int32(at))
	}
	return best
}

// TestPosteriorEqualWhateverGoroutines plays three environments with one goroutine and with four.
func TestPosteriorEqualWhateverGoroutines(t *testing.T) {
	with := func(procs int) *evaluation.Result {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		v := gpuVec(t, 3)
		return play(t, v, mustNew(t, v, "posterior:k=3,m=2,base="+gainsModel))
	}
	if d := cmp.Diff(with(1), with(4)); d != "" {
		t.Errorf("with 1 goroutine and 4 (-1 +4):\n%s", d)
	}
}

// TestPosteriorRefuses settings that it would not use, and environments without gains.
func TestPosteriorRefuses(t *testing.T) {
	for _, text := range []string{"base=WeightedFGD", "base=a.safetensors,horizon=3", "base=a.safetensors,clairvoyant=true", "base=a.safetensors,ms=5",
		"base=a.safetensors,advisers=FGD", "base=a.safetensors,trust=-1", "base=a.safetensors,trust=NaN"} {
		if _, err := Parse("posterior:" + text); err == nil {
			t.Errorf("posterior:%s: no error", text)
		}
	}
	for _, tc := range []struct {
		id, model string
		options   map[string]any
	}{
		{"k8s/PodBalance-v0", balanceModel, nil},
		{"k8s/GPUPodScheduling-v2", gainsModel, map[string]any{"dynamics": "timed", "num_pods": 20, "num_nodes": 4}},
	} {
		v, err := envs.Make(tc.id, 1, envs.VecOptions{Options: tc.options})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse("posterior:base=" + tc.model)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(t.Context(), v, c)
		if err == nil {
			b, resetErr := v.Reset(t.Context(), envs.VecResetOptions{})
			if resetErr != nil {
				t.Fatal(resetErr)
			}
			err = p.Act(b, make([]float32, 1))
		}
		if err == nil {
			t.Errorf("%s with %v: no error", tc.id, tc.options)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}
