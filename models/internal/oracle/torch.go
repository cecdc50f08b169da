package oracle

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/models"
)

//go:embed testdata/policies.json
var torchJSON []byte

// A TorchCase holds the results of a policy of Stable-Baselines3 or sb3-contrib, or of a module,
// for a sequence, and the gradients of outputs·DOutputs. testdata/policies.py wrote it.
type TorchCase struct {
	Spec       models.Spec
	Steps, N   int
	Obs, State []float32
	Starts     []bool
	DOutputs   []float32
	Outputs    []float64            `json:"outputs"`
	Grads      map[string][]float64 `json:"grads"` // in Go's layout
}

// TorchCases returns the cases of testdata/policies.py.
func TorchCases() (map[string]*TorchCase, error) {
	var cases map[string]*TorchCase
	if err := json.Unmarshal(torchJSON, &cases); err != nil {
		return nil, err
	}
	const inputs, actions, cells = 4, 2, 6
	hidden := []int{8}
	for name, spec := range map[string]models.Spec{
		"lstm":               models.RecurrentActorCritic(inputs, actions, hidden, models.Tanh, 1, cells, models.CriticLSTM),
		"lstm of two layers": models.RecurrentActorCritic(inputs, actions, hidden, models.Tanh, 2, cells, models.CriticLSTM),
		"shared lstm":        models.RecurrentActorCritic(inputs, actions, hidden, models.Tanh, 1, cells, models.SharedLSTM),
		"no critic lstm":     models.RecurrentActorCritic(inputs, actions, hidden, models.Tanh, 1, cells, models.NoLSTM),
		"gaussian":           models.GaussianActorCritic(inputs, actions, hidden, models.Tanh, 0),
		"layer norm": {
			Inputs: inputs,
			Towers: []models.Tower{{Name: "tower", Hidden: []int{8, 7}, Activation: models.Tanh, LayerNorm: true}},
			Heads:  []models.Head{{Name: "head", Size: 2, Gain: 1}},
		},
		"nodes with lstms": models.WithLSTM(models.NodeActorCritic(17, models.Nodes{Offset: 2, N: 4, Features: 3}, hidden, models.Tanh, "", models.MeanMax, true),
			1, cells, models.CriticLSTM),
	} {
		c := cases[name]
		if c == nil {
			return nil, fmt.Errorf("oracle: no case %q", name)
		}
		c.Spec, c.Steps, c.N = spec, 5, 3
		rows := c.Steps * c.N
		c.Obs, c.State, c.Starts = sines(rows*spec.Inputs, 50), sines(c.N*spec.StateSize(), 60), make([]bool, rows)
		for r := range c.Starts {
			c.Starts[r] = (2*(r/c.N)+r%c.N)%4 == 1
		}
		c.DOutputs = sines(rows*spec.Outputs(), 99)
	}
	return cases, nil
}

// Initialize sets the parameters as policies.py does.
func (c *TorchCase) Initialize(params []models.Param) {
	for k, p := range params {
		copy(p.Value, sines(len(p.Value), k))
	}
}

func sines(n, seed int) []float32 {
	x := make([]float32, n)
	for j := range x {
		x[j] = float32(0.5 * math.Sin(float64(1+j+10*seed)))
	}
	return x
}

// Check runs a network and returns the first difference from PyTorch, if any: more than 2e-6 in
// outputs, or in gradients more than 1e-4 of the largest one of the same parameter.
func (c *TorchCase) Check(net models.Recurrent) error {
	c.Initialize(net.Params())
	out, err := net.ForwardSequence(c.Obs, c.Steps, c.N, c.State, c.Starts)
	if err != nil {
		return err
	}
	if len(out) != len(c.Outputs) {
		return fmt.Errorf("%d outputs, PyTorch's are %d", len(out), len(c.Outputs))
	}
	for i, want := range c.Outputs {
		if !(math.Abs(float64(out[i])-want) <= 2e-6*(1+math.Abs(want))) {
			return fmt.Errorf("output %d is %v, PyTorch's %v", i, out[i], want)
		}
	}
	if err := net.Backward(c.DOutputs); err != nil {
		return err
	}
	if len(net.Params()) != len(c.Grads) {
		return fmt.Errorf("%d parameters, PyTorch's are %d", len(net.Params()), len(c.Grads))
	}
	for _, p := range net.Params() {
		want, ok := c.Grads[p.Name]
		if !ok || len(want) != len(p.Grad) {
			return fmt.Errorf("parameter %s has %d elements, PyTorch's %d", p.Name, len(p.Grad), len(want))
		}
		scale := 1e-3
		for _, w := range want {
			scale = max(scale, math.Abs(w))
		}
		for i, w := range want {
			if !(math.Abs(float64(p.Grad[i])-w) <= 1e-4*scale) {
				return fmt.Errorf("gradient of %s[%d] is %v, PyTorch's %v", p.Name, i, p.Grad[i], w)
			}
		}
	}
	return nil
}
