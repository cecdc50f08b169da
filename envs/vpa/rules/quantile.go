package rules

import (
	"context"
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	"github.com/kubernasium/kubernasium/envs/vpa/workload"
)

// Modes of a limit of [Quantile].
const (
	LimitNone    = "none"
	LimitRequest = "request" // equal to the request
	LimitFactor  = "factor"  // the request times a factor
	LimitPeak    = "peak"    // the window's peak times a factor, at least the request
)

// Quantile are the parameters of the baseline quantile: requests are percentiles of the usage in a window,
// times a margin, set each period.
type Quantile struct {
	CPU          float64 `opt:"cpu" valid:"0,1" doc:"quantile of CPU in the window" range:"0.3,1"`
	CPUMargin    float64 `opt:"cpu_margin" valid:"0.01,100" doc:"factor of the quantile of CPU" range:"0.8,1.5"`
	Memory       float64 `opt:"memory" valid:"0,1" doc:"quantile of memory in the window; 1 is the peak" range:"0.3,1"`
	MemoryMargin float64 `opt:"memory_margin" valid:"0.01,100" doc:"factor of the quantile of memory" range:"0.8,1.5"`
	Window       float64 `opt:"window_h" valid:"0.01,1e4" doc:"hours of the window" range:"1,48,log"`
	Period       float64 `opt:"period_min" valid:"0.01,1e6" doc:"minutes between recommendations" range:"10,1440,log"`
	Band         float64 `opt:"band" valid:"0,100" doc:"fraction by which requests may differ from the target until they are changed" range:"0,0.5"`
	CPULimit     string  `opt:"cpu_limit" valid:"none|request|factor|peak" doc:"none, request, factor (of the request) or peak (of the window, times the factor)" range:"none|request|factor|peak"`
	CPUFactor    float64 `opt:"cpu_factor" valid:"1,1000" doc:"factor of the CPU limit" range:"1,4"`
	MemoryLimit  string  `opt:"memory_limit" valid:"none|request|factor|peak" doc:"none, request, factor or peak" range:"none|request|factor|peak"`
	MemoryFactor float64 `opt:"memory_factor" valid:"1,1000" doc:"factor of the memory limit" range:"1,3"`
	CPUWindow    float64 `opt:"cpu_window_h" valid:"0,1e4" doc:"hours of the window of the quantile of CPU; 0: window_h" range:"0.05,24,log"`
	Bump         float64 `opt:"bump" valid:"1,100" doc:"least memory for a day after a kill, over the memory in use then" range:"1,2"`
}

// defaultQuantile has upstream's percentile and margin, KRR's limits and no band.
var defaultQuantile = Quantile{CPU: 0.9, CPUMargin: 1.15, Memory: 1, MemoryMargin: 1.15, Window: 24, Period: 60, Band: 0.1,
	CPULimit: LimitFactor, CPUFactor: 2, MemoryLimit: LimitFactor, MemoryFactor: 1.2, Bump: 1.2}

// QuantileRule recommends by the parameters of a Quantile.
type QuantileRule struct {
	Quantile
	floor   float64 // least memory
	until   int     // step after which floor no longer applies
	scratch []float64
}

// Clone returns a copy.
func (q *QuantileRule) Clone() QuantileRule {
	c := *q
	c.scratch = nil
	return c
}

// Copy implements [Base].
func (q *QuantileRule) Copy() Base {
	return new(q.Clone())
}

// quantileBaseline returns the baseline quantile under a name.
func quantileBaseline(name string, follow Follow) envs.Baseline {
	doc := "Requests at a quantile of the usage in a window, times a margin, each period; limits by mode."
	return envs.Parametric(envs.Baseline{Name: name, Doc: doc}, defaultQuantile, func(q Quantile) func(envs.Task) (envs.Policy, error) {
		return follow(func() Rule { return (&QuantileRule{Quantile: q}).Recommend })
	})
}

