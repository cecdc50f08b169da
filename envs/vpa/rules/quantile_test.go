package rules

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

const gibibyte = 1 << 30

// amounts returns millicores and GiB as resources.
func amounts(cpu int64, memory float64) cluster.Resources {
	return cluster.Resources{MilliCPU: cpu, MemoryBytes: int64(memory * gibibyte)}
}

// TestQuantile: amounts by hand of a window of five samples, 100 m and 1 GiB to 500 m and 5 GiB, after others of 10 cores
// and 100 GiB.
func TestQuantile(t *testing.T) {
	v := View{Interval: 12 * time.Minute}
	for range 50 {
		v.Seen = append(v.Seen, amounts(10000, 100))
	}
	for i := range int64(5) {
		v.Seen = append(v.Seen, amounts(100*(i+1), float64(i+1)))
	}
	at := func(cpu int64, mem float64) cluster.Resources { // rounded up
		return cluster.Resources{MilliCPU: cpu, MemoryBytes: int64(math.Ceil(mem * gibibyte))}
	}
	for _, tc := range []struct {
		name string
		q    Quantile
		want pods.Recommendation
	}{
		// The median is 300 m, times 1.5; the peak 5 GiB, times 0.8. Bounds are a quarter away: 450/1.25, 450·1.25.
		{"limits by factors", Quantile{CPU: 0.5, CPUMargin: 1.5, Memory: 1, MemoryMargin: 0.8, Window: 1, Band: 0.25,
			CPULimit: LimitFactor, CPUFactor: 2, MemoryLimit: LimitPeak, MemoryFactor: 1.5},
			pods.Recommendation{Lower: at(360, 3.2), Target: at(450, 4), Upper: at(563, 5), Uncapped: at(450, 4), Limits: at(900, 7.5), SetLimits: true}},
		// Rank 0.9·4 = 3.6: 400 + 0.6·100 m, 4.6 GiB. The limit by the peak is no less than the request.
		{"limits by requests", Quantile{CPU: 0.9, CPUMargin: 1, Memory: 0.75, MemoryMargin: 1.5, Window: 1,
			CPULimit: LimitRequest, CPUFactor: 3, MemoryLimit: LimitPeak, MemoryFactor: 1},
			pods.Recommendation{Lower: at(460, 6), Target: at(460, 6), Upper: at(460, 6), Uncapped: at(460, 6), Limits: at(460, 6), SetLimits: true}},
		{"no limits, window of two samples", Quantile{CPU: 0, CPUMargin: 1, Memory: 0, MemoryMargin: 1, Window: 0.4, CPULimit: LimitNone, MemoryLimit: LimitNone},
			pods.Recommendation{Lower: at(400, 4), Target: at(400, 4), Upper: at(400, 4), Uncapped: at(400, 4), SetLimits: true}},
		// CPU of the last two samples, 400 and 500 m; memory and the limits' peaks of all five.
		{"a window of CPU of its own", Quantile{CPU: 0.5, CPUMargin: 1, Memory: 1, MemoryMargin: 1, Window: 1, CPUWindow: 0.4,
			CPULimit: LimitPeak, CPUFactor: 2, MemoryLimit: LimitPeak, MemoryFactor: 1},
			pods.Recommendation{Lower: at(450, 5), Target: at(450, 5), Upper: at(450, 5), Uncapped: at(450, 5), Limits: at(1000, 5), SetLimits: true}},
		{"a peak of CPU before its window", Quantile{CPU: 0, CPUMargin: 1, Memory: 0.25, MemoryMargin: 1, Window: 10, CPUWindow: 0.4,
			CPULimit: LimitPeak, CPUFactor: 1, MemoryLimit: LimitNone},
			pods.Recommendation{Lower: at(400, 100), Target: at(400, 100), Upper: at(400, 100), Uncapped: at(400, 100), Limits: at(10000, 0), SetLimits: true}},
	} {
		got, ok := (&QuantileRule{Quantile: tc.q}).Recommend(t.Context(), &v, true)
		if diff := cmp.Diff(tc.want, got); diff != "" || !ok {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestQuantileAfterKill: a kill sets a new recommendation at once, whose memory is no less than the bump times what was in
// use, for a day.
func TestQuantileAfterKill(t *testing.T) {
	v := View{Interval: time.Hour, Seen: []cluster.Resources{amounts(100, 1)}, Pods: make([]pods.Pod, 1)}
	q := QuantileRule{Quantile: Quantile{CPU: 1, CPUMargin: 1, Memory: 1, MemoryMargin: 1, Window: 24, Period: 300, Bump: 2}}
	memory := func(step int, killed bool) float64 {
		v.Step, v.Pods[0].OOM, v.Pods[0].Used = step, killed, amounts(0, 1.5)
		r, ok := q.Recommend(t.Context(), &v, step == 0)
		if !ok {
			return -1
		}
		return float64(r.Target.MemoryBytes) / gibibyte
	}
	var got []float64
	for step := range 31 {
		if m := memory(step, step == 4); m >= 0 || step == 4 {
			got = append(got, m)
		}
	}
	// Each five hours, and at the kill in step 4; until step 28.
	if want := []float64{1, 3, 3, 3, 3, 3, 3, 1}; !cmp.Equal(got, want) {
		t.Errorf("GiB recommended %v, want %v", got, want)
	}
}
