package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Law is a random process of usage: a level with a daily wave and a quieter weekend, times a disturbance that fades,
// times a slow random walk, with bursts and, for batch work, phases. Memory has a level of its own that follows CPU
// slightly.
//
//	cpu(t) = cpu·(1 + daily·wave(t))·weekend(t)·phase(t)·burst(t)·exp(x(t) + w(t))
//	mem(t) = memory·(1 + coupling·(cpu(t)/cpu - 1))·exp(y(t)) + leak·(t mod leak_hours)
//
// x and y are autoregressive with standard deviations noise and memory_noise and a correlation time of fade_s seconds;
// w is a random walk that returns to 0 over a day.
type Law struct {
	CPU         float64 `json:"cpu"`          // millicores: level
	Memory      float64 `json:"memory"`       // MiB: level
	Daily       float64 `json:"daily"`        // amplitude of the daily wave, 0 to 1
	Weekend     float64 `json:"weekend"`      // factor on Saturday and Sunday, 0 to 1
	Start       float64 `json:"start_s"`      // seconds since Monday 00:00 at the first sample
	Noise       float64 `json:"noise"`        // standard deviation of x
	Fade        float64 `json:"fade_s"`       // seconds over which x and y fade
	Walk        float64 `json:"walk"`         // standard deviation of w after a day
	BurstRate   float64 `json:"burst_rate"`   // bursts in an hour
	BurstFactor float64 `json:"burst_factor"` // CPU in a burst over that without, 1 or more
	BurstLength float64 `json:"burst_s"`      // mean seconds of a burst
	BurstMemory float64 `json:"burst_memory"` // factor of memory in a burst, 1 or more
	PhaseLength float64 `json:"phase_s"`      // mean seconds of a phase of batch work; 0: none
	PhaseLow    float64 `json:"phase_low"`    // a phase has a level from phase_low to 1
	MemoryNoise float64 `json:"memory_noise"` // standard deviation of y
	Coupling    float64 `json:"coupling"`     // how closely memory follows CPU, 0 to 1
	Leak        float64 `json:"leak"`         // MiB that memory grows in an hour
	LeakHours   float64 `json:"leak_hours"`   // hours until leaked memory is freed; 0: no leak
}

func (l *Law) validate() error {
	var errs []error
	for _, c := range []struct {
		name         string
		v, low, high float64
	}{
		{"cpu", l.CPU, 0, 1e9}, {"memory", l.Memory, 0, 1e9}, {"daily", l.Daily, 0, 1}, {"weekend", l.Weekend, 0, 1},
		{"start_s", l.Start, 0, 1e12}, {"noise", l.Noise, 0, 3}, {"fade_s", l.Fade, 1, 1e9}, {"walk", l.Walk, 0, 3},
		{"burst_rate", l.BurstRate, 0, 1e3}, {"burst_factor", l.BurstFactor, 1, 100}, {"burst_s", l.BurstLength, 1, 1e9},
		{"burst_memory", l.BurstMemory, 1, 100}, {"phase_s", l.PhaseLength, 0, 1e9}, {"phase_low", l.PhaseLow, 0, 1},
		{"memory_noise", l.MemoryNoise, 0, 3}, {"coupling", l.Coupling, 0, 1}, {"leak", l.Leak, 0, 1e6}, {"leak_hours", l.LeakHours, 0, 1e6},
	} {
		if !(c.v >= c.low && c.v <= c.high) {
			errs = append(errs, fmt.Errorf("law: %s is %v, want %v to %v", c.name, c.v, c.low, c.high))
		}
	}
	return errors.Join(errs...)
}

const (
	day  = 24 * 3600.0
	week = 7 * day
)

// checkEvery is the number of samples between checks of the context, some milliseconds.
const checkEvery = 1 << 14

// mod is math.Mod of x ≥ 0, whose result needs no rounding, in a few instructions.
func mod(x, y float64) float64 {
	q := math.Floor(x / y)
	if q >= 1<<53 {
		return math.Mod(x, y) // where q may be off by more than 1
	}
	r := math.FMA(-q, y, x)
	if r < 0 { // the quotient was rounded up to the next integer
		r += y
	}
	return r
}

// append appends n samples at the given interval in seconds, or fewer if ctx ends.
func (l *Law) append(ctx context.Context, dst []cluster.Resources, n int, interval float64, rng *rand.Rand) []cluster.Resources {
	persist := math.Exp(-interval / l.Fade)
	shock := math.Sqrt(1 - persist*persist)
	back := math.Exp(-interval / day)
	drift := l.Walk * math.Sqrt(interval/day)
	burst := 1 - math.Exp(-l.BurstRate*interval/3600)
	calm := 1 - math.Exp(-interval/l.BurstLength)
	change := 0.0
	if l.PhaseLength > 0 {
		change = 1 - math.Exp(-interval/l.PhaseLength)
	}
	x, y, w := l.Noise*rng.NormFloat64(), l.MemoryNoise*rng.NormFloat64(), 0.0
	level, bursting := 1.0, false
	if change > 0 {
		level = l.PhaseLow + (1-l.PhaseLow)*rng.Float64()
	}
	for i := range n {
		if i%checkEvery == 0 && ctx.Err() != nil {
			break
		}
		t := l.Start + float64(i)*interval
		f := 1.0
		if l.Daily > 0 {
			f += l.Daily * math.Sin(2*math.Pi*(mod(t, day)/day-0.375)) // highest at 15:00
		}
		if mod(t, week) >= 5*day {
			f *= l.Weekend
		}
		f *= level
		mem := 1 + l.Coupling*(f-1)
		if bursting {
			f *= l.BurstFactor
			mem *= l.BurstMemory
		}
		leaked := 0.0
		if l.LeakHours > 0 {
			leaked = l.Leak * mod(t/3600, l.LeakHours)
		}
		dst = append(dst, cluster.Resources{
			MilliCPU:    round(l.CPU * f * math.Exp(x+w)),
			MemoryBytes: round((l.Memory*mem*math.Exp(y) + leaked) * mib),
		})
		if l.Noise > 0 {
			x = persist*x + l.Noise*shock*rng.NormFloat64()
		}
		if l.MemoryNoise > 0 {
			y = persist*y + l.MemoryNoise*shock*rng.NormFloat64()
		}
		if l.Walk > 0 {
			w = back*w + drift*rng.NormFloat64()
		}
		if l.BurstRate > 0 {
			if bursting {
				bursting = rng.Float64() >= calm
			} else {
				bursting = rng.Float64() < burst
			}
		}
		if change > 0 && rng.Float64() < change {
			level = l.PhaseLow + (1-l.PhaseLow)*rng.Float64()
		}
	}
	return dst
}
