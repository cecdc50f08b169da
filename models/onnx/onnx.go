// Package onnx writes networks as ONNX models, for other runtimes.
//
// The graph maps a batch of N observations to one output per [Output], float32 of shape (N, size).
// An observation is one input "obs" of shape (N, inputs) or, if the caller names its parts, one
// input for each of them, float32 of shape (N, shape of the part). If the nodes of a [models.Spec]
// are a separate part, the model accepts any number of them: that dimension is "nodes", and that of
// a part of edges "edges". Edges fixed in the spec, and layers that read the whole observation, fix
// the number of nodes.
//
// A network with LSTMs makes one step. It has two more inputs, "state" of shape (N, state) and
// "episode_start", bool of shape (N), and one more output, "next_state": the caller passes the
// state on, initially zeros. Where episode_start is true, the model treats the state before the
// step as zeros.
//
// Layers are Gemm or MatMul, LayerNormalization, and Tanh or Relu nodes whose initializers have
// PyTorch's names and layout; messages of SAGE and GCN layers are products with an adjacency matrix
// that the graph computes from the edges. The model does not detect invalid edges, for which
// [models.Network.Forward] returns an error. The caller applies action masks: give masked actions a
// logit of minus infinity, or exclude them from the maximum.
//
// The package encodes protobuf's wire format itself: it needs only ten messages of ONNX's schema.
//
// Source: https://github.com/onnx/onnx/blob/v1.17.0/onnx/onnx.proto (the messages) and
// docs/Operators.md there (the operators), opset 17.
package onnx

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/kubernasium/kubernasium/models"
)

// Versions that a model declares: onnxruntime 1.12 of 2022 and newer run it.
const (
	IRVersion = 8
	Opset     = 17
)

// Fixed names of inputs and outputs.
const (
	Input        = "obs"           // the observation, if its parts have no names
	State        = "state"         // of the LSTMs before the step: [models.Recurrent]
	EpisodeStart = "episode_start" // whether the observation is the first of an episode
	NextState    = "next_state"    // of the LSTMs after the step
)

// ErrUnsupported is wrapped by the error of [Write] about a part of a spec that it cannot
// express. The message names the part.
var ErrUnsupported = errors.New("onnx: unsupported part of the network")

// An Output is one result of the graph.
type Output struct {
	Name string // in the graph
	Head string // of the spec
	// Value is the head of the state value V of a dueling network, or empty. With it, the output is
	// V + A − mean A, where A are the numbers of Head.
	Value string
}

// Heads returns an output for each head of the spec under the head's own name. A joined head is
// part of the output of the head before it. Free heads, which do not depend on the observation, are
// omitted.
func Heads(spec models.Spec) []Output {
	var outputs []Output
	for _, h := range spec.Heads {
		if !h.Free && !h.Joined {
			outputs = append(outputs, Output{Name: h.Name, Head: h.Name})
		}
	}
	return outputs
}

// A Scaling normalizes an observation before the network sees it: each number becomes (x −
// Mean)/Std, within ±Clip. Edges and their mask are not scaled. In a spec with nodes, all nodes
// share mean and standard deviation of a feature.
type Scaling struct {
	Mean, Std []float32
	Clip      float32
}

// A Part is a part of an observation that is a separate input.
type Part struct {
	Name  string
	Shape []int // of one observation
}

// A Model is a network with the names, the scaling and the metadata of its file.
type Model struct {
	Spec     models.Spec
	Params   []models.Param
	Parts    []Part   // of an observation, in order; nil: a single input, [Input]
	Scaling  *Scaling // nil: none
	Outputs  []Output
	Metadata map[string]string
}

// Names returns the names of the inputs and outputs of m.
func (m Model) Names() (inputs, outputs []string) {
	for _, p := range m.Parts {
		inputs = append(inputs, p.Name)
	}
	if m.Parts == nil {
		inputs = []string{Input}
	}
	for _, o := range m.Outputs {
		outputs = append(outputs, o.Name)
	}
	if m.Spec.StateSize() > 0 {
		return append(inputs, State, EpisodeStart), append(outputs, NextState)
	}
	return inputs, outputs
}

// Write writes m as an ONNX model. Equal models give equal bytes. The error wraps [ErrUnsupported],
// or, if parameters or parts do not fit the spec, [models.ErrSpec] or [models.ErrMismatch];
// otherwise it is that of w.
func Write(w io.Writer, m Model) error {
	g, err := build(m)
	if err != nil {
		return err
	}
	_, err = w.Write(g.model(m.Metadata))
	return err
}

// known lists the fields of a spec and of its parts that Write can express.
var known = map[string][]string{
	"":        {"inputs", "nodes", "lstms", "towers", "heads"},
	"nodes.":  {"offset", "n", "features", "edges"},
	"edges.":  {"offset", "n", "masked", "mask_offset", "fixed", "undirected"},
	"lstms.":  {"name", "hidden", "layers", "pool"},
	"towers.": {"name", "hidden", "activation", "layer_norm", "reads", "pool", "layer", "detach", "beside"},
	"heads.":  {"name", "tower", "size", "gain", "joined", "blocks", "free", "value"},
}

// checkSupported returns an error if the spec uses a field that Write does not know.
func checkSupported(spec models.Spec) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("onnx: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("onnx: %w", err)
	}
	return checkFields("", fields)
}

func checkFields(prefix string, fields map[string]any) error {
	for name, v := range fields {
		if !slices.Contains(known[prefix], name) {
			if v == nil || reflect.ValueOf(v).IsZero() {
				continue
			}
			if list, ok := v.([]any); ok && len(list) == 0 {
				continue
			}
			return fmt.Errorf("%w: the spec has %s%s = %v, which this exporter does not know", ErrUnsupported, prefix, name, v)
		}
		list, _ := v.([]any) // other values have no parts
		if m, ok := v.(map[string]any); ok {
			list = []any{m}
		}
		for _, part := range list {
			if m, ok := part.(map[string]any); ok {
				if err := checkFields(name+".", m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
