package cluster

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var kindNames = [...]string{"OpKind(0)", "AddNode", "Cordon", "Uncordon", "RemoveNode", "AddPod", "Bind", "Evict", "Delete", "Resize", "SetUsage"}

func (k OpKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "OpKind(" + strconv.Itoa(int(k)) + ")"
}

// parseKind is the inverse of String for the kinds that exist.
func parseKind(name string) (OpKind, error) {
	for k := AddNode; k <= SetUsage; k++ {
		if kindNames[k] == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("cluster: kind %q, want one of %s", name, strings.Join(kindNames[1:], ", "))
}

// String returns r in the notation of Kubernetes: "500m CPU and 1Gi memory".
func (r Resources) String() string {
	return string(appendMemory(append(appendCPU(nil, r.MilliCPU), " CPU and "...), r.MemoryBytes)) + " memory"
}

// String returns the text form of op; see [Op.UnmarshalText].
func (op Op) String() string { return string(op.appendText(nil)) }

// MarshalText returns the text form of op, on one line; see [Op.UnmarshalText]. It is an error
// if the kind does not exist. JSON has it as a string.
func (op Op) MarshalText() ([]byte, error) {
	if op.Kind < AddNode || op.Kind > SetUsage {
		return nil, fmt.Errorf("cluster: kind %d, want %d to %d", op.Kind, AddNode, SetUsage)
	}
	return op.appendText(nil), nil
}

func (op *Op) appendText(b []byte) []byte {
	b = append(b, op.Kind.String()...)
	k := op.Kind
	num := func(key string, v int64, always bool) {
		if v != 0 || always {
			b = strconv.AppendInt(appendKey(b, key), v, 10)
		}
	}
	num("meta", int64(op.Meta), k == AddNode || k == AddPod)
	num("pod", int64(op.Pod), k >= Bind)
	num("node", int64(op.Node), k == Cordon || k == Uncordon || k == RemoveNode || k == Bind)
	b = appendAmounts(b, "cpu", "memory", op.Resources)
	b = appendAmounts(b, "limits.cpu", "limits.memory", op.Limits)
	num("maxPods", int64(op.MaxPods), false)
	num("gpus", int64(op.GPUs), false)
	num("milliGPU", int64(op.MilliGPU), false)
	if op.Devices != 0 {
		b = fmt.Appendf(appendKey(b, "devices"), "%#b", op.Devices)
	}
	if op.Duration != 0 {
		b = append(appendKey(b, "duration"), op.Duration.String()...)
	}
	return b
}

func appendKey(b []byte, key string) []byte { return append(append(append(b, ' '), key...), '=') }

func appendAmounts(b []byte, cpu, memory string, r Resources) []byte {
	if r.MilliCPU != 0 {
		b = appendCPU(appendKey(b, cpu), r.MilliCPU)
	}
	if r.MemoryBytes != 0 {
		b = appendMemory(appendKey(b, memory), r.MemoryBytes)
	}
	return b
}

// UnmarshalText reads the text form of an op: its kind, then the fields that are not zero as
// key=value, in any order, with blanks between. Amounts have the units of Kubernetes ("4",
// "500m"; "1024", "1Ki", "1Mi", "1Gi", "1Ti"), durations those of [time.ParseDuration], and
// devices may be binary:
//
//	AddPod meta=2 cpu=500m memory=1Gi limits.cpu=1 gpus=2 milliGPU=1000 duration=1m30s
//	Bind pod=0 node=3 devices=0b101
//
// It reads any value that a field can hold, legal or not; see [State.Check].
func (op *Op) UnmarshalText(text []byte) error {
	words := bytes.Fields(text)
	if len(words) == 0 {
		return fmt.Errorf("cluster: empty op, want a kind and key=value fields")
	}
	kind, err := parseKind(string(words[0]))
	if err != nil {
		return err
	}
	out := Op{Kind: kind}
	seen := make(map[string]bool, len(words))
	for _, w := range words[1:] {
		key, value, ok := strings.Cut(string(w), "=")
		if !ok || seen[key] {
			return fmt.Errorf("cluster: %q in op %s, want key=value with each key once", w, kind)
		}
		seen[key] = true
		if err := out.set(key, value); err != nil {
			return fmt.Errorf("cluster: %q in op %s: %w", w, kind, err)
		}
	}
	*op = out
	return nil
}

func (op *Op) set(key, value string) (err error) {
	switch key {
	case "meta":
		op.Meta, err = parseInt32(value)
	case "pod":
		op.Pod, err = parseInt32(value)
	case "node":
		op.Node, err = parseInt32(value)
	case "cpu":
		op.Resources.MilliCPU, err = parseCPU(value)
	case "memory":
		op.Resources.MemoryBytes, err = parseMemory(value)
	case "limits.cpu":
		op.Limits.MilliCPU, err = parseCPU(value)
	case "limits.memory":
		op.Limits.MemoryBytes, err = parseMemory(value)
	case "maxPods":
		op.MaxPods, err = parseInt32(value)
	case "gpus":
		var v uint64
		v, err = strconv.ParseUint(value, 10, 8)
		op.GPUs = uint8(v)
	case "milliGPU":
		op.MilliGPU, err = parseInt32(value)
	case "devices":
		op.Devices, err = strconv.ParseUint(value, 0, 64)
	case "duration":
		op.Duration, err = time.ParseDuration(value)
	default:
		return fmt.Errorf("key %q, want meta, pod, node, cpu, memory, limits.cpu, limits.memory, maxPods, gpus, milliGPU, devices or duration", key)
	}
	return err
}

func parseInt32(value string) (int32, error) {
	v, err := strconv.ParseInt(value, 10, 32)
	return int32(v), err
}

func appendCPU(b []byte, milli int64) []byte {
	if milli%1000 == 0 {
		return strconv.AppendInt(b, milli/1000, 10)
	}
	return append(strconv.AppendInt(b, milli, 10), 'm')
}

func parseCPU(value string) (int64, error) {
	if milli, ok := strings.CutSuffix(value, "m"); ok {
		return strconv.ParseInt(milli, 10, 64)
	}
	return parseScaled(value, 1000)
}

var memoryUnits = [...]struct {
	suffix string
	bytes  int64
}{{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}}

func appendMemory(b []byte, n int64) []byte {
	for _, u := range memoryUnits {
		if n != 0 && n%u.bytes == 0 {
			return append(strconv.AppendInt(b, n/u.bytes, 10), u.suffix...)
		}
	}
	return strconv.AppendInt(b, n, 10)
}

func parseMemory(value string) (int64, error) {
	for _, u := range memoryUnits {
		if n, ok := strings.CutSuffix(value, u.suffix); ok {
			return parseScaled(n, u.bytes)
		}
	}
	return strconv.ParseInt(value, 10, 64)
}

// parseScaled returns the integer in value times scale.
func parseScaled(value string, scale int64) (int64, error) {
	v, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, err
	}
	if v > math.MaxInt64/scale || v < math.MinInt64/scale {
		return 0, fmt.Errorf("%s times %d does not fit 64 bits", value, scale)
	}
	return v * scale, nil
}
