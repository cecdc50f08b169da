package onnx

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/models"
)

// tiny maps 2 numbers to 1: one head, no hidden layer.
var tiny = models.Spec{Inputs: 2, Towers: []models.Tower{{Name: "t"}}, Heads: []models.Head{{Name: "h", Size: 1, Gain: 1}}}

func tinyParams() []models.Param {
	p := models.NewParams(tiny)
	copy(p[0].Value, []float32{1, -2})
	p[1].Value[0] = 0.5
	return p
}

// TestBytes compares a model with bytes worked out by hand from onnx.proto. (What a runtime
// makes of whole models, TestONNXRuntimeAgrees of package trainer tests.)
func TestBytes(t *testing.T) {
	var got bytes.Buffer
	if err := Write(&got, Model{Spec: tiny, Params: tinyParams(), Outputs: []Output{{Name: "y", Head: "h"}}, Metadata: map[string]string{"k": "v"}}); err != nil {
		t.Fatal(err)
	}
	text := func(s string) string { return hex.EncodeToString([]byte(s)) }
	value := func(name string, size string) string { // of 21 bytes for a name of 1
		return "0a01" + text(name) + "120f" + "0a0d" + "0801" + "1209" + "0a0312014e" + "0a0208" + size
	}
	nodeGemm := "0a03" + text("obs") + "0a08" + text("h.weight") + "0a06" + text("h.bias") +
		"1206" + text("h/gemm") + "1a06" + text("h/gemm") + "2204" + text("Gemm") +
		"2a0d" + "0a06" + text("transB") + "1801" + "a00102"
	nodeIdentity := "0a06" + text("h/gemm") + "1201" + text("y") + "1a01" + text("y") + "2208" + text("Identity")
	weight := "0801" + "0802" + "1001" + "4208" + text("h.weight") + "4a08" + "0000803f" + "000000c0"
	bias := "0801" + "1001" + "4206" + text("h.bias") + "4a04" + "0000003f"
	in := "0a03" + text("obs") + "120f" + "0a0d" + "0801" + "1209" + "0a0312014e" + "0a020802"
	length := func(s string) string { return hex.EncodeToString([]byte{byte(len(s) / 2)}) }
	part := func(tag, s string) string { return tag + length(s) + s }
	graph := part("0a", nodeGemm) + part("0a", nodeIdentity) + "1206" + text("policy") + part("2a", weight) + part("2a", bias) +
		part("5a", in) + part("62", value("y", "01"))
	n := len(graph) / 2
	want := "0808" + "120b" + text("kubernasium") +
		"3a" + hex.EncodeToString([]byte{byte(n&0x7f | 0x80), byte(n >> 7)}) + graph +
		"4204" + "0a00" + "1011" + "7206" + "0a01" + text("k") + "1201" + text("v")
	if hex.EncodeToString(got.Bytes()) != want {
		t.Errorf("model\n%x, want\n%s", got.Bytes(), want)
	}
}

