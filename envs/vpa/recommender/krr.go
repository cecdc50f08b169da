package recommender

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A History holds the usage of a container in the pods of one controller: by pod, samples at a
// constant interval. KRR takes the last 14 days at 1.25 min.
type History struct {
	MilliCPU    [][]float64 // millicores
	MemoryBytes [][]float64 // bytes
	OOMLimit    float64     // highest memory limit in bytes at an OOM kill; 0 if none or to be ignored
}

// Requests are requests and limits; a limit of 0 is none.
type Requests struct {
	Request, Limit Amounts
}

// ErrTooFewPoints means that a history has too few points. Errors of [KRRConfig.Simple] and [KRRConfig.SimpleLimit]
// wrap it.
var ErrTooFewPoints = errors.New("recommender: too few points for KRR")

// A KRRConfig holds the settings of Robusta KRR.
type KRRConfig struct {
	CPUPercentile     float64 // of simple, in percent of (0, 100]; default 95
	CPURequest        float64 // percentile of simple_limit, in (0, 100]; default 66
	CPULimit          float64 // percentile of simple_limit, in (0, 100]; default 96
	MemoryBuffer      float64 // percent above the memory peak; default 15
	OOMMemoryBuffer   float64 // percent above the limit of an OOM kill; default 25
	PointsRequired    int     // of all pods, for each resource; default 100
	CPUMinMillicores  int64   // default 10
	MemoryMinMebibyte int64   // default 100
}

// DefaultKRRConfig returns KRR's defaults.
func DefaultKRRConfig() KRRConfig {
	return KRRConfig{
		CPUPercentile: 95, CPURequest: 66, CPULimit: 96,
		MemoryBuffer: 15, OOMMemoryBuffer: 25,
		PointsRequired:   100,
		CPUMinMillicores: 10, MemoryMinMebibyte: 100,
	}
}

// Simple returns KRR's strategy simple. The CPU request is the highest percentile of any pod, and there is no CPU
// limit; the memory request and limit are the highest peak and a buffer, or the limit of an OOM kill and its buffer if
// that is larger. CPU is rounded up to millicores, memory to MiB. A resource with too few points has no request, and
// the error wraps [ErrTooFewPoints].
//
// Source: github.com/robusta-dev/krr, robusta_krr/strategies/simple.py and core/runner.py.
func (c KRRConfig) Simple(h *History) (Requests, error) {
	r, err := c.memory(h)
	if n := points(h.MilliCPU); n < c.PointsRequired {
		return r, errors.Join(err, c.tooFew("CPU", n))
	}
	var highest float64
	for _, pod := range h.MilliCPU {
		if len(pod) > 0 {
			highest = max(highest, percentile(slices.Clone(pod), c.CPUPercentile))
		}
	}
	r.Request.MilliCPU = c.milliCPU(highest)
	return r, err
}

// SimpleLimit returns KRR's strategy simple_limit: as Simple, but the CPU request and limit are
// percentiles of the points of all pods together.
//
// Source: github.com/robusta-dev/krr, robusta_krr/strategies/simple_limit.py.
func (c KRRConfig) SimpleLimit(h *History) (Requests, error) {
	r, err := c.memory(h)
	if n := points(h.MilliCPU); n < c.PointsRequired {
		return r, errors.Join(err, c.tooFew("CPU", n))
	}
	all := slices.Concat(h.MilliCPU...)
	r.Request.MilliCPU = c.milliCPU(percentile(all, c.CPURequest))
	r.Limit.MilliCPU = c.milliCPU(percentile(all, c.CPULimit))
	return r, err
}

// memory returns the memory request and limit.
func (c KRRConfig) memory(h *History) (Requests, error) {
	if n := points(h.MemoryBytes); n < c.PointsRequired {
		return Requests{}, c.tooFew("memory", n)
	}
	var peak float64
	for _, pod := range h.MemoryBytes {
		for _, x := range pod {
			peak = max(peak, x)
		}
	}
	bytes := max(peak*(1+c.MemoryBuffer/100), h.OOMLimit*(1+c.OOMMemoryBuffer/100))
	bytes = max(math.Ceil(bytes/mebi), float64(c.MemoryMinMebibyte)) * mebi
	a := Amounts{MemoryBytes: amount(bytes)}
	return Requests{Request: a, Limit: a}, nil
}

func (c KRRConfig) milliCPU(x float64) int64 { return max(amount(math.Ceil(x)), c.CPUMinMillicores) }

func (c KRRConfig) tooFew(resource string, n int) error {
	return fmt.Errorf("%w: %d of %s, want at least %d", ErrTooFewPoints, n, resource, c.PointsRequired)
}

func points(pods [][]float64) (n int) {
	for _, pod := range pods {
		n += len(pod)
	}
	return n
}

// percentile sorts x, which must not be empty, and interpolates linearly between its order
// statistics, as Prometheus' quantile_over_time and NumPy's percentile do.
func percentile(x []float64, p float64) float64 {
	slices.Sort(x)
	rank := p / 100 * float64(len(x)-1)
	low := int(rank)
	high := min(low+1, len(x)-1)
	return x[low] + (rank-float64(low))*(x[high]-x[low])
}
