package oracle

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// A generator draws what streams are made of.
type generator struct{ *rand.Rand }

// config returns the defaults, or anything that upstream's flags allow.
func (g *generator) config() recommender.Config {
	c := recommender.DefaultConfig()
	if g.IntN(2) == 0 {
		return c
	}
	for _, r := range []*recommender.ResourceConfig{&c.CPU, &c.Memory} {
		r.LowerPercentile = 0.01 + 0.6*g.Float64()
		r.TargetPercentile = r.LowerPercentile + (1-r.LowerPercentile)*g.Float64()
		r.UpperPercentile = r.TargetPercentile + (1-r.TargetPercentile)*g.Float64()
		r.ConfidenceInterval = g.duration(time.Minute, 30*24*time.Hour)
		r.HalfLife = g.duration(time.Minute, 60*24*time.Hour)
	}
	c.MarginFraction = g.Float64()
	c.MinCPUMillicores = math.Round(100*g.Float64()) / 4
	c.MinMemoryMB = math.Round(1000*g.Float64()) / 4
	c.MemoryInterval = g.duration(time.Minute, 10*24*time.Hour)
	c.MemoryIntervalCount = 1 + g.IntN(20)
	c.OOMBumpUpRatio = 1 + g.Float64()
	c.OOMMinBumpUpBytes = 1e9 * g.Float64()
	c.RoundCPUMillicores = 1 + g.Int64N(30)
	c.RoundMemoryBytes = 1 << g.IntN(28)
	return c
}

// duration returns a log-uniform duration, in whole seconds since checkpoints have those only.
func (g *generator) duration(low, high time.Duration) time.Duration {
	return time.Duration(g.logUniform(float64(low), float64(high))).Truncate(time.Second)
}

func (g *generator) policy() (p recommender.Policy) {
	p.IntegerCPU = g.IntN(4) == 0
	for _, a := range []*recommender.Amounts{&p.MinAllowed, &p.MaxAllowed, &p.GlobalMaxAllowed} {
		if g.IntN(3) == 0 {
			a.MilliCPU = g.Int64N(100_000)
		}
		if g.IntN(3) == 0 {
			a.MemoryBytes = g.Int64N(1e11)
		}
	}
	return p
}

// usage returns 0, a negative number, or a log-uniform amount.
func (g *generator) usage(low, high float64) int64 {
	switch g.IntN(40) {
	case 0:
		return 0
	case 1:
		return -g.Int64N(100) - 1
	}
	return int64(g.logUniform(low, high))
}

func (g *generator) logUniform(low, high float64) float64 {
	return low * math.Pow(high/low, g.Float64())
}

// gapScale returns the usual gap between the events of a stream.
func (g *generator) gapScale() time.Duration { return g.duration(time.Second, 6*time.Hour) }

// gap returns the time until the next event: now and then none, or up to half a year.
func (g *generator) gap(scale time.Duration) time.Duration {
	switch g.IntN(200) {
	case 0:
		return time.Duration(g.Int64N(int64(180 * 24 * time.Hour)))
	case 1, 2, 3:
		return time.Duration(g.Int64N(int64(10 * 24 * time.Hour)))
	case 4, 5, 6, 7, 8, 9, 10, 11:
		return 0
	}
	return time.Duration(g.Int64N(int64(2 * scale)))
}

// around returns now, or an instant up to three days earlier.
func (g *generator) around(now time.Duration) time.Duration {
	if g.IntN(15) == 0 {
		return now - time.Duration(g.Int64N(int64(72*time.Hour)))
	}
	return now
}
