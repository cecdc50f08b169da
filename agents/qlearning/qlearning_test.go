package qlearning

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// TestInitialize: for weights of 100 inputs the bound is 0.1, and so for the bias after them.
func TestInitialize(t *testing.T) {
	params := models.NewParams(models.Spec{
		Inputs: 100,
		Towers: []models.Tower{{Name: "t", Hidden: []int{25}, Activation: models.ReLU}},
		Heads:  []models.Head{{Name: "h", Size: 400, Gain: 1}},
	})
	initialize(params, rand.New(rand.NewPCG(1, 2)))
	for i, bound := range []float64{0.1, 0.1, 0.2, 0.2} {
		lowest, highest, sum := 0.0, 0.0, 0.0
		for _, v := range params[i].Value {
			lowest, highest, sum = min(lowest, float64(v)), max(highest, float64(v)), sum+float64(v)
		}
		n := float64(len(params[i].Value))
		if lowest < -bound || highest > bound || lowest > -0.8*bound || highest < 0.8*bound || math.Abs(sum/n) > 4*bound/math.Sqrt(3*n) {
			t.Errorf("%s is from %v to %v with the mean %v, want about ±%v and 0", params[i].Name, lowest, highest, sum/n, bound)
		}
	}
}

// TestDuelingValues: advantages 1, 2, 6 and the value 10 give 10 + (1, 2, 6) − 3.
func TestDuelingValues(t *testing.T) {
	spec, err := NetworkSpec("test", policies.Defaults(), space.NewBox(0, 1, 1), space.Discrete{N: 3}, true)
	if err != nil {
		t.Fatal(err)
	}
	q := make([]float32, 3)
	got := NewHead(spec).Values(q, []float32{0, 0, 0, 0, 1, 2, 6, 10}, 1)
	if diff := cmp.Diff([]float32{8, 9, 13}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNewPolicyRefuses: a damaged checkpoint, whose action space does not fit its network.
func TestNewPolicyRefuses(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"kind":"discrete","dtype":"int64","n":[3]}`:                       true,
		`{"kind":"discrete","dtype":"int64","n":[2]}`:                       false,
		`{"kind":"multi_discrete","dtype":"int64","n":[1,2]}`:               false,
		`{"kind":"box","shape":[3],"dtype":"float32","low":[0],"high":[1]}`: false,
		`{"kind":"discrete","dtype":"int64","n":[0]}`:                       false,
		`discrete`: false,
		``:         false,
	} {
		f := models.File{Meta: models.Checkpoint{ActionSpace: text, Spec: models.Spec{Heads: []models.Head{{Size: 3}}}}}
		if _, err := NewPolicy("test", nil, f); errors.Is(err, models.ErrMismatch) == ok {
			t.Errorf("action space %s: %v", text, err)
		}
	}
}

// TestPolicyNormalizes: a model of Stable-Baselines3 with VecNormalize sees (x − mean)/√(var + 1e-8), within ±clip.
func TestPolicyNormalizes(t *testing.T) {
	stub := agentstest.NewStub(2, func(obs []float32, _ float32) []float32 { return []float32{obs[0], 0} })
	f := models.File{Meta: models.Checkpoint{
		ActionSpace: `{"kind":"discrete","dtype":"int64","n":[2]}`, Spec: models.Spec{Inputs: 1, Heads: []models.Head{{Size: 2}}},
		Metadata: map[string]string{"normalize": `{"norm_obs":true,"norm_reward":false,"clip_obs":2,"clip_reward":0}`},
	}}
	for name, x := range map[string][]float64{"obs_rms.mean": {5}, "obs_rms.var": {4}, "ret_rms.mean": {0}, "ret_rms.var": {1}, "rms.count": {9, 9}, "returns": {0}} {
		f.Put(safetensors.Tensor{Name: models.StatePrefix + name, Shape: []int{len(x)}, Data: x})
	}
	p, err := NewPolicy("test", stub, f)
	if err != nil {
		t.Fatal(err)
	}
	b, scores, actions := agentstest.BatchOf(2, 4, 6, 20), make([]float32, 6), make([]float32, 3)
	if err := p.(agents.Scorer).Scores(b, scores); err != nil {
		t.Fatal(err)
	}
	if err := p.Act(b, actions); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]float32{-0.5, 0, 0.5, 0, 2, 0}, scores, cmpopts.EquateApprox(1e-6, 0)); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float32{1, 0, 0}, actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}
