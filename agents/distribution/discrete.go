package distribution

import (
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents/categorical"
)

// categoricals are independent masked categorical distributions side by side.
type categoricals struct {
	from int
	nvec []int
	out  []float32 // the row
	mask []bool
	logp []float64
	p    []float64 // exp(logp), once it is asked for
	have bool      // p is that of logp
}

func newCategoricals(from int, nvec []int) *categoricals {
	n := 0
	for _, k := range nvec {
		n += k
	}
	return &categoricals{from: from, nvec: nvec, logp: make([]float64, n), p: make([]float64, n)}
}

func (c *categoricals) Condition(out []float32, mask []bool) {
	c.out, c.mask, c.have = out[c.from:], mask, false
	off := 0
	for _, n := range c.nvec {
		categorical.LogProbs(c.logp[off:off+n], c.out[off:off+n], c.part(off, n))
		off += n
	}
}

// probs returns the probabilities of all actions.
func (c *categoricals) probs() []float64 {
	if !c.have {
		categorical.Probs(c.p, c.logp)
		c.have = true
	}
	return c.p
}

func (c *categoricals) part(off, n int) []bool {
	if len(c.mask) == 0 {
		return nil
	}
	return c.mask[off : off+n]
}

func (c *categoricals) Sample(rng *rand.Rand, action []float32) {
	off := 0
	for i, n := range c.nvec {
		action[i] = float32(categorical.Sample(rng, c.logp[off:off+n]))
		off += n
	}
}

func (c *categoricals) Mode(action []float32) {
	off := 0
	for i, n := range c.nvec {
		action[i] = float32(categorical.Mode(c.out[off:off+n], c.part(off, n)))
		off += n
	}
}

func (c *categoricals) LogProb(action []float32) float64 {
	sum, off := 0.0, 0
	for i, n := range c.nvec {
		sum += c.logp[off+int(action[i])]
		off += n
	}
	return sum
}

func (c *categoricals) Entropy() float64 {
	sum, off, p := 0.0, 0, c.probs()
	for _, n := range c.nvec {
		sum += categorical.Entropy(c.logp[off:off+n], p[off:off+n])
		off += n
	}
	return sum
}

func (c *categoricals) Grad(dOut []float32, action []float32, dLogProb, dEntropy float64) {
	off, p := 0, c.probs()
	for i, n := range c.nvec {
		categorical.Grad(dOut[c.from+off:c.from+off+n], c.logp[off:off+n], p[off:off+n], int(action[i]), dLogProb, dEntropy)
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
