package rules

import (
	"context"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// static keeps the initial requests.
func static(_ context.Context, v *View, _ bool) (pods.Recommendation, bool) {
	return pods.Constant(v.Admission.Initial), true
}

// Margin is the margin of rules over observed usage.
const Margin = 1.15

// hourly returns a rule that calls ask at the first step, once an hour and after an OOM kill. For a day after a kill,
// its memory target is at least upstream's bump: the larger of 1.2 times the limit and the limit plus 100 MiB.
func hourly(ask func(ctx context.Context, v *View, scratch *[]float64) pods.Recommendation) Rule {
	var scratch []float64
	floor, until := 0.0, 0
	return func(ctx context.Context, v *View, first bool) (pods.Recommendation, bool) {
		if first {
			floor, until = 0, 0
		}
		killed := false
		for i := range v.Pods {
			if p := &v.Pods[i]; !first && p.OOM {
				limit := float64(p.Used.MemoryBytes) // a killed container's usage is its limit
				floor, until, killed = max(floor, 1.2*limit, limit+100*mebibyte), v.Step+v.stepsIn(24*time.Hour), true
			}
		}
		if v.Step >= until {
			floor = 0
		}
		if !first && !killed && v.Step%v.stepsIn(time.Hour) != 0 {
			return pods.Recommendation{}, false
		}
		r := ask(ctx, v, &scratch)
		if float64(r.Target.MemoryBytes) < floor {
			atFloor := pods.Banded(0, floor)
			r.Lower.MemoryBytes, r.Target.MemoryBytes, r.Upper.MemoryBytes, r.Uncapped.MemoryBytes =
				atFloor.Lower.MemoryBytes, atFloor.Target.MemoryBytes, atFloor.Upper.MemoryBytes, atFloor.Target.MemoryBytes
		}
		return r, true
	}
}

func movingWindow(ctx context.Context, v *View, scratch *[]float64) pods.Recommendation {
	seen := v.tail(24 * time.Hour)
	return pods.Banded(Margin*metrics.CPUQuantile(ctx, seen, 0.95, scratch), Margin*peakMemory(seen))
}

// seasonalNaive falls back to the last hour while the history is shorter than a day.
func seasonalNaive(_ context.Context, v *View, _ *[]float64) pods.Recommendation {
	day, hour := v.stepsIn(24*time.Hour), v.stepsIn(time.Hour)
	from := len(v.Seen) - day
	coming := v.tail(time.Hour)
	if from >= 0 {
		coming = v.Seen[from:min(from+hour, len(v.Seen))]
	}
	cpu := 0.0
	for _, u := range coming {
		cpu = max(cpu, float64(u.MilliCPU))
	}
	return pods.Banded(Margin*cpu, Margin*peakMemory(coming))
}

func peakMemory(seen []cluster.Resources) float64 {
	most := int64(0)
	for _, u := range seen {
		most = max(most, u.MemoryBytes)
	}
	return float64(most)
}