func TestRefuses(t *testing.T) {
	y := []Output{{Name: "y", Head: "h"}}
	other := tinyParams()
	other[0].Name = "g.weight"
	for name, tc := range map[string]struct {
		spec    models.Spec
		params  []models.Param
		outputs []Output
		is      error
		want    string
	}{
		"no head":      {tiny, tinyParams(), []Output{{Name: "y", Head: "g"}}, nil, `head "g", which the spec lacks`},
		"input's name": {tiny, tinyParams(), []Output{{Name: Input, Head: "h"}}, nil, "taken"},
		"name twice":   {tiny, tinyParams(), append(y, y...), nil, "taken"},
		"no output":    {tiny, tinyParams(), nil, nil, "no outputs"},
		"no value":     {tiny, tinyParams(), []Output{{Name: "y", Head: "h", Value: "v"}}, nil, `"v" is no state value`},
		"few params":   {tiny, tinyParams()[:1], y, models.ErrMismatch, "1 parameters, want 2"},
		"other params": {tiny, other, y, models.ErrMismatch, "g.weight"},
		"invalid spec": {models.Spec{}, nil, y, models.ErrSpec, "inputs"},
	} {
		err := Write(io.Discard, Model{Spec: tc.spec, Params: tc.params, Outputs: tc.outputs})
		if err == nil || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	gaussian := models.GaussianActorCritic(2, 1, nil, "", 0)
	if err := Write(io.Discard, Model{Spec: gaussian, Params: models.NewParams(gaussian), Outputs: []Output{{Name: "y", Head: "log_std"}}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an output of a free head: %v, want ErrUnsupported", err)
	}
	if err := Write(io.Discard, Model{Spec: tiny, Params: tinyParams(), Scaling: &Scaling{Mean: []float32{1}, Std: []float32{1, 2}}, Outputs: y}); err == nil || !strings.Contains(err.Error(), "scaling of 1 and 2 numbers, want 2") {
		t.Errorf("a scaling of another size: %v", err)
	}
	if err := Write(iotest.TruncateWriter(io.Discard, 0), Model{Spec: tiny, Params: tinyParams(), Outputs: Heads(tiny)}); err != nil {
		t.Errorf("Write with an output for each head: %v", err)
	}
}

// TestRefusesParts: names and sizes of the parts of an observation.
func TestRefusesParts(t *testing.T) {
	recurrent := models.RecurrentActorCritic(2, 2, []int{4}, models.Tanh, 1, 5, models.CriticLSTM)
	for name, tc := range map[string]struct {
		spec  models.Spec
		parts []Part
		want  string
	}{
		"too few":  {tiny, []Part{{"a", []int{1}}}, "want 2 numbers in all"},
		"too many": {tiny, []Part{{"a", []int{1}}, {"b", []int{2}}}, "want 2 numbers in all"},
		"twice":    {tiny, []Part{{"a", []int{1}}, {"a", []int{1}}}, `"a" of a part`},
		"reserved": {recurrent, []Part{{State, []int{2}}}, `"state" of a part`},
	} {
		err := Write(io.Discard, Model{Spec: tc.spec, Params: models.NewParams(tc.spec), Parts: tc.parts, Outputs: Heads(tc.spec)})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	output := []Output{{Name: NextState, Head: "action_net"}}
	if err := Write(io.Discard, Model{Spec: recurrent, Params: models.NewParams(recurrent), Outputs: output}); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("an output named %s: %v", NextState, err)
	}
}

// TestDimensions: nodes and edges have names for their numbers, where these are the caller's
// choice.
func TestDimensions(t *testing.T) {
	edges := &models.Edges{Offset: 6, N: 3}
	spec := func(n models.Nodes) models.Spec {
		return models.NodeActorCritic(14, n, []int{4}, models.Tanh, models.SAGE, models.Mean, false)
	}
	free := spec(models.Nodes{N: 3, Features: 2, Edges: edges})
	fixed := spec(models.Nodes{N: 3, Features: 2, Edges: &models.Edges{Fixed: [][2]int{{0, 1}}}})
	parts := []Part{{"nodes", []int{3, 2}}, {"edges", []int{3, 2}}, {"rest", []int{2}}}
	for name, tc := range map[string]struct {
		m    Model
		want [][]dim
	}{
		"any number": {Model{Spec: free, Parts: parts}, [][]dim{{batchDim, nodesDim, {size: 2}}, {batchDim, edgesDim, {size: 2}}, {batchDim, {size: 2}}}},
		"fixed":      {Model{Spec: fixed, Parts: parts}, [][]dim{{batchDim, {size: 3}, {size: 2}}, {batchDim, {size: 3}, {size: 2}}, {batchDim, {size: 2}}}},
		"no parts":   {Model{Spec: free}, [][]dim{{batchDim, {size: 14}}}},
	} {
		tc.m.Params, tc.m.Outputs = models.NewParams(tc.m.Spec), Heads(tc.m.Spec)
		g, err := build(tc.m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got [][]dim
		for _, i := range g.inputs {
			got = append(got, i.dims)
		}
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(dim{})); diff != "" {
			t.Errorf("%s: dimensions (-want +got):\n%s", name, diff)
		}
	}
}

// A spec with a part of the future is refused by that part's name; a part that says nothing
// about this network is not in the way.
func TestFutureParts(t *testing.T) {
	for name, tc := range map[string]struct {
		fields map[string]any
		want   string
	}{
		"today's":     {map[string]any{"inputs": 2.0, "towers": []any{map[string]any{"name": "t"}}}, ""},
		"unused":      {map[string]any{"lstm": 0.0, "graph": nil, "detach": false, "scorer": "", "edges": []any{}}, ""},
		"of the spec": {map[string]any{"lstm": map[string]any{"size": 64.0}}, "the spec has lstm = map[size:64]"},
		"of a tower":  {map[string]any{"towers": []any{map[string]any{"dropout": true}}}, "the spec has towers.dropout = true"},
		"of nodes":    {map[string]any{"nodes": map[string]any{"edges": map[string]any{"weights": 3}}}, "the spec has edges.weights = 3"},
		"of a head":   {map[string]any{"heads": []any{map[string]any{"kind": "gaussian"}}}, "the spec has heads.kind = gaussian"},
	} {
		err := checkFields("", tc.fields)
		if tc.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if tc.want != "" && (!errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
