package qlearning

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
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
