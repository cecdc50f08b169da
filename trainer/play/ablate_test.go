package play

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// actions is a policy that plays given actions and keeps the observations it saw.
type actions struct {
	next [][]float32
	seen [][]float32
}

func (a *actions) Act(b *envs.Batch, dst []float32) error {
	copy(dst, a.next[0])
	a.next, a.seen = a.next[1:], append(a.seen, slices.Clone(b.Obs))
	return nil
}

// TestConstantAction, by hand: the mean of a Box's elements, and the most frequent choice that the mask
// permits of a Discrete and of each part of a MultiDiscrete.
func TestConstantAction(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		name   string
		act    space.Space
		played [][]float32 // of two environments, by step
		mask   []bool
		want   []float32
	}{
		{"box", space.NewBox(0, 9, 2), [][]float32{{1, 2, 3, 4}, {5, 6, 3, 0}}, nil, []float32{3, 3, 3, 3}},
		{"discrete", space.Discrete{N: 3}, [][]float32{{2, 1}, {2, 1}, {2, 0}}, []bool{yes, yes, yes, yes, yes, no}, []float32{2, 1}},
		{"multi", space.MultiDiscrete{NVec: []int{2, 3}}, [][]float32{{1, 2, 1, 0}, {1, 2, 0, 2}},
			[]bool{yes, yes, yes, yes, no, yes, no, yes, yes, yes}, []float32{1, 0, 0, 2}},
	} {
		p := &actions{next: tc.played}
		r := newActionRecorder(p, tc.act)
		b := &envs.Batch{Reward: make([]float64, 2), Mask: tc.mask}
		dst := make([]float32, 2*tc.act.Size())
		for range tc.played {
			if err := r.Act(b, dst); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.constant().Act(b, dst); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, dst); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestAblate: a comparison of a shipped model, which balances the pole for all of 500 steps, lets it play
// without its state, too. A constant push drops the pole within ten steps.
func TestAblate(t *testing.T) {
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	res, err := Compare(t.Context(), CompareConfig{Spec: spec, Models: []string{"../../models/pretrained/classic-CartPole-v1/ppo.safetensors"},
		Baselines: []string{"random"}, Episodes: 10, Seed: 77, Ablate: true})
	if err != nil {
		t.Fatal(err)
	}
	means := map[string]float64{}
	for _, r := range res.Rows {
		means[r.Policy] = r.Mean
		if want := r.Policy == "ppo (constant action)" || r.Policy == "ppo (observations shuffled)"; want != (r.Kind == KindAblation) || want && r.Claim != nil {
			t.Errorf("%s is of kind %s with claim %v", r.Policy, r.Kind, r.Claim)
		}
	}
	if means["ppo"] != 500 || means["ppo (constant action)"] > 12 || means["ppo (constant action)"] < 8 || means["ppo (observations shuffled)"] > 250 {
		t.Errorf("means %v", means)
	}
	if len(res.States) != 1 || !res.States[0].Uses || res.States[0].Constant.Mean != 500-means["ppo (constant action)"] {
		t.Errorf("states %+v, want one that uses its state", res.States)
	}
	if v := res.Verdict[len(res.Verdict)-1]; !strings.HasPrefix(v, "ppo uses its state: difference to its own constant action +49") {
		t.Errorf("verdict %q", v)
	}
}

// TestStatesAreCorrected: of eight episodes, 1 ± 1 better than both ablations has the one-sided p-value
// 0.0166 (t is √7 with 7 degrees of freedom). Two such models have 0.0331, more than 0.025. Better than one
// ablation alone is not enough.
func TestStatesAreCorrected(t *testing.T) {
	ablated := func(name string, values []float64) Row { return Row{Policy: name, Kind: KindAblation, Values: values} }
	model := func(name string, shuffled float64) []Row {
		return []Row{ofTraining(name, values(99, 1, 8)...), ablated(name+constantName, values(100, 0, 8)), ablated(name+shuffledName, values(shuffled, 0, 8))}
	}
	for _, tc := range []struct {
		name string
		rows []Row
		want bool
	}{
		{"one", model("m", 100), true},
		{"two", append(model("m", 100), model("n", 100)...), false},
		{"equal on shuffled observations", model("m", 99), false},
	} {
		c := Comparison{Lower: true, Rows: tc.rows}
		c.rank()
		for _, s := range c.States {
			if s.Uses != tc.want {
				t.Errorf("%s: %+v, want uses %v", tc.name, s, tc.want)
			}
		}
		if len(c.States) == 0 {
			t.Errorf("%s: no state test", tc.name)
		}
	}
}

// TestAblateEqualNames: two models whose files have equal names are compared with their own ablations. One of them has
// weights of 0, which push to one side only, so that its own constant action has the same returns.
func TestAblateEqualNames(t *testing.T) {
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	const shipped = "../../models/pretrained/classic-CartPole-v1/ppo.safetensors"
	f, err := models.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Tensors {
		if values, ok := p.Data.([]float32); ok {
			clear(values)
		}
	}
	zero := filepath.Join(t.TempDir(), "ppo.safetensors")
	if err := models.WriteFile(zero, f); err != nil {
		t.Fatal(err)
	}
	res, err := Compare(t.Context(), CompareConfig{Spec: spec, Models: []string{shipped, zero}, Baselines: []string{"random"}, Episodes: 4, Seed: 77, Ablate: true})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]tracking.Estimate{}
	for _, s := range res.States {
		got[s.Model] = s.Constant
	}
	if len(got) != 2 || got["ppo"].Mean < 480 || got["ppo (2)"] != (tracking.Estimate{}) {
		t.Errorf("differences to constant actions %v, want about 490 of ppo and none of ppo (2)", got)
	}
}
