package distribution

import (
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents/categorical"
)

// categoricals are independent masked categorical distributions side by side.
type categoricals struct {
	from  int
	nvec  []int
	parts []*categorical.Distribution
	out   []float32 // the row
	mask  []bool
}

func newCategoricals(from int, nvec []int) *categoricals {
	c := &categoricals{from: from, nvec: nvec}
	for _, n := range nvec {
		c.parts = append(c.parts, categorical.New(n))
	}
	return c
}

func (c *categoricals) Condition(out []float32, mask []bool) {
	c.out, c.mask = out[c.from:], mask
	off := 0
	for i, n := range c.nvec {
		c.parts[i].Condition(c.out[off:off+n], c.part(off, n))
		off += n
	}
}

func (c *categoricals) part(off, n int) []bool {
	if len(c.mask) == 0 {
		return nil
	}
	return c.mask[off : off+n]
}

func (c *categoricals) Sample(rng *rand.Rand, action []float32) {
	for i, d := range c.parts {
		action[i] = float32(d.Sample(rng))
	}
}

func (c *categoricals) Mode(action []float32) {
	off := 0
	for i, n := range c.nvec {
		action[i] = float32(categorical.Mode(c.out[off:off+n], c.part(off, n)))
		off += n
	}
}

func (c *categoricals) Probabilities(p []float32) bool {
	off := 0
	for i, n := range c.nvec {
		c.parts[i].Probabilities(p[off : off+n])
		off += n
	}
	return true
}

func (c *categoricals) LogProb(action []float32) float64 {
	sum := 0.0
	for i, d := range c.parts {
		sum += d.LogProb(int(action[i]))
	}
	return sum
}

func (c *categoricals) Entropy() float64 {
	sum := 0.0
	for _, d := range c.parts {
		sum += d.Entropy()
	}
	return sum
}

func (c *categoricals) Grad(dOut []float32, action []float32, dLogProb, dEntropy float64) {
	off := c.from
	for i, n := range c.nvec {
		c.parts[i].Grad(dOut[off:off+n], int(action[i]), dLogProb, dEntropy)
		off += n
	}
}

// bernoullis are independent coins: element i is 1 with probability 1/(1+exp(−l_i)). A mask
// holds for each element whether 0 and whether 1 is permitted.
type bernoullis struct {
	from   int
	logits []float64 // ±Inf where only one value is permitted
}

func (b *bernoullis) Condition(out []float32, mask []bool) {
	for i := range b.logits {
		b.logits[i] = float64(out[b.from+i])
		if len(mask) == 0 {
			continue
		}
		switch zero, one := mask[2*i], mask[2*i+1]; {
		case !zero && !one:
			panic("distribution: the mask permits no action")
		case !zero:
			b.logits[i] = math.Inf(1)
		case !one:
			b.logits[i] = math.Inf(-1)
		}
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func (b *bernoullis) Sample(rng *rand.Rand, action []float32) {
	for i, l := range b.logits {
		action[i] = 0
		if rng.Float64() < sigmoid(l) {
			action[i] = 1
		}
	}
}

func (b *bernoullis) Mode(action []float32) {
	for i, l := range b.logits {
		action[i] = 0
		if l > 0 {
			action[i] = 1
		}
	}
}

func (b *bernoullis) Probabilities(p []float32) bool {
	for i, l := range b.logits {
		p[2*i], p[2*i+1] = float32(sigmoid(-l)), float32(sigmoid(l))
	}
	return true
}

// softplus returns log(1+exp(x)).
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func (b *bernoullis) LogProb(action []float32) float64 {
	sum := 0.0
	for i, l := range b.logits {
		if action[i] == 0 {
			l = -l
		}
		sum -= softplus(-l)
	}
	return sum
}

func (b *bernoullis) Entropy() float64 {
	h := 0.0
	for _, l := range b.logits {
		if !math.IsInf(l, 0) {
			h += softplus(l) - l*sigmoid(l)
		}
	}
	return h
}

func (b *bernoullis) Grad(dOut []float32, action []float32, dLogProb, dEntropy float64) {
	for i, l := range b.logits {
		if math.IsInf(l, 0) {
			continue // the value is given
		}
		p := sigmoid(l)
		dOut[b.from+i] += float32(dLogProb*(float64(action[i])-p) - dEntropy*l*p*(1-p))
	}
}