// Recommend returns a recommendation at an episode's first decision, then in each period and after each kill.
func (q *QuantileRule) Recommend(ctx context.Context, v *View, first bool) (pods.Recommendation, bool) {
	killed := q.noteKills(v, first)
	if !first && !killed && v.Step%v.stepsIn(pods.Duration(60*q.Period)) != 0 {
		return pods.Recommendation{}, false
	}
	seen := v.tail(pods.Duration(q.Window * 3600))
	ofCPU := seen
	if q.CPUWindow > 0 {
		ofCPU = v.tail(pods.Duration(q.CPUWindow * 3600))
	}
	cpu := math.Ceil(q.CPUMargin * metrics.CPUQuantile(ctx, ofCPU, q.CPU, &q.scratch))
	peak := workload.Max(seen)
	memory := float64(peak.MemoryBytes)
	if q.Memory < 1 {
		memory = metrics.MemoryQuantile(ctx, seen, q.Memory, &q.scratch)
	}
	mem := math.Ceil(max(q.MemoryMargin*memory, q.floor))
	r := banded(cpu, mem, q.Band)
	r.Limits = cluster.Resources{
		MilliCPU:    limitOf(q.CPULimit, q.CPUFactor, cpu, float64(peak.MilliCPU)),
		MemoryBytes: limitOf(q.MemoryLimit, q.MemoryFactor, mem, max(float64(peak.MemoryBytes), q.floor)),
	}
	return r, true
}

// banded returns the recommendation of a target with bounds that are a fraction away; its limits are to be set.
func banded(cpu, mem, band float64) pods.Recommendation {
	at := func(f float64) cluster.Resources {
		return cluster.Resources{MilliCPU: int64(math.Ceil(cpu * f)), MemoryBytes: int64(math.Ceil(mem * f))}
	}
	return pods.Recommendation{Lower: at(1 / (1 + band)), Target: at(1), Upper: at(1 + band), Uncapped: at(1), SetLimits: true}
}

// noteKills keeps the floor of memory, which lasts for a day after a kill. It reports whether there was a kill in the last step;
// an episode's first decision comes before any.
func (q *QuantileRule) noteKills(v *View, first bool) (killed bool) {
	if first {
		q.floor, q.until = 0, 0
		return false
	}
	for i := range v.Pods {
		if p := &v.Pods[i]; p.OOM {
			killed = true
			q.floor, q.until = max(q.floor, q.Bump*float64(p.Used.MemoryBytes)), v.Step+v.stepsIn(24*time.Hour)
		}
	}
	if v.Step >= q.until {
		q.floor = 0
	}
	return killed
}

// limitOf returns the limit of a resource by its mode; 0 for none.
func limitOf(mode string, factor, request, peak float64) int64 {
	switch mode {
	case LimitRequest:
		return int64(request)
	case LimitFactor:
		return int64(math.Ceil(factor * request))
	case LimitPeak:
		return int64(math.Ceil(max(factor*peak, request)))
	}
	return 0
}

// tunedAlone and TunedShared are the parameters of quantile_tuned, for pods with their node to themselves and for pods
// that share it; tunedTracking are those of quantile_tracking. Residual actions correct TunedShared; other values would make another environment.
var (
	tunedAlone = Quantile{CPU: 0.5, CPUMargin: 1, Memory: 0.5, MemoryMargin: 1, Window: 24, Period: 1440, Band: 0,
		CPULimit: LimitNone, CPUFactor: 2, MemoryLimit: LimitNone, MemoryFactor: 1.2, Bump: 1.2}
	TunedShared = Quantile{CPU: 0.65, CPUMargin: 1, Memory: 0.99, MemoryMargin: 1.02, Window: 24, Period: 480, Band: 0.2,
		CPULimit: LimitPeak, CPUFactor: 1.2, MemoryLimit: LimitPeak, MemoryFactor: 1.05, Bump: 1.2}
	tunedTracking = Quantile{CPU: 0.75, CPUMargin: 1, Memory: 1, MemoryMargin: 1, Window: 24, Period: 5, Band: 0.25,
		CPULimit: LimitPeak, CPUFactor: 1.2, MemoryLimit: LimitPeak, MemoryFactor: 1.05, CPUWindow: 0.05, Bump: 1.2}
)

const (
	tunedAloneDoc  = "quantile at the median of the last day, without limits, set once a day."
	tunedSharedDoc = "quantile with parameters searched on training episodes; `trainer tune --baseline quantile:cpu_limit=peak,memory_limit=peak,cpu_margin=1,memory=1,cpu_window_h=0,bump=1.2 -n 12000000` began it."
	trackingDoc    = "quantile whose CPU request follows the last three minutes, while memory and limits keep the peaks of the last day; chosen on training episodes."
)

// values returns the parameters in the form that a baseline's name gives them.
func (q *Quantile) values() map[string]any {
	values := map[string]any{}
	for _, o := range envs.DescribeOptions(q) {
		values[o.Name] = o.Default
	}
	return values
}
