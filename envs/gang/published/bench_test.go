package published_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/published"
)

// benchmarkData returns the public data set, which gives benchmarks their real shapes.
func benchmarkData(b *testing.B) *published.Dataset {
	b.Helper()
	data, err := published.ReadDataset(envstest.Data(b, "gang", gangtest.ProfileFile))
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func benchmarkInstance(b *testing.B, windows, columns int) *planner.Instance {
	b.Helper()
	data := benchmarkData(b)
	in, err := planner.NewInstance(context.Background(), data.Model, data.Forecast, windows, columns)
	if err != nil {
		b.Fatal(err)
	}
	return in
}

func BenchmarkCurveAt(b *testing.B) {
	curve := benchmarkData(b).Model.Curve(2, 31.5)
	level := 0
	for b.Loop() {
		curve.At(level)
		level = (level + 1) & 63
	}
}

func BenchmarkDurationAt(b *testing.B) {
	m := benchmarkData(b).Model
	size := 10.0
	for b.Loop() {
		m.DurationAt(2, size, 30)
		if size += 0.7; size > 50 {
			size = 10
		}
	}
}

func BenchmarkDuration(b *testing.B) {
	m := benchmarkData(b).Model
	size := 10.0
	for b.Loop() {
		m.Duration(2, size, 3456.7)
		if size += 0.7; size > 50 {
			size = 10
		}
	}
}

// BenchmarkConfigure1To3 loads one step and configures it for windows 1, 2 and 3.
func BenchmarkConfigure1To3(b *testing.B) {
	data := benchmarkData(b)
	a := planner.NewAllocator(data.Model, 3)
	levels := make([]uint16, data.Forecast.Tasks)
	t := 0
	for b.Loop() {
		row := data.Forecast.Planned[t*data.Forecast.Columns*data.Forecast.Tasks:]
		a.Load(row[:3*data.Forecast.Tasks])
		for w := 1; w <= 3; w++ {
			a.Configure(0, w, levels)
		}
		t = (t + 1) % 400
	}
}

func BenchmarkExactMinMax(b *testing.B) {
	data := benchmarkData(b)
	a := planner.NewAllocator(data.Model, 1)
	n := data.Forecast.Tasks
	levels := make([]uint16, n)
	t := 0
	for b.Loop() {
		a.Load(data.Forecast.True[t*n : (t+1)*n])
		a.ExactMinMax(0, levels)
		t = (t + 1) % 400
	}
}

// BenchmarkPrepare computes the table of an episode of 400 steps.
func BenchmarkPrepare(b *testing.B) {
	data := benchmarkData(b)
	for _, windows := range []int{3, 20} {
		b.Run(fmt.Sprintf("windows=%d", windows), func(b *testing.B) {
			for b.Loop() {
				in, err := planner.NewInstance(context.Background(), data.Model, data.Forecast, windows, 6)
				if err != nil {
					b.Fatal(err)
				}
				_ = in.Prepare(context.Background(), 0, 400)
			}
		})
	}
}

// BenchmarkDynamicMPC plays an episode of 400 steps with horizon 10.
func BenchmarkDynamicMPC(b *testing.B) {
	in := benchmarkInstance(b, 0, 1)
	ep := planner.Episode{Steps: 400, Penalty: planner.DefaultPenalty}
	cfg := planner.Config{Controller: planner.ControllerDynamicMPC, Window: 10, Lambda: planner.DefaultLambda}
	for b.Loop() {
		p, err := planner.New(cfg, in, ep)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := planner.Simulate(in, p, ep, false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompatibleStep is one step of a prepared environment with its observation.
func BenchmarkCompatibleStep(b *testing.B) {
	in := benchmarkInstance(b, 3, 6)
	c := defaultCompatible
	_ = in.Prepare(context.Background(), c.First, c.Steps+1)
	levels := make([]uint16, in.Trace().Tasks)
	obs := make([]float32, c.Actions*c.Columns)
	t := c.First
	b.ReportAllocs()
	for b.Loop() {
		c.Step(in, t, levels, t%c.Actions)
		if t++; t == c.First+c.Steps {
			t = c.First
		}
		published.ObserveCompatible(&c, in, t, levels, obs)
	}
}
