// Package onnx writes networks as ONNX models, for runtimes that know nothing of this module.
//
// The graph maps a batch of observations, float32 of shape (N, inputs), to one output for each
// [Output] asked for, float32 of shape (N, size). Layers are Gemm, LayerNormalization, and Tanh or
// Relu nodes whose initializers have PyTorch's names and layout. Action masks are the caller's: give the masked
// actions a logit of minus infinity, or leave them out of the maximum.
//
// The package writes protobuf's wire format message by message: of ONNX's schema it needs ten
// messages, and nothing but their encoding.
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

// Input is the name of the graph's input.
const Input = "obs"

// ErrUnsupported is wrapped by the error of [Write] about a part of a spec that it cannot
// express. The message names the part.
var ErrUnsupported = errors.New("onnx: unsupported part of the network")

// An Output is one result of the graph.
type Output struct {
	Name string // in the graph
	Head string // of the spec, whose numbers it gives
	// Value is the head of a state value V of a dueling network: the output is then V + A −
	// mean A, A being the numbers of Head. Empty is none.
	Value string
}

// Heads returns an output for each head of the spec under the head's own name. Free heads, which
// do not depend on the observation, are left out.
func Heads(spec models.Spec) []Output {
	var outputs []Output
	for _, h := range spec.Heads {
		if !h.Free {
			outputs = append(outputs, Output{Name: h.Name, Head: h.Name})
		}
	}
	return outputs
}

// A Scaling is what is done to an observation before the network sees it: each number becomes
// (x − Mean)/Std, within ±Clip.
type Scaling struct {
	Mean, Std []float32
	Clip      float32
}

// Write writes the network of that spec and those parameters as an ONNX model with metadata;
// scaling is nil if there is none. Equal arguments give equal bytes. The error wraps [ErrUnsupported], [models.ErrSpec] or
// [models.ErrMismatch], about parameters that are not the spec's, or is that of w.
func Write(w io.Writer, spec models.Spec, params []models.Param, scaling *Scaling, outputs []Output, metadata map[string]string) error {
	g, err := build(spec, params, scaling, outputs)
	if err != nil {
		return err
	}
	_, err = w.Write(g.model(metadata))
	return err
}

// known are the fields of a spec, of a tower and of a head that Write can express.
var known = map[string][]string{
	"":        {"inputs", "towers", "heads"},
	"towers.": {"name", "hidden", "activation", "layer_norm"},
	"heads.":  {"name", "tower", "size", "gain", "blocks", "free", "value"},
}

// checkSupported looks for fields, added to specs after this package was written, that say
// something about this network.
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
		list, _ := v.([]any) // others have no parts
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
