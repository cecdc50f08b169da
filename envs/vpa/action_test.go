package vpa

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// TestEncodeDecode: recommendations of the kind that upstream gives come back within a
// thousandth.
func TestEncodeDecode(t *testing.T) {
	o := DefaultOptions()
	c := newCodec(&o)
	want := pods.Recommendation{
		Lower: cluster.Resources{MilliCPU: 196, MemoryBytes: 1027523334}, Target: cluster.Resources{MilliCPU: 1168, MemoryBytes: 6117462922},
		Upper: cluster.Resources{MilliCPU: 29200, MemoryBytes: 100e9}, Uncapped: cluster.Resources{MilliCPU: 1168, MemoryBytes: 6117462922},
	}
	action := make([]float32, 2*elements)
	c.encode(&want, references{}, action)
	got := c.decode(action, references{})
	for _, pair := range [][2]int64{
		{got.Lower.MilliCPU, want.Lower.MilliCPU}, {got.Target.MilliCPU, want.Target.MilliCPU}, {got.Upper.MilliCPU, want.Upper.MilliCPU},
		{got.Lower.MemoryBytes, want.Lower.MemoryBytes}, {got.Target.MemoryBytes, want.Target.MemoryBytes}, {got.Upper.MemoryBytes, want.Upper.MemoryBytes},
	} {
		if d := float64(pair[0]-pair[1]) / float64(pair[1]); d > 1e-3 || d < -1e-3 {
			t.Errorf("%d came back as %d", pair[1], pair[0])
		}
	}
}

// TestNearest: on the discrete environment, what lies within the bounds is kept, and else the
// least factor is taken that reaches the target.
func TestNearest(t *testing.T) {
	for _, tc := range []struct {
		now, lower, target, upper int64
		factor                    float64
	}{
		{1000, 900, 1100, 1200, 1},
		{1000, 1050, 1100, 1200, 1.25},
		{1000, 1001, 1050, 1050, 1.05},
		{1000, 5000, 5000, 5000, 2},
		{1000, 100, 100, 100, 0.5},
		{1000, 700, 700, 700, 0.8},
		{1000, 960, 960, 960, 1}, // 0.95 would go below
	} {
		if got := Factors[nearest(tc.now, tc.lower, tc.target, tc.upper)]; got != tc.factor {
			t.Errorf("nearest(%d, %d, %d, %d): factor %v, want %v", tc.now, tc.lower, tc.target, tc.upper, got, tc.factor)
		}
	}
}
