package recommender_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

const mebi = 1 << 20

// ramp returns from, from+1, … to, in a mixed order.
func ramp(from, to int) (x []float64) {
	n := to - from + 1
	for i := range n {
		x = append(x, float64(from+i*37%n)) // 37 is no divisor of any n used
	}
	return x
}

func TestKRR(t *testing.T) {
	c := recommender.DefaultKRRConfig()
	type amounts = recommender.Amounts
	for _, tc := range []struct {
		name          string
		cpu, memory   [][]float64
		oom           float64
		simple, limit recommender.Requests
	}{
		{
			// One pod with 1 … 100 m: the 95th percentile is at rank 0.95·99 = 94.05, so 95.05 m and
			// 96 m when rounded up; the 66th at 65.34 is 66.34, so 67 m; the 96th at 95.04 is 96.04, so
			// 97 m. The peak of 200 MiB and 15 % are 230 MiB.
			name: "one pod", cpu: [][]float64{ramp(1, 100)}, memory: [][]float64{ramp(101*mebi, 101*mebi+98), {200 * mebi}},
			simple: recommender.Requests{Request: amounts{96, 230 * mebi}, Limit: amounts{0, 230 * mebi}},
			limit:  recommender.Requests{Request: amounts{67, 230 * mebi}, Limit: amounts{97, 230 * mebi}},
		},
		{
			// A second pod with 101 … 200 m: simple takes that pod's 195.05, so 196 m. Of all 200
			// points, the 66th percentile is at rank 0.66·199 = 131.34, so 132.34 m and 133 m; the 96th
			// at 191.04 is 192.04, so 193 m. The peak of 199.5 MiB and 15 % are 229.425, so 230 MiB.
			name: "two pods", cpu: [][]float64{ramp(1, 100), ramp(101, 200)}, memory: [][]float64{ramp(1, 100), {199.5 * mebi}},
			simple: recommender.Requests{Request: amounts{196, 230 * mebi}, Limit: amounts{0, 230 * mebi}},
			limit:  recommender.Requests{Request: amounts{133, 230 * mebi}, Limit: amounts{193, 230 * mebi}},
		},
		{
			// An OOM kill at a limit of 256 MiB: and 25 % are 320 MiB, more than the peak's 230.
			name: "OOM kill", cpu: [][]float64{ramp(1, 100)}, memory: [][]float64{ramp(1, 100), {200 * mebi}}, oom: 256 * mebi,
			simple: recommender.Requests{Request: amounts{96, 320 * mebi}, Limit: amounts{0, 320 * mebi}},
			limit:  recommender.Requests{Request: amounts{67, 320 * mebi}, Limit: amounts{97, 320 * mebi}},
		},
		{
			// At least 10 m and 100 MiB.
			name: "idle", cpu: [][]float64{make([]float64, 100)}, memory: [][]float64{ramp(1, 100)},
			simple: recommender.Requests{Request: amounts{10, 100 * mebi}, Limit: amounts{0, 100 * mebi}},
			limit:  recommender.Requests{Request: amounts{10, 100 * mebi}, Limit: amounts{10, 100 * mebi}},
		},
		{
			// An odd constant has itself as any percentile, without a millicore of rounding noise.
			name: "constant", cpu: [][]float64{{250, 250, 250}, slices.Repeat([]float64{250}, 98)}, memory: [][]float64{ramp(1, 100)},
			simple: recommender.Requests{Request: amounts{250, 100 * mebi}, Limit: amounts{0, 100 * mebi}},
			limit:  recommender.Requests{Request: amounts{250, 100 * mebi}, Limit: amounts{250, 100 * mebi}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &recommender.History{MilliCPU: tc.cpu, MemoryBytes: tc.memory, OOMLimit: tc.oom}
			if got, err := c.Simple(h); err != nil || got != tc.simple {
				t.Errorf("Simple: %+v, %v; want %+v", got, err, tc.simple)
			}
			if got, err := c.SimpleLimit(h); err != nil || got != tc.limit {
				t.Errorf("SimpleLimit: %+v, %v; want %+v", got, err, tc.limit)
			}
		})
	}
}

func TestKRRTooFewPoints(t *testing.T) {
	c := recommender.DefaultKRRConfig()
	for _, tc := range []struct {
		name        string
		cpu, memory [][]float64
		want        recommender.Amounts
	}{
		{"none", nil, nil, recommender.Amounts{}},
		{"99 of CPU", [][]float64{ramp(1, 99)}, [][]float64{ramp(1, 50), ramp(51, 100), nil}, recommender.Amounts{MemoryBytes: 100 * mebi}},
		{"99 of memory", [][]float64{nil, slices.Repeat([]float64{70}, 100)}, [][]float64{ramp(1, 99)}, recommender.Amounts{MilliCPU: 70}},
	} {
		h := &recommender.History{MilliCPU: tc.cpu, MemoryBytes: tc.memory}
		for name, f := range map[string]func(*recommender.History) (recommender.Requests, error){"Simple": c.Simple, "SimpleLimit": c.SimpleLimit} {
			if got, err := f(h); !errors.Is(err, recommender.ErrTooFewPoints) || got.Request != tc.want {
				t.Errorf("%s with %s: %v, %v; want %v and ErrTooFewPoints", name, tc.name, got.Request, err, tc.want)
			}
		}
	}
}

// KRR leaves the history as it is.
func TestKRRIsPure(t *testing.T) {
	h := &recommender.History{MilliCPU: [][]float64{ramp(1, 100)}, MemoryBytes: [][]float64{ramp(1, 100)}}
	c := recommender.DefaultKRRConfig()
	for _, f := range []func(*recommender.History) (recommender.Requests, error){c.Simple, c.SimpleLimit} {
		if _, err := f(h); err != nil {
			t.Fatal(err)
		}
	}
	if h.MilliCPU[0][1] != 38 { // the second of the mixed order
		t.Error("the history has been sorted")
	}
}

func TestGoldilocks(t *testing.T) {
	type amounts = recommender.Amounts
	b := recommender.Bounds{Lower: amounts{196, 1027523334}, Target: amounts{1168, 6117462922}, Upper: amounts{1683088, 8815264070602}}
	if got, want := recommender.GuaranteedFrom(b), (recommender.Requests{Request: b.Target, Limit: b.Target}); got != want {
		t.Errorf("Guaranteed: %+v, want %+v", got, want)
	}
	if got, want := recommender.BurstableFrom(b), (recommender.Requests{Request: b.Lower, Limit: b.Upper}); got != want {
		t.Errorf("Burstable: %+v, want %+v", got, want)
	}
}
