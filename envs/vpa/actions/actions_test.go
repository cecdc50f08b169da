package actions

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// TestEncodeDecode: recommendations of the kind that upstream gives come back within a
// thousandth.
func TestEncodeDecode(t *testing.T) {
	o := pods.DefaultOptions()
	scales := NewScales(&o)
	want := pods.Recommendation{
		Lower: cluster.Resources{MilliCPU: 196, MemoryBytes: 1027523334}, Target: cluster.Resources{MilliCPU: 1168, MemoryBytes: 6117462922},
		Upper: cluster.Resources{MilliCPU: 29200, MemoryBytes: 100e9}, Uncapped: cluster.Resources{MilliCPU: 1168, MemoryBytes: 6117462922},
	}
	action := make([]float32, Size)
	scales.Encode(&want, action)
	got := scales.Decode(action)
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

// TestCorrect: elements of ½ and -½ of a request of 1000 m with a limit of 2000 m.
func TestCorrect(t *testing.T) {
	resources := func(cpu int64, gib float64) cluster.Resources {
		return cluster.Resources{MilliCPU: cpu, MemoryBytes: int64(gib * (1 << 30))}
	}
	base := pods.Recommendation{Lower: resources(900, 1), Target: resources(1000, 2), Upper: resources(1100, 4), Limits: resources(2000, 0), SetLimits: true}
	got := Correct(&base, []float32{1, 0.5, -1, 0.25})
	// CPU doubled, guard 0.5+0.5: limit equal. Memory halved, guard 0+0.25: limit four times the request.
	want := pods.Recommendation{Lower: resources(1800, 0.5), Target: resources(2000, 1), Upper: resources(2200, 2), Limits: resources(2000, 4), SetLimits: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Correct(&base, []float32{0, -0.5, 0, -1}); got.Limits != (cluster.Resources{}) {
		t.Errorf("guards of 0 and less give limits %+v, want none", got.Limits)
	}
}

func millicoresAndGiB(cpu int64, gib float64) cluster.Resources {
	return cluster.Resources{MilliCPU: cpu, MemoryBytes: int64(gib * (1 << 30))}
}

// TestScaled: a CPU request of 1000 m is doubled, which raises its limit of 1500 m; memory is halved, its bounds come
// to the target, and its limit is doubled.
func TestScaled(t *testing.T) {
	base := pods.Recommendation{Lower: millicoresAndGiB(800, 1), Target: millicoresAndGiB(1000, 2), Upper: millicoresAndGiB(1250, 4),
		Limits: millicoresAndGiB(1500, 3), SetLimits: true}
	got := Scaled(&base, []float32{0.5, 0, 0, -1, -1, 1, 0})
	want := pods.Recommendation{Lower: millicoresAndGiB(1600, 1), Target: millicoresAndGiB(2000, 1), Upper: millicoresAndGiB(2500, 1),
		Limits: millicoresAndGiB(2000, 6), SetLimits: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Half of the way in logarithms: 1000/sqrt(1.25) and 1000*sqrt(1.25).
	got = Scaled(&base, []float32{0, -0.5, 0, 0, 0, 0, 0})
	if got.Lower.MilliCPU != 894 || got.Upper.MilliCPU != 1118 || got.Lower.MemoryBytes != base.Lower.MemoryBytes {
		t.Errorf("bounds %+v and %+v, want 894 m and 1118 m with memory as before", got.Lower, got.Upper)
	}
	unlimited := base
	unlimited.Limits = cluster.Resources{}
	if got := Scaled(&unlimited, []float32{0, 0, 1, 0, 0, 1, 0}); got.Limits != unlimited.Limits {
		t.Errorf("limits %+v where the baseline has none", got.Limits)
	}
}

// TestKeeps: elements of 0.5 keep CPU within a factor of 2 and memory within one of 1.41, if no limit is added or
// removed.
func TestKeeps(t *testing.T) {
	keep := []float32{0, 0.5, 0, 0, 0.5, 0, 0}
	limits := millicoresAndGiB(4000, 4)
	for _, tc := range []struct {
		name             string
		requests, limits cluster.Resources
		action           []float32
		want             bool
	}{
		{"near", millicoresAndGiB(1999, 1.4), limits, keep, true},
		{"near below", millicoresAndGiB(501, 0.71), limits, keep, true},
		{"far CPU", millicoresAndGiB(2002, 1), limits, keep, false},
		{"far memory", millicoresAndGiB(1000, 1.5), limits, keep, false},
		{"a limit more", millicoresAndGiB(1000, 1), millicoresAndGiB(0, 4), keep, false},
		{"zeros", millicoresAndGiB(1000, 1), limits, make([]float32, ScaledSize), false},
	} {
		r := pods.Recommendation{Target: millicoresAndGiB(1000, 1), Limits: limits, SetLimits: true}
		if got := Keeps(&r, tc.requests, tc.limits, tc.action); got != tc.want {
			t.Errorf("%s: kept %v, want %v", tc.name, got, tc.want)
		}
	}
	if Restarts([]float32{0, 0, 0, 0, 0, 0, 0.5}) || !Restarts([]float32{0, 0, 0, 0, 0, 0, 0.6}) {
		t.Error("pods restart above 0.5 only")
	}
}

// TestEncodeScaled: encoding a scaled recommendation gives the elements of its requests and limits.
func TestEncodeScaled(t *testing.T) {
	base := pods.Recommendation{Target: millicoresAndGiB(1000, 2), Limits: millicoresAndGiB(4000, 3), SetLimits: true}
	action := make([]float32, ScaledSize)
	r := pods.Recommendation{Target: millicoresAndGiB(2000, 1)}
	EncodeScaled(&r, millicoresAndGiB(2000, 0), &base, action)
	if diff := cmp.Diff([]float32{0.5, 0, -1, -1, 0, 1, 0}, action); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
