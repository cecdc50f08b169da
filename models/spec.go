package models

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// The names of activation functions.
const (
	Tanh = "tanh"
	ReLU = "relu"
)

// HiddenGain is the gain of the orthogonal initialization of hidden layers, as
// Stable-Baselines3 has it.
const HiddenGain = math.Sqrt2

// Limits of a [Spec]. A spec may come from a file, so that they bound what it can allocate.
const (
	MaxWidth      = 1 << 20 // of the inputs and of each layer
	MaxParameters = 1 << 28 // of a whole network: 1 GiB as float32
)

// ErrSpec is wrapped by the errors of [Spec.Validate] and of those who call it.
var ErrSpec = errors.New("models: invalid spec")

// A Spec says what a network computes. It is plain data: equal specs describe equal
// functions, given equal parameters. A row of Inputs numbers passes through each tower, and
// each head is an affine function of its tower's last layer.
type Spec struct {
	Inputs int     `json:"inputs"` // numbers in one observation
	Towers []Tower `json:"towers"`
	Heads  []Head  `json:"heads"` // in the order of a row of outputs
}

// A Tower is a stack of dense layers, each followed by the activation. One without hidden
// layers passes its input through.
type Tower struct {
	Name       string `json:"name"`       // PyTorch's name, such as "mlp_extractor.policy_net"
	Hidden     []int  `json:"hidden"`     // widths
	Activation string `json:"activation"` // Tanh or ReLU; may be empty if Hidden is
}

// A Head is a dense layer without activation, whose result is a part of the outputs.
type Head struct {
	Name  string  `json:"name"`  // PyTorch's name, such as "action_net"
	Tower int     `json:"tower"` // index of the tower that it reads
	Size  int     `json:"size"`  // numbers in its part of an output row
	Gain  float64 `json:"gain"`  // of the orthogonal initialization, greater than 0
}

// ActorCritic returns the network of Stable-Baselines3's MlpPolicy with separate towers for
// policy and value: the heads are "action_net", with one output for each of actions and gain
// 0.01, and "value_net", with one output and gain 1.
func ActorCritic(inputs, actions int, hidden []int, activation string) Spec {
	tower := func(name string) Tower {
		return Tower{Name: "mlp_extractor." + name, Hidden: append([]int(nil), hidden...), Activation: activation}
	}
	return Spec{
		Inputs: inputs,
		Towers: []Tower{tower("policy_net"), tower("value_net")},
		Heads: []Head{
			{Name: "action_net", Tower: 0, Size: actions, Gain: 0.01},
			{Name: "value_net", Tower: 1, Size: 1, Gain: 1},
		},
	}
}

// Equal reports whether s and t are the same description.
func (s Spec) Equal(t Spec) bool {
	return s.Inputs == t.Inputs && slices.Equal(s.Heads, t.Heads) &&
		slices.EqualFunc(s.Towers, t.Towers, func(a, b Tower) bool {
			return a.Name == b.Name && a.Activation == b.Activation && slices.Equal(a.Hidden, b.Hidden)
		})
}

// Outputs returns the length of an output row, the sum of the sizes of the heads.
func (s Spec) Outputs() int {
	n := 0
	for _, h := range s.Heads {
		n += h.Size
	}
	return n
}

// Head returns where in an output row the head of that name lies. The size is 0 if there is
// no such head.
func (s Spec) Head(name string) (offset, size int) {
	for _, h := range s.Heads {
		if h.Name == name {
			return offset, h.Size
		}
		offset += h.Size
	}
	return 0, 0
}

// Validate reports why no network can be built from s. The error wraps [ErrSpec].
func (s Spec) Validate() error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrSpec, err)
	}
	return nil
}

func (s Spec) validate() error {
	if err := checkWidth(s.Inputs); err != nil {
		return fmt.Errorf("inputs: %w", err)
	}
	if len(s.Heads) == 0 {
		return errors.New("no heads, want at least one")
	}
	// Two layers of one name would share a parameter's name, too.
	seen := map[string]bool{}
	for _, t := range s.Towers {
		if err := t.validate(); err != nil {
			return fmt.Errorf("tower %q: %w", t.Name, err)
		}
		if seen[t.Name] {
			return fmt.Errorf("tower %q is named twice", t.Name)
		}
		seen[t.Name] = true
	}
	used := make([]bool, len(s.Towers))
	for _, h := range s.Heads {
		if err := h.validate(len(s.Towers)); err != nil {
			return fmt.Errorf("head %q: %w", h.Name, err)
		}
		if seen[h.Name] {
			return fmt.Errorf("head %q has the name of another head or tower", h.Name)
		}
		seen[h.Name] = true
		used[h.Tower] = true
	}
	for i, t := range s.Towers {
		if !used[i] {
			return fmt.Errorf("tower %q is read by no head", t.Name)
		}
	}
	return s.checkParams()
}

// checkParams finds parameters that share a name or are too many.
func (s Spec) checkParams() error {
	names, total := map[string]bool{}, 0
	for _, p := range ParamLayout(s) {
		if names[p.Name] {
			return fmt.Errorf("two parameters are named %q", p.Name)
		}
		names[p.Name] = true
		// A width is at most 2^20, so that neither the product nor the sum overflows.
		if total += size(p.Shape); total > MaxParameters {
			return fmt.Errorf("more than %d parameters", MaxParameters)
		}
	}
	return nil
}

func (t Tower) validate() error {
	if t.Name == "" {
		return errors.New("the name is empty")
	}
	for i, n := range t.Hidden {
		if err := checkWidth(n); err != nil {
			return fmt.Errorf("hidden layer %d: %w", i, err)
		}
	}
	switch t.Activation {
	case Tanh, ReLU:
		return nil
	case "":
		if len(t.Hidden) == 0 {
			return nil
		}
	}
	return fmt.Errorf("activation %q, want %q or %q", t.Activation, Tanh, ReLU)
}

func (h Head) validate(towers int) error {
	if h.Name == "" {
		return errors.New("the name is empty")
	}
	if h.Tower < 0 || h.Tower >= towers {
		return fmt.Errorf("reads tower %d of %d", h.Tower, towers)
	}
	if err := checkWidth(h.Size); err != nil {
		return err
	}
	if !(h.Gain > 0) || math.IsInf(h.Gain, 1) {
		return fmt.Errorf("gain %v, want a number greater than 0", h.Gain)
	}
	return nil
}

func checkWidth(n int) error {
	if n < 1 || n > MaxWidth {
		return fmt.Errorf("size %d, want 1 to %d", n, MaxWidth)
	}
	return nil
}
