package tune

import (
	"math"
	"slices"
	"strconv"

	"github.com/kubernasium/kubernasium/envs"
)

// digits is the number of significant digits of a float that tuning tries.
const digits = 4

// reflected returns x, reflected at 0 and 1 until it is between them.
func reflected(x float64) float64 {
	if x = math.Mod(math.Abs(x), 2); x > 1 {
		return 2 - x
	}
	return x
}

// value returns the value of p at x, where 0 to 1 is its range. Outside of it, x is reflected.
func value(p *envs.Parameter, x float64) any {
	x = reflected(x)
	switch {
	case p.Type == "bool":
		return x >= 0.5
	case p.Choices != nil:
		return p.Choices[min(int(x*float64(len(p.Choices))), len(p.Choices)-1)]
	case p.Type == "int" && !p.Log:
		return int(min(p.Low+math.Floor(x*(p.High-p.Low+1)), p.High))
	}
	v := p.Low + x*(p.High-p.Low)
	if p.Log {
		v = p.Low * math.Pow(p.High/p.Low, x)
	}
	if p.Type == "int" {
		return int(math.Round(v))
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return v
}

// unit returns the position of p's default in its range, from 0 to 1.
func unit(p *envs.Parameter) float64 {
	var x float64
	switch v := p.Default.(type) {
	case bool:
		if v {
			return 0.75
		}
		return 0.25
	case string:
		return (float64(max(0, slices.Index(p.Choices, v))) + 0.5) / float64(len(p.Choices))
	case int:
		if x = float64(v); !p.Log {
			return min(max((x-p.Low+0.5)/(p.High-p.Low+1), 0), 1)
		}
	case float64:
		x = v
	}
	x = min(max(x, p.Low), p.High)
	if p.Log {
		return math.Log(x/p.Low) / math.Log(p.High/p.Low)
	}
	return (x - p.Low) / (p.High - p.Low)
}
