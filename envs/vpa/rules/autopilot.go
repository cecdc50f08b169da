package rules

import (
	"context"
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// Autopilot are the parameters of the baseline autopilot: an ensemble of models for each resource, after
// [upstream.Autopilot]. Weights are relative to that of samples below the request.
type Autopilot struct {
	CPU          float64 `opt:"cpu_overrun" valid:"0,1e6" doc:"weight of CPU samples above the request" range:"0.3,30,log"`
	Memory       float64 `opt:"memory_overrun" valid:"0,1e6" doc:"weight of memory samples above the request" range:"1,300,log"`
	Change       float64 `opt:"change" valid:"0,1e6" doc:"weight of a change of the request, and of the model" range:"0.01,10,log"`
	Fast         float64 `opt:"fast_h" valid:"0.01,1e4" doc:"half-life of the fastest models in hours; there are three for each resource" range:"0.5,12,log"`
	Slow         float64 `opt:"slow_factor" valid:"1,1e3" doc:"half-life of the slowest models over that of the fastest" range:"1,16,log"`
	Margin       float64 `opt:"margin" valid:"0,10" doc:"margin of the middle models; the others have none, and twice as much" range:"0,0.3"`
	CPULimit     string  `opt:"cpu_limit" valid:"none|request|factor" doc:"none, request or factor (of the request)" range:"none|request|factor"`
	CPUFactor    float64 `opt:"cpu_factor" valid:"1,1000" doc:"factor of the CPU limit" range:"1,4"`
	MemoryLimit  string  `opt:"memory_limit" valid:"none|request|factor" doc:"none, request or factor" range:"none|request|factor"`
	MemoryFactor float64 `opt:"memory_factor" valid:"1,1000" doc:"factor of the memory limit" range:"1,3"`
}

// defaultAutopilot weighs an overrun of CPU like the reward's equal weights do, and treats memory as the paper's hard
// limit.
var defaultAutopilot = Autopilot{CPU: 10, Memory: 100, Change: 0.3, Fast: 3, Slow: 8, Margin: 0.1,
	CPULimit: LimitFactor, CPUFactor: 2, MemoryLimit: LimitFactor, MemoryFactor: 1.2}

// Windows and buckets of the ensembles: 5 minutes, and steps of 5 % from 1 m and 1 MiB to more than 2000 cores and 2
// TiB.
const (
	autopilotWindow  = 5 * time.Minute
	autopilotRatio   = 1.05
	autopilotBuckets = 300
	autopilotSmooth  = 24 * time.Hour // half-life of the models' costs
)

// ensembles are the recommenders of CPU and of memory.
type ensembles struct {
	p       *Autopilot
	cpu     *upstream.Autopilot
	memory  *upstream.Autopilot
	next    int // first sample of metrics that was not yet used
	scratch []float64
	latest  pods.Recommendation
}

func newEnsembles(p *Autopilot) *ensembles {
	windows := func(hours float64) float64 { return hours * time.Hour.Hours() / autopilotWindow.Hours() }
	one := func(overrun, first float64) *upstream.Autopilot {
		return upstream.NewAutopilot(upstream.AutopilotConfig{
			Overrun: overrun, Underrun: 1, Change: p.Change, Switch: p.Change,
			HalfLives: []float64{windows(p.Fast), windows(p.Fast * math.Sqrt(p.Slow)), windows(p.Fast * p.Slow)},
			Margins:   []float64{0, p.Margin, 2 * p.Margin}, Smoothing: windows(autopilotSmooth.Hours()),
			First: first, Ratio: autopilotRatio, Buckets: autopilotBuckets,
		})
	}
	return &ensembles{p: p, cpu: one(p.CPU, 1), memory: one(p.Memory, mebibyte)}
}

// recommend adds the complete windows, with a killed container's memory raised by a fifth, as upstream does, and
// returns a recommendation if there are any.
func (e *ensembles) recommend(ctx context.Context, v *View, first bool) (pods.Recommendation, bool) {
	if first {
		e.cpu.Reset()
		e.memory.Reset()
		e.next = 0
	}
	seen, n, news := v.Seen, v.stepsIn(autopilotWindow), false
	var cpu, mem float64
	for ; e.next+n <= len(seen) && ctx.Err() == nil; e.next += n {
		cpu, mem = e.window(seen[e.next : e.next+n])
		news = true
	}
	for i := range v.Pods {
		if p := &v.Pods[i]; !first && p.OOM {
			mem = e.memory.Add([]float64{upstreamBump * float64(p.Used.MemoryBytes)})
			if !news {
				cpu = float64(max(e.latest.Target.MilliCPU, p.Used.MilliCPU))
			}
			news = true
		}
	}
	if !news {
		return pods.Recommendation{}, false
	}
	r := pods.Banded(math.Ceil(cpu), math.Ceil(mem))
	r.SetLimits = true
	r.Limits = cluster.Resources{
		MilliCPU:    limitOf(e.p.CPULimit, e.p.CPUFactor, math.Ceil(cpu), 0),
		MemoryBytes: limitOf(e.p.MemoryLimit, e.p.MemoryFactor, math.Ceil(mem), 0),
	}
	e.latest = r
	return r, true
}

// upstreamBump is upstream's raise of memory after a kill.
const upstreamBump = 1.2

// window adds a window of samples: all of CPU, and the peak of memory.
func (e *ensembles) window(seen []cluster.Resources) (cpu, mem float64) {
	e.scratch = e.scratch[:0]
	peak := 0.0
	for _, u := range seen {
		e.scratch = append(e.scratch, float64(u.MilliCPU))
		peak = max(peak, float64(u.MemoryBytes))
	}
	cpu = e.cpu.Add(e.scratch)
	e.scratch = append(e.scratch[:0], peak)
	return cpu, e.memory.Add(e.scratch)
}

// autopilotBaseline returns the baseline autopilot under a name.
func autopilotBaseline(name string, follow Follow) envs.Baseline {
	doc := "After Google's Autopilot: of models with half-lives and margins the one with the least costs, each 5 minutes."
	return envs.Parametric(envs.Baseline{Name: name, Doc: doc}, defaultAutopilot, func(p Autopilot) func(envs.Task) (envs.Policy, error) {
		return follow(func() Rule { return newEnsembles(&p).recommend })
	})
}

// tunedAutopilot are the parameters of autopilot_tuned for pods that share their node.
var tunedAutopilot = map[string]any{"cpu_overrun": 1.123, "memory_overrun": 42.51, "change": 0.01814, "fast_h": 0.5358, "slow_factor": 1.034,
	"margin": 0.1793, "cpu_factor": 3.576, "memory_factor": 1.802}
