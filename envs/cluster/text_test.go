package cluster_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

func TestOpText(t *testing.T) {
	// The texts are written by hand, from the notation of Kubernetes.
	for name, tc := range map[string]struct {
		op   cluster.Op
		text string
	}{
		"zero fields": {cluster.Op{Kind: cluster.Bind}, "Bind pod=0 node=0"},
		"node": {cluster.Op{Kind: cluster.AddNode, Meta: 1, MaxPods: 110, GPUs: 8, MilliGPU: 1000,
			Resources: cluster.Resources{MilliCPU: 96000, MemoryBytes: 384 << 30}},
			"AddNode meta=1 cpu=96 memory=384Gi maxPods=110 gpus=8 milliGPU=1000"},
		"pod": {cluster.Op{Kind: cluster.AddPod, Meta: 2, Duration: 90 * time.Second,
			Resources: cluster.Resources{MilliCPU: 500, MemoryBytes: 1500}, Limits: cluster.Resources{MilliCPU: 1001, MemoryBytes: 3 << 20}},
			"AddPod meta=2 cpu=500m memory=1500 limits.cpu=1001m limits.memory=3Mi duration=1m30s"},
		"devices": {cluster.Op{Kind: cluster.Bind, Pod: 7, Node: 3, Devices: 5}, "Bind pod=7 node=3 devices=0b101"},
		"unused":  {cluster.Op{Kind: cluster.Cordon, Pod: 4, Node: -1}, "Cordon pod=4 node=-1"},
		"extremes": {cluster.Op{Kind: cluster.SetUsage, Pod: math.MinInt32, Devices: math.MaxUint64, Duration: math.MinInt64,
			Resources: cluster.Resources{MilliCPU: math.MinInt64, MemoryBytes: math.MinInt64}},
			"SetUsage pod=-2147483648 cpu=-9223372036854775808m memory=-8388608Ti " +
				"devices=0b1111111111111111111111111111111111111111111111111111111111111111 duration=-2562047h47m16.854775808s"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.op.String(); got != tc.text {
				t.Errorf("String() = %q, want %q", got, tc.text)
			}
			var got cluster.Op
			if err := got.UnmarshalText([]byte(tc.text)); err != nil || got != tc.op {
				t.Errorf("UnmarshalText(%q) = %v, %v, want %v", tc.text, got, err, tc.op)
			}
			doc, err := json.Marshal([]cluster.Op{tc.op})
			if err != nil {
				t.Fatalf("Marshal = %v", err)
			}
			var back []cluster.Op
			if err := json.Unmarshal(doc, &back); err != nil {
				t.Fatalf("Unmarshal(%s) = %v", doc, err)
			}
			if d := cmp.Diff([]cluster.Op{tc.op}, back); d != "" {
				t.Errorf("JSON round trip (-want +got):\n%s", d)
			}
		})
	}
}

func TestOpTextRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":          " ",
		"kind":           "bind pod=0",
		"number of kind": "OpKind(0)",
		"key":            "Bind pods=0",
		"no value":       "Bind pod",
		"repeated":       "Bind pod=0 pod=0",
		"int32":          "Bind pod=2147483648",
		"uint8":          "AddNode gpus=256",
		"negative":       "AddNode gpus=-1",
		"unit":           "AddPod memory=1G",
		"fraction":       "AddPod cpu=0.5",
		"overflow":       "AddPod memory=8388608Ti",
		"cpu overflow":   "AddPod cpu=9223372036854776",
		"mask":           "Bind devices=0b2",
		"duration":       "AddPod duration=5",
	} {
		t.Run(name, func(t *testing.T) {
			op := cluster.Op{Kind: cluster.Evict, Pod: 5}
			if err := op.UnmarshalText([]byte(text)); err == nil {
				t.Errorf("UnmarshalText(%q) = %v, want an error", text, op)
			}
			if want := (cluster.Op{Kind: cluster.Evict, Pod: 5}); op != want {
				t.Errorf("failed UnmarshalText(%q) left %v, want %v", text, op, want)
			}
		})
	}
	if text, err := (cluster.Op{}).MarshalText(); err == nil {
		t.Errorf("MarshalText of kind 0 = %q, want an error", text)
	}
}

// FuzzOpText checks that what can be read is written to a text that reads as the same op.
func FuzzOpText(f *testing.F) {
	f.Add("AddNode meta=1 cpu=96 memory=384Gi maxPods=110 gpus=8 milliGPU=1000")
	f.Add("AddPod meta=2 cpu=500m memory=1500 limits.cpu=1001m limits.memory=3Mi duration=1m30s")
	f.Add("Bind pod=-7 node=3 devices=0b101")
	f.Add("SetUsage pod=1 cpu=-9223372036854775808m memory=-8388608Ti duration=-2562047h47m16.854775808s")
	f.Fuzz(func(t *testing.T, text string) {
		var op, again cluster.Op
		if op.UnmarshalText([]byte(text)) != nil {
			return
		}
		out, err := op.MarshalText()
		if err != nil {
			t.Fatalf("MarshalText() = %v after reading %q", err, text)
		}
		if err := again.UnmarshalText(out); err != nil || again != op {
			t.Fatalf("UnmarshalText(%q) = %v, %v, want %v", out, again, err, op)
		}
		// No op, however wild, may panic.
		s := cluster.NewState()
		_ = s.Apply(&op)
		s.Intern(cluster.Meta{Name: "a"})
		for _, o := range []cluster.Op{{Kind: cluster.AddNode, Resources: cluster.Resources{MilliCPU: 9}}, {Kind: cluster.AddPod}, op,
			{Kind: cluster.Bind}, op, {Kind: cluster.SetUsage, Resources: op.Resources}, {Kind: cluster.Resize, Resources: op.Resources, Limits: op.Limits}, op} {
			_ = s.Apply(&o)
		}
		_ = s.String()
	})
}

func TestStrings(t *testing.T) {
	for got, want := range map[string]string{
		cluster.AddNode.String():    "AddNode",
		cluster.SetUsage.String():   "SetUsage",
		cluster.OpKind(0).String():  "OpKind(0)",
		cluster.OpKind(11).String(): "OpKind(11)",
		cluster.Deleted.String():    "Deleted",
		cluster.Phase(9).String():   "Phase(9)",
		cluster.Resources{MilliCPU: 1500, MemoryBytes: 1 << 30}.String(): "1500m CPU and 1Gi memory",
	} {
		if got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
