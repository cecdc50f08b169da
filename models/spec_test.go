package models

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The names and shapes of Stable-Baselines3's PPO("MlpPolicy", "CartPole-v1").policy.state_dict(),
// with the weights transposed.
func TestActorCriticLayout(t *testing.T) {
	spec := ActorCritic(4, 2, []int{64, 64}, Tanh)
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	gain := math.Sqrt(2)
	want := []ParamInfo{
		{"mlp_extractor.policy_net.0.weight", []int{4, 64}, gain},
		{"mlp_extractor.policy_net.0.bias", []int{64}, 0},
		{"mlp_extractor.policy_net.2.weight", []int{64, 64}, gain},
		{"mlp_extractor.policy_net.2.bias", []int{64}, 0},
		{"mlp_extractor.value_net.0.weight", []int{4, 64}, gain},
		{"mlp_extractor.value_net.0.bias", []int{64}, 0},
		{"mlp_extractor.value_net.2.weight", []int{64, 64}, gain},
		{"mlp_extractor.value_net.2.bias", []int{64}, 0},
		{"action_net.weight", []int{64, 2}, 0.01},
		{"action_net.bias", []int{2}, 0},
		{"value_net.weight", []int{64, 1}, 1},
		{"value_net.bias", []int{1}, 0},
	}
	if diff := cmp.Diff(want, ParamLayout(spec)); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
	if n := spec.Outputs(); n != 3 {
		t.Errorf("Outputs() = %d, want 3", n)
	}
	for name, want := range map[string][2]int{"action_net": {0, 2}, "value_net": {2, 1}, "q_net": {0, 0}} {
		if offset, size := spec.Head(name); offset != want[0] || size != want[1] {
			t.Errorf("Head(%s) = %d, %d, want %v", name, offset, size, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"inputs":          {func(s *Spec) { s.Inputs = 0 }, "inputs: size 0"},
		"wide inputs":     {func(s *Spec) { s.Inputs = MaxWidth + 1 }, "inputs: size"},
		"no heads":        {func(s *Spec) { s.Heads = nil }, "no heads"},
		"tower name":      {func(s *Spec) { s.Towers[0].Name = "" }, "name is empty"},
		"towers alike":    {func(s *Spec) { s.Towers[1].Name = s.Towers[0].Name }, "named twice"},
		"hidden":          {func(s *Spec) { s.Towers[1].Hidden[1] = -1 }, "hidden layer 1: size -1"},
		"activation":      {func(s *Spec) { s.Towers[0].Activation = "gelu" }, `activation "gelu", want "tanh" or "relu"`},
		"no activation":   {func(s *Spec) { s.Towers[0].Activation = "" }, `activation ""`},
		"unused tower":    {func(s *Spec) { s.Heads[1].Tower = 0 }, "read by no head"},
		"head name":       {func(s *Spec) { s.Heads[0].Name = "" }, "name is empty"},
		"heads alike":     {func(s *Spec) { s.Heads[1].Name = s.Heads[0].Name }, "name of another"},
		"tower index":     {func(s *Spec) { s.Heads[0].Tower = 2 }, "reads tower 2 of 2"},
		"negative tower":  {func(s *Spec) { s.Heads[0].Tower = -1 }, "reads tower -1"},
		"size":            {func(s *Spec) { s.Heads[0].Size = 0 }, "size 0"},
		"gain":            {func(s *Spec) { s.Heads[0].Gain = math.NaN() }, "gain NaN"},
		"parameter names": {func(s *Spec) { s.Heads[0].Name = s.Towers[0].Name + ".2" }, "two parameters"},
		"too large":       {func(s *Spec) { s.Inputs, s.Towers[0].Hidden = MaxWidth, []int{MaxWidth} }, "more than"},
	} {
		s := ActorCritic(4, 2, []int{8, 8}, ReLU)
		if !s.Equal(ActorCritic(4, 2, []int{8, 8}, ReLU)) {
			t.Fatal("equal specs differ")
		}
		tt.change(&s)
		if err := s.Validate(); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if s.Equal(ActorCritic(4, 2, []int{8, 8}, ReLU)) {
			t.Errorf("%s: Equal does not see the change", name)
		}
	}
	if err := ActorCritic(4, 2, nil, "").Validate(); err != nil {
		t.Errorf("no hidden layers: %v", err)
	}
}

func TestSpecJSON(t *testing.T) {
	for _, want := range []Spec{ActorCritic(4, 2, []int{8, 8}, ReLU), ActorCritic(1, 1, nil, "")} {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Spec
		if err := json.Unmarshal(b, &got); err != nil || !got.Equal(want) {
			t.Errorf("%s became %+v, %v", b, got, err)
		}
	}
}

func TestInit(t *testing.T) {
	spec := Spec{
		Inputs: 5,
		Towers: []Tower{{Name: "t", Hidden: []int{9, 9, 3}, Activation: Tanh}},
		Heads:  []Head{{Name: "h", Size: 4, Gain: 0.01}, {Name: "v", Size: 1, Gain: 1}},
	}
	params, again := NewParams(spec), NewParams(spec)
	params[1].Value[0] = 1 // a bias, which Init sets to 0
	Init(params, spec, rand.New(rand.NewPCG(1, 2)))
	Init(again, spec, rand.New(rand.NewPCG(1, 2)))
	for i, info := range ParamLayout(spec) {
		p := params[i]
		if p.Name != info.Name || !slices.Equal(p.Value, again[i].Value) {
			t.Errorf("%s and %s differ or are out of order", p.Name, info.Name)
		}
		if len(p.Shape) == 1 {
			if slices.ContainsFunc(p.Value, func(v float32) bool { return v != 0 }) {
				t.Errorf("%s = %v, want 0", p.Name, p.Value)
			}
			continue
		}
		checkOrthogonal(t, p, info.Gain)
	}
}

// checkOrthogonal takes the shorter dimension's vectors and compares their inner products with
// gain² times the identity.
func checkOrthogonal(t *testing.T, p Param, gain float64) {
	t.Helper()
	width := p.Shape[1]
	rows, cols := max(p.Shape[0], width), min(p.Shape[0], width)
	at := func(i, j int) float64 { // i-th element of vector j
		if width == cols {
			return float64(p.Value[i*width+j])
		}
		return float64(p.Value[j*width+i])
	}
	for a := range cols {
		for b := range cols {
			dot, want := 0.0, 0.0
			for i := range rows {
				dot += at(i, a) * at(i, b)
			}
			if a == b {
				want = gain * gain
			}
			if math.Abs(dot-want) > 1e-6*gain*gain {
				t.Errorf("%s: product of vectors %d and %d is %v, want %v", p.Name, a, b, dot, want)
			}
		}
	}
}

// Without the correction of signs, LAPACK's Q has one sign for a 1×1 matrix; with it, both
// are equally likely. 400 draws give 200 ± 10; the test allows 5 standard deviations.
func TestInitSigns(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	positive := 0
	for range 400 {
		var w [1]float32
		orthogonal(w[:], 1, 1, 2, rng)
		if math.Abs(float64(w[0])) != 2 {
			t.Fatalf("w = %v, want 2 or -2", w)
		}
		if w[0] > 0 {
			positive++
		}
	}
	if positive < 150 || positive > 250 {
		t.Errorf("%d of 400 are positive", positive)
	}
}

// A weight of many inputs takes memory in proportion to its size: 100,000 × 4 here, of which
// a square matrix would have 10^10 elements.
func TestInitWide(t *testing.T) {
	w := make([]float32, 400_000)
	orthogonal(w, 100_000, 4, 1, rand.New(rand.NewPCG(5, 6)))
	checkOrthogonal(t, Param{Name: "w", Shape: []int{100_000, 4}, Value: w}, 1)
}
