package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/agents/distribution"
	"github.com/kubernasium/kubernasium/agents/forecast"
	"github.com/kubernasium/kubernasium/agents/normalize"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/onnx"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// exportResult is the JSON of `export --json`.
type exportResult struct {
	Model   string   `json:"model"`
	ONNX    string   `json:"onnx"`
	Opset   int      `json:"opset"`
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
}

func newExport() *cobra.Command {
	var path, out string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a model in another format: ONNX",
		Long: `Write a model in another format: ONNX, opset ` + strconv.Itoa(onnx.Opset) + `.

The graph maps observations to logits and value (ppo, a2c, reinforce, ppo_lstm) or to q_values
(dqn). The greedy action is the argmax of logits or q_values over the permitted actions, of
each part of a multi-discrete action; where actions are a box, actions are given in the place of
logits, and are to be clipped to it. Normalization of observations is part of the graph. The
metadata say which environment and spaces the model is for.

An observation is the input obs, float32 of shape (N, inputs), or where it is a Dict one input
for each of its parts, by their names. A policy over nodes takes any number of nodes, and of
edges where it passes messages.

A network with an LSTM makes one step. It takes state, float32 of shape (N, state), and
episode_start, bool of shape (N), too, and gives next_state: pass that on as the next state. The
first is zeros. An lstm_forecaster's obs are the elements of the observation that the metadata
list under observation_indices, and its output quantiles are the forecast.

Stable-Baselines3 loads model files themselves: python -m kubernasium.load_sb3 --help`,
		Example: `  trainer export --model logs/ppo/classic-CartPole-v1_1/best_model.safetensors --onnx cartpole.onnx
  python -c "import onnxruntime as o, numpy as n; print(o.InferenceSession('cartpole.onnx').run(None, {'obs': n.zeros((1, 4), 'f4')}))"`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" || out == "" {
				return errors.New("want both --model and --onnx")
			}
			res, err := exportONNX(path, out)
			if err != nil {
				return err
			}
			return cli.Printf(cmd, res, "%s: ONNX opset %d, %s -> %s\n", res.ONNX, res.Opset, strings.Join(res.Inputs, ", "), strings.Join(res.Outputs, ", "))
		},
	}
	f := cmd.Flags()
	f.StringVar(&path, "model", "", "model file")
	f.StringVar(&out, "onnx", "", "ONNX file to write")
	return cmd
}

// exportONNX writes the model at path as an ONNX file.
func exportONNX(path, out string) (*exportResult, error) {
	m, err := play.ReadModel(path)
	if err != nil {
		return nil, err
	}
	scaling, err := onnxScaling(path)
	if err != nil {
		return nil, errors.Join(err, m.Net.Close())
	}
	parts, err := onnxParts(m.Meta)
	if err != nil {
		return nil, errors.Join(err, m.Net.Close())
	}
	o := onnx.Model{
		Spec: m.Meta.Spec, Params: m.Net.Params(), Parts: parts, Scaling: scaling, Outputs: onnxOutputs(m.Meta.Spec),
		Metadata: map[string]string{
			"algo": m.Meta.Algo, "env": m.Meta.Env, "env_kwargs": string(m.Meta.EnvKwargs), "timesteps": strconv.FormatInt(m.Meta.Timesteps, 10),
			"observation_space": m.Meta.ObservationSpace, "action_space": m.Meta.ActionSpace,
		},
	}
	if m.Meta.Algo == forecast.Algo {
		indices, err := json.Marshal(forecast.Inputs())
		if err != nil {
			return nil, errors.Join(err, m.Net.Close())
		}
		o.Metadata["observation_indices"] = string(indices)
	}
	err = models.WriteFileAtomic(out, func(w io.Writer) error { return onnx.Write(w, o) })
	if err := errors.Join(err, m.Net.Close()); err != nil {
		return nil, fmt.Errorf("export %s: %w", path, err)
	}
	res := &exportResult{Model: path, ONNX: out, Opset: onnx.Opset}
	res.Inputs, res.Outputs = o.Names()
	return res, nil
}

// onnxParts returns the parts of a Dict observation. It returns nil for other observations, and if the network
// reads only some elements.
func onnxParts(meta models.Checkpoint) ([]onnx.Part, error) {
	var d space.Description
	if err := json.Unmarshal([]byte(meta.ObservationSpace), &d); err != nil {
		return nil, fmt.Errorf("export: observation space: %w", err)
	}
	obs, err := space.FromDescription(d)
	if err != nil {
		return nil, fmt.Errorf("export: observation space: %w", err)
	}
	dict, ok := obs.(space.Dict)
	if !ok || meta.Algo == forecast.Algo {
		return nil, nil
	}
	var parts []onnx.Part
	for _, f := range dict.Fields {
		shape := f.Space.Describe().Shape
		if _, box := f.Space.(space.Box); !box {
			shape = []int{f.Space.Size()}
		}
		parts = append(parts, onnx.Part{Name: f.Key, Shape: shape})
	}
	return parts, nil
}

// onnxScaling returns the model's scaling of observations, or nil if there is none.
func onnxScaling(path string) (*onnx.Scaling, error) {
	f, err := models.ReadFile(path)
	if err != nil {
		return nil, err
	}
	norm, err := normalize.Load(f, f.Meta.Spec, 0, 1)
	if err != nil || !norm.Active() {
		return nil, err
	}
	mean, std, clip := norm.Affine()
	return &onnx.Scaling{Mean: mean, Std: std, Clip: clip}, nil
}

// onnxOutputs returns the outputs under the field's usual names. Networks of other kinds keep their own names.
func onnxOutputs(spec models.Spec) []onnx.Output {
	heads := onnx.Heads(spec)
	switch values := policies.GivesActionValues(spec); {
	case values && len(heads) == 1:
		return []onnx.Output{{Name: "q_values", Head: heads[0].Head}}
	case values && len(heads) == 2: // dueling: advantages, then the state's value
		return []onnx.Output{{Name: "q_values", Head: heads[0].Head, Value: heads[1].Head}}
	}
	for i, h := range heads {
		switch h.Head {
		case distribution.ActionHead:
			heads[i].Name = "logits"
			if _, deviations := spec.Head(distribution.LogStdHead); deviations > 0 {
				heads[i].Name = "actions"
			}
		case "value_net":
			heads[i].Name = "value"
		}
	}
	return heads
}
