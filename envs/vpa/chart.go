package vpa

import (
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// chartRoom is how many times the greatest usage, request or limit a plot reaches: bounds of a
// recommender that knows little may be very large.
const chartRoom = 1.5

// Chart implements [envs.Charter]: usage, request, limit and bounds of CPU and of memory, and
// when containers were killed, evicted and resized. Usage is the largest of all pods; requests
// and limits are those of the first.
func (t *Task) Chart() *envs.Chart {
	c := &envs.Chart{Title: "workload " + t.id, XLabel: "hours", Events: []envs.ChartEvents{{Name: "OOM kill"}, {Name: "eviction"}, {Name: "resize"}}}
	for i := range t.record {
		r, at := &t.record[i], float64(i+1)*t.step.Hours()
		c.X = append(c.X, at)
		for k, n := range []uint16{r.ooms, r.evictions, r.resizes} {
			if n > 0 {
				c.Events[k].X = append(c.Events[k].X, at)
			}
		}
	}
	c.Panels = []envs.ChartPanel{
		t.panel("CPU, cores", func(r cluster.Resources) float64 { return float64(r.MilliCPU) / 1000 }),
		t.panel("memory, GiB", func(r cluster.Resources) float64 { return float64(r.MemoryBytes) / gib }),
	}
	return c
}

func (t *Task) panel(label string, of func(cluster.Resources) float64) envs.ChartPanel {
	most := 0.0
	for i := range t.record {
		r := &t.record[i]
		most = max(most, of(r.used), of(r.requests), of(r.limits))
	}
	lines := make([]envs.ChartLine, 5)
	for i, name := range []string{"usage", "request", "limit", "lower bound", "upper bound"} {
		lines[i].Name = name
	}
	for i := range t.record {
		r := &t.record[i]
		for k, v := range []cluster.Resources{r.used, r.requests, r.limits, r.lower, r.upper} {
			y := of(v)
			if k == 2 && y == 0 || y > chartRoom*most {
				y = math.NaN() // no limit; out of the picture
			}
			lines[k].Y = append(lines[k].Y, y)
		}
	}
	return envs.ChartPanel{YLabel: label, Lines: lines}
}
