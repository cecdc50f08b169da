package vpa

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Scale of amounts in actions: element x is low·(high/low)^((x+1)/2).
type scale struct{ low, span float64 } // span is ln(high/low)

func newScale(low, high float64) scale { return scale{low, math.Log(high / low)} }

func (s scale) amount(x float32) float64 {
	return s.low * math.Exp(s.span*(float64(x)+1)/2)
}

// element returns the action element of an amount, cut off at the ends of the scale.
func (s scale) element(amount float64) float32 {
	if amount <= s.low {
		return -1
	}
	return float32(min(2*math.Log(amount/s.low)/s.span-1, 1))
}

// relativeRange is the greatest factor of a relative action: element x is relativeRange^x.
const relativeRange = 4

// Elements of a continuous action: the four of CPU, then the four of memory.
const (
	elemLower = iota
	elemTarget
	elemUpper
	elemUncapped
	elements
)

// decode returns the recommendation that a continuous action stands for.
func (t *Task) decode(action []float32) Recommendation {
	var r Recommendation
	amounts := [...]*cluster.Resources{&r.Lower, &r.Target, &r.Upper, &r.Uncapped}
	if t.opts.Encoding == EncodingLog {
		for i, v := range amounts {
			v.MilliCPU = int64(math.Round(t.scales[0].amount(action[i])))
			v.MemoryBytes = int64(math.Round(t.scales[1].amount(action[elements+i])))
		}
		return r
	}
	for i, v := range amounts {
		cpu, mem := t.reference(i)
		v.MilliCPU = int64(math.Round(cpu * math.Pow(relativeRange, float64(action[i]))))
		v.MemoryBytes = int64(math.Round(mem * math.Pow(relativeRange, float64(action[elements+i]))))
	}
	return r
}

// reference returns the amounts of which element i of relative actions is a factor: the peaks of
// the last hour, or the same element of what upstream's recommender gives; and no less than the
// policy's least amounts.
func (t *Task) reference(i int) (cpu, mem float64) {
	cpu, mem = t.hour[0].max(), t.hour[1].max()
	if t.opts.Encoding == EncodingUpstream {
		u := [...]cluster.Resources{t.up.Lower, t.up.Target, t.up.Upper, t.up.Uncapped}[i]
		cpu, mem = float64(u.MilliCPU), float64(u.MemoryBytes)
	}
	return max(cpu, float64(t.low.MilliCPU)), max(mem, float64(t.low.MemoryBytes))
}

// encode writes the action that comes nearest to r.
func (t *Task) encode(r *Recommendation, action []float32) {
	for i, v := range [...]*cluster.Resources{&r.Lower, &r.Target, &r.Upper, &r.Uncapped} {
		if t.opts.Encoding == EncodingLog {
			action[i] = t.scales[0].element(float64(v.MilliCPU))
			action[elements+i] = t.scales[1].element(float64(v.MemoryBytes))
			continue
		}
		cpu, mem := t.reference(i)
		action[i] = relative(float64(v.MilliCPU), cpu)
		action[elements+i] = relative(float64(v.MemoryBytes), mem)
	}
}

// relative returns the element of a relative action that stands for the amount, cut off at ±1.
func relative(amount, reference float64) float32 {
	if amount <= 0 {
		return -1
	}
	return float32(min(max(math.Log(amount/reference)/math.Log(relativeRange), -1), 1))
}

// Factors are those by which an element of a discrete action scales the target in force.
var Factors = [...]float64{0.5, 0.8, 0.95, 1, 1.05, 1.25, 2}

// keep is the index in Factors of the factor 1.
const keep = 3

// decodeDiscrete returns the recommendation of a discrete action: the factor of CPU is
// action/7, that of memory action%7. An action that changes something puts both bounds at the
// target, so that the updater acts; the one that keeps everything leaves them wide open.
func (t *Task) decodeDiscrete(action int) Recommendation {
	cpu, mem := action/len(Factors), action%len(Factors)
	target := cluster.Resources{
		MilliCPU:    int64(math.Round(float64(t.rec.Target.MilliCPU) * Factors[cpu])),
		MemoryBytes: int64(math.Round(float64(t.rec.Target.MemoryBytes) * Factors[mem])),
	}
	if cpu == keep && mem == keep {
		return Recommendation{Lower: t.low, Target: target, Upper: t.high, Uncapped: target}
	}
	return Recommendation{Lower: target, Target: target, Upper: target, Uncapped: target}
}

// encodeDiscrete returns the action that comes nearest to r and not below it: it keeps a
// resource whose target in force lies within r's bounds, and else takes the least factor that
// reaches r's target, or the greatest if none does.
func (t *Task) encodeDiscrete(r *Recommendation) int {
	cpu := nearest(t.rec.Target.MilliCPU, r.Lower.MilliCPU, r.Target.MilliCPU, r.Upper.MilliCPU)
	mem := nearest(t.rec.Target.MemoryBytes, r.Lower.MemoryBytes, r.Target.MemoryBytes, r.Upper.MemoryBytes)
	return cpu*len(Factors) + mem
}

func nearest(now, lower, target, upper int64) int {
	if now >= lower && now <= upper {
		return keep
	}
	for i, f := range Factors {
		if math.Round(float64(now)*f) >= float64(target) {
			return i
		}
	}
	return len(Factors) - 1
}
