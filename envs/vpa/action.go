package vpa

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// codec translates between actions of the continuous environment and recommendations.
type codec struct {
	encoding string
	scales   [2]scale // of CPU and of memory, with encoding log
}

func newCodec(o *Options) codec {
	return codec{o.Encoding, [2]scale{newScale(o.MinCPU, o.MaxCPU), newScale(o.MinMemory*mib, o.MaxMemory*mib)}}
}

// references are the amounts that the elements of a relative action multiply: CPU in millicores and
// memory in bytes.
type references [elements][2]float64

// scale maps action elements to amounts: element x is low·(high/low)^((x+1)/2).
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

// decode returns the recommendation that an action encodes.
func (c *codec) decode(action []float32, of references) pods.Recommendation {
	var r pods.Recommendation
	amounts := [...]*cluster.Resources{&r.Lower, &r.Target, &r.Upper, &r.Uncapped}
	if c.encoding == EncodingLog {
		for i, v := range amounts {
			v.MilliCPU = int64(math.Round(c.scales[0].amount(action[i])))
			v.MemoryBytes = int64(math.Round(c.scales[1].amount(action[elements+i])))
		}
		return r
	}
	for i, v := range amounts {
		v.MilliCPU = int64(math.Round(of[i][0] * math.Pow(relativeRange, float64(action[i]))))
		v.MemoryBytes = int64(math.Round(of[i][1] * math.Pow(relativeRange, float64(action[elements+i]))))
	}
	return r
}

// encode writes the action nearest to r.
func (c *codec) encode(r *pods.Recommendation, of references, action []float32) {
	for i, v := range [...]*cluster.Resources{&r.Lower, &r.Target, &r.Upper, &r.Uncapped} {
		cpu, mem := float64(v.MilliCPU), float64(v.MemoryBytes)
		if c.encoding == EncodingLog {
			action[i], action[elements+i] = c.scales[0].element(cpu), c.scales[1].element(mem)
			continue
		}
		action[i], action[elements+i] = relative(cpu, of[i][0]), relative(mem, of[i][1])
	}
}

// relative returns the element of a relative action that encodes the amount, cut off at ±1.
func relative(amount, reference float64) float32 {
	if amount <= 0 {
		return -1
	}
	return float32(min(max(math.Log(amount/reference)/math.Log(relativeRange), -1), 1))
}

// Factors lists the factors by which an element of a discrete action scales the target in force.
var Factors = [...]float64{0.5, 0.8, 0.95, 1, 1.05, 1.25, 2}

// keep is the index in Factors of the factor 1.
const keep = 3

// decodeDiscrete returns the recommendation of a discrete action: the factor of CPU is
// action/7, that of memory action%7. An action that changes something puts both bounds at the
// target, so that the updater acts; the one that keeps everything opens them from low to high.
func decodeDiscrete(action int, target, low, high cluster.Resources) pods.Recommendation {
	cpu, mem := action/len(Factors), action%len(Factors)
	r := pods.Constant(cluster.Resources{
		MilliCPU:    int64(math.Round(float64(target.MilliCPU) * Factors[cpu])),
		MemoryBytes: int64(math.Round(float64(target.MemoryBytes) * Factors[mem])),
	})
	if cpu == keep && mem == keep {
		r.Lower, r.Upper = low, high
	}
	return r
}

// encodeDiscrete returns the nearest action that does not go below r. It keeps a resource whose
// target lies within r's bounds. It scales another one by the least factor that reaches r's target,
// or by the greatest if none does.
func encodeDiscrete(r *pods.Recommendation, target cluster.Resources) int {
	cpu := nearest(target.MilliCPU, r.Lower.MilliCPU, r.Target.MilliCPU, r.Upper.MilliCPU)
	mem := nearest(target.MemoryBytes, r.Lower.MemoryBytes, r.Target.MemoryBytes, r.Upper.MemoryBytes)
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
