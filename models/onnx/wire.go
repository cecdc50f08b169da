package onnx

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kubernasium/kubernasium/models/safetensors"
)

// Values of enumerations of onnx.proto.
const (
	typeFloat     = 1 // TensorProto.FLOAT
	typeInt64     = 7 // TensorProto.INT64
	typeBool      = 9 // TensorProto.BOOL
	attributeInt  = 2 // AttributeProto.INT
	attributeInts = 7 // AttributeProto.INTS
)

// message is a protobuf message under construction.
type message []byte

func (m *message) int(field protowire.Number, v int64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(v))
}

func (m *message) bytes(field protowire.Number, v []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

func (m *message) string(field protowire.Number, v string) { m.bytes(field, []byte(v)) }

// model returns the ModelProto.
func (g *graph) model(metadata map[string]string) []byte {
	var m, opset message
	m.int(1, IRVersion) // ir_version
	m.string(2, "kubernasium")
	m.bytes(7, g.proto()) // graph
	opset.string(1, "")   // domain: ONNX's own
	opset.int(2, Opset)
	m.bytes(8, opset) // opset_import
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		var entry message
		entry.string(1, key)
		entry.string(2, metadata[key])
		m.bytes(14, entry) // metadata_props
	}
	return m
}

// proto returns the GraphProto.
func (g *graph) proto() []byte {
	var m message
	for _, n := range g.nodes {
		m.bytes(1, n.proto())
	}
	m.string(2, "policy")
	for _, t := range g.initializers {
		m.bytes(5, tensorProto(t))
	}
	for _, i := range g.inputs {
		m.bytes(11, i.proto())
	}
	for _, o := range g.outputs {
		m.bytes(12, o.proto())
	}
	return m
}

// proto returns the NodeProto.
func (n node) proto() []byte {
	var m message
	for _, x := range n.inputs {
		m.string(1, x)
	}
	m.string(2, n.output)
	m.string(3, n.name)
	m.string(4, n.op)
	for _, name := range slices.Sorted(maps.Keys(n.ints)) {
		var a message
		a.string(1, name)
		a.int(3, n.ints[name])
		a.int(20, attributeInt)
		m.bytes(5, a)
	}
	for _, name := range slices.Sorted(maps.Keys(n.lists)) {
		var a message
		a.string(1, name)
		for _, v := range n.lists[name] {
			a.int(8, v)
		}
		a.int(20, attributeInts)
		m.bytes(5, a)
	}
	return m
}

// tensorProto returns the TensorProto of a parameter or constant, whose data are float32 or int64.
func tensorProto(t safetensors.Tensor) []byte {
	var m message
	for _, d := range t.Shape {
		m.int(1, int64(d))
	}
	var raw []byte
	kind := int64(typeFloat)
	switch values := t.Data.(type) {
	case []float32:
		raw = make([]byte, 0, 4*len(values))
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
	case []int64:
		kind = typeInt64
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
		}
	}
	m.int(2, kind)
	m.string(8, t.Name)
	m.bytes(9, raw)
	return m
}

// proto returns the ValueInfoProto.
func (v value) proto() []byte {
	var shape, tensor, kind, m message
	for _, d := range v.dims {
		var p message
		if d.param != "" {
			p.string(2, d.param) // dim_param
		} else {
			p.int(1, int64(d.size)) // dim_value
		}
		shape.bytes(1, p)
	}
	tensor.int(1, v.kind)
	tensor.bytes(2, shape)
	kind.bytes(1, tensor) // TypeProto.tensor_type
	m.string(1, v.name)
	m.bytes(2, kind)
	return m
}
