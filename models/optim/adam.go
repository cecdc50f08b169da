package optim

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/team"
)

// AdamConfig holds Adam's constants.
type AdamConfig struct {
	Beta1 float64 // decay of the mean of gradients, in [0, 1); default 0.9
	Beta2 float64 // decay of the mean of their squares, in [0, 1); default 0.999
	Eps   float64 // added to the denominator, at least 0; default 1e-8, in Stable-Baselines3's PPO 1e-5
}

// DefaultAdam returns the defaults of torch.optim.Adam.
func DefaultAdam() AdamConfig { return AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8} }

// Adam keeps running means of the gradients and of their squares, and changes a parameter by
// lr·m̂/(√v̂+eps). The states are float32 and the corrections of their bias float64.
//
// Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", arXiv:1412.6980,
// algorithm 1.
type Adam struct {
	cfg    AdamConfig
	params []models.Param
	step   int64
	m, v   slot

	team   *team.Team
	chunks []chunk
	now    adamStep                // the current step
	share  func(worker, chunk int) // applies now to a chunk
}

// A chunk is a range of a parameter's elements.
type chunk struct{ param, lo, hi int }

const (
	chunkSize = 1 << 12 // elements of a chunk; whole vectors
	minShared = 1 << 13 // number of parameters from which workers share a step
)

var _ Optimizer = (*Adam)(nil)

// NewAdam returns an optimizer of params. It panics if a constant is out of its range.
func NewAdam(params []models.Param, cfg AdamConfig) *Adam {
	inUnit := func(b float64) bool { return b >= 0 && b < 1 }
	if !inUnit(cfg.Beta1) || !inUnit(cfg.Beta2) || !(cfg.Eps >= 0) {
		panic(fmt.Sprintf("optim: constants of Adam out of range: %+v", cfg))
	}
	return &Adam{cfg: cfg, params: params, m: newSlot("exp_avg", params), v: newSlot("exp_avg_sq", params)}
}

// Share lets the workers of t share steps of many parameters. It does not change results.
func (a *Adam) Share(t *team.Team) {
	a.team, a.chunks, a.share = t, nil, a.stepChunk
	total := 0
	for i, p := range a.params {
		total += len(p.Value)
		for lo := 0; lo < len(p.Value); lo += chunkSize {
			a.chunks = append(a.chunks, chunk{i, lo, min(lo+chunkSize, len(p.Value))})
		}
	}
	if total < minShared {
		a.team = nil
	}
}

func (a *Adam) stepChunk(_, i int) {
	c := a.chunks[i]
	p := &a.params[c.param]
	a.now.apply(p.Value[c.lo:c.hi], p.Grad[c.lo:c.hi], a.m.values[c.param][c.lo:c.hi], a.v.values[c.param][c.lo:c.hi])
}

// Step implements [Optimizer].
func (a *Adam) Step(lr float64) {
	a.step++
	t := float64(a.step)
	correction1 := 1 - math.Pow(a.cfg.Beta1, t)
	correction2 := math.Sqrt(1 - math.Pow(a.cfg.Beta2, t))
	k := adamStep{
		// 1-β is rounded once, from float64: 1-float32(0.999) would have a relative error of 1.3e-5.
		beta1: float32(a.cfg.Beta1), rest1: float32(1 - a.cfg.Beta1),
		beta2: float32(a.cfg.Beta2), rest2: float32(1 - a.cfg.Beta2),
		size: float32(lr / correction1), root: float32(correction2), eps: float32(a.cfg.Eps),
	}
	if a.team.Workers() > 1 {
		a.now = k
		a.team.Do(len(a.chunks), a.share)
		return
	}
	for i, p := range a.params {
		k.apply(p.Value, p.Grad, a.m.values[i], a.v.values[i])
	}
}

// adamStep holds the constants of one step.
type adamStep struct {
	beta1, rest1, beta2, rest2, size, root, eps float32
}

// apply changes one parameter. The conversions of products keep the compiler from fusing them with
// sums, so that all machines give the same bits.
func (k adamStep) apply(value, grad, m, v []float32) {
	grad, m, v = grad[:len(value)], m[:len(value)], v[:len(value)]
	for i := k.vectors(value, grad, m, v); i < len(value); i++ {
		g := grad[i]
		m[i] = float32(k.beta1*m[i]) + float32(k.rest1*g)
		v[i] = float32(k.beta2*v[i]) + float32(k.rest2*float32(g*g))
		denom := float32(math.Sqrt(float64(v[i])))/k.root + k.eps
		value[i] -= float32(k.size * (m[i] / denom))
	}
}

// Save implements [Optimizer], under PyTorch's names: step, exp_avg and exp_avg_sq.
func (a *Adam) Save(f *models.File) { save(f, a.params, a.step, a.m, a.v) }

// Load implements [Optimizer].
func (a *Adam) Load(f models.File) error {
	step, err := load(f, a.params, a.m, a.v)
	if err != nil {
		return err
	}
	a.step = step
	return nil
}
