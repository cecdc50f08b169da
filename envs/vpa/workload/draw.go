package workload

import (
	"math"
	"math/rand/v2"
)

// Draw draws the parameters of a workload of the given type, with n samples at an interval in seconds. Sizes are
// log-uniform: CPU from 100 m to 4 cores, memory from 256 MiB to 8 GiB. Types named after traces follow published
// statistics of these: see README.md.
func Draw(kind string, n int, interval float64, rng *rand.Rand) Config {
	c := Config{Type: kind, Timesteps: n, TimeInterval: interval}
	size := Amounts{Memory: logUniform(rng, 256, 8192), CPU: logUniform(rng, 100, 4000)}
	switch kind {
	case Constant:
		c.Usage = size
	case LowHigh:
		c.MaxUsage = size
		c.MinUsage = Amounts{size.Memory * uniform(rng, 0.3, 0.8), size.CPU * uniform(rng, 0.2, 0.8)}
		c.Period = int(math.Round(logUniform(rng, 300, 6*3600) / interval))
		c.Period = max(c.Period, 1)
	case Sinusoidal:
		c.MaxUsage = size
		c.NumPeaks = max(1, int(math.Round(2*float64(n)*interval/logUniform(rng, 3*3600, day))))
		c.Phase = uniform(rng, 0, 2*math.Pi)
	case Step:
		c.MaxUsage = size
		for r := range 2 {
			c.Start[r] = uniform(rng, 0.2, 0.8)
			c.Unit[r] = uniform(rng, 0.005, 0.03)
			c.MaxSteps[r] = 1 + rng.IntN(3)
		}
	default:
		c.Law = drawLaw(kind, rng)
	}
	return c
}

func uniform(rng *rand.Rand, low, high float64) float64 { return low + (high-low)*rng.Float64() }

func logUniform(rng *rand.Rand, low, high float64) float64 {
	return low * math.Exp(rng.Float64()*math.Log(high/low))
}

// pareto draws from a Pareto distribution with index alpha, from low on, truncated at high.
func pareto(rng *rand.Rand, alpha, low, high float64) float64 {
	cut := 1 - math.Pow(low/high, alpha) // probability of less than high
	return low / math.Pow(1-cut*rng.Float64(), 1/alpha)
}

// pick draws one of values with the given weights.
func pick(rng *rand.Rand, values, weights []float64) float64 {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	u := total * rng.Float64()
	for i, w := range weights {
		if u -= w; u < 0 {
			return values[i]
		}
	}
	return values[len(values)-1]
}

// Sizes of virtual machines: cores and their weights, and GiB for each core. Most have one or
// two cores and few have more than eight.
var (
	azureCores   = []float64{1, 2, 4, 8, 16}
	azureWeights = []float64{0.5, 0.3, 0.14, 0.05, 0.01}
	azureGiB     = []float64{1.75, 2, 4, 8}
	azureGiBW    = []float64{0.5, 0.2, 0.2, 0.1}
)

// drawLaw draws the parameters of a law.
func drawLaw(kind string, rng *rand.Rand) Law {
	l := Law{
		CPU: logUniform(rng, 100, 4000), Memory: logUniform(rng, 256, 8192),
		Weekend: 1, Start: math.Floor(rng.Float64()*week/60) * 60, Fade: 600,
		BurstFactor: 1, BurstLength: 300, BurstMemory: 1,
	}
	switch kind {
	case Azure:
		// Cortez et al.: 60 % of VMs use less than 20 % of their CPU on average, 40 % have a 95th percentile below 50
		// %: mean utilisation is log-normal with median 14 %, whose logarithm has a standard deviation of 1.2,
		// truncated at 90 %. Interactive ones have a daily wave.
		cores := pick(rng, azureCores, azureWeights)
		l.CPU = 1000 * cores * min(0.14*math.Exp(1.2*rng.NormFloat64()), 0.9)
		l.Memory = 1024 * cores * pick(rng, azureGiB, azureGiBW) * uniform(rng, 0.3, 0.8)
		if rng.Float64() < 0.3 {
			l.Daily, l.Weekend = uniform(rng, 0.3, 0.7), uniform(rng, 0.6, 1)
		}
		l.Noise, l.Fade = uniform(rng, 0.05, 0.3), logUniform(rng, 300, 3600)
		l.BurstRate, l.BurstFactor, l.BurstLength = uniform(rng, 0.02, 0.3), uniform(rng, 1.5, 4), logUniform(rng, 300, 1800)
		l.MemoryNoise, l.Coupling = 0.02, uniform(rng, 0, 0.2)
	case Alibaba:
		// Jiang et al.: containers' CPU has a daily cycle, and their memory is about constant. Online services mostly
		// request 4 to 8 cores and use little of them.
		cores := pick(rng, []float64{1, 2, 4, 8, 16}, []float64{0.05, 0.1, 0.5, 0.3, 0.05})
		l.CPU = 1000 * cores * min(logUniform(rng, 0.02, 0.4), 0.6)
		l.Memory = 1024 * cores * uniform(rng, 1, 2) * uniform(rng, 0.7, 0.95)
		l.Daily, l.Weekend = uniform(rng, 0.2, 0.8), uniform(rng, 0.85, 1)
		l.Noise, l.Fade = uniform(rng, 0.05, 0.2), logUniform(rng, 60, 900)
		l.BurstRate, l.BurstFactor, l.BurstLength = uniform(rng, 0, 0.1), uniform(rng, 1.3, 2.5), 120
		l.MemoryNoise = uniform(rng, 0.002, 0.01)
	case Borg:
		// Tirmazi et al.: usage is extremely heavy-tailed, Pareto with an index of about 0.7. Long-running jobs have a
		// slight daily cycle; batch work comes in phases.
		l.CPU = pareto(rng, 0.7, 50, 16000)
		l.Memory = pareto(rng, 0.72, 128, 32768)
		l.Walk, l.Noise, l.Fade = uniform(rng, 0, 0.4), uniform(rng, 0.1, 0.4), logUniform(rng, 300, 3600)
		l.MemoryNoise, l.Coupling = uniform(rng, 0.01, 0.05), uniform(rng, 0, 0.5)
		if rng.Float64() < 0.5 {
			l.PhaseLength, l.PhaseLow = logUniform(rng, 1800, 6*3600), uniform(rng, 0.1, 0.5)
		} else {
			l.Daily = uniform(rng, 0.1, 0.4)
		}
	case Arabesque:
		// Pods of workflows: short phases of very different usage, mostly far below the request.
		l.PhaseLength, l.PhaseLow = logUniform(rng, 600, 3*3600), uniform(rng, 0.05, 0.3)
		l.Noise, l.Fade = uniform(rng, 0.1, 0.3), 600
		l.MemoryNoise, l.Coupling = 0.03, uniform(rng, 0.3, 0.8)
		if rng.Float64() < 0.3 {
			l.LeakHours = uniform(rng, 2, 12)
			l.Leak = l.Memory * uniform(rng, 0.3, 1) / l.LeakHours
		}
	default: // RandomWalk
		l.Walk, l.Noise, l.Fade = uniform(rng, 0.1, 0.6), uniform(rng, 0.02, 0.15), 600
		l.BurstRate, l.BurstFactor, l.BurstLength = uniform(rng, 0.1, 1), uniform(rng, 1.5, 4), logUniform(rng, 60, 1800)
		l.BurstMemory = uniform(rng, 1, 1.8)
		l.MemoryNoise, l.Coupling = uniform(rng, 0.01, 0.05), uniform(rng, 0, 0.6)
	}
	return l
}
