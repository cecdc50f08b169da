package optim

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/models"
)

// RMSpropConfig holds RMSprop's constants.
type RMSpropConfig struct {
	Alpha float64 // decay of the mean of squared gradients, in [0, 1); torch.optim.RMSprop has 0.99
	Eps   float64 // added to the root, at least 0; torch.optim.RMSprop has 1e-8, Stable-Baselines3's A2C 1e-5
}

// RMSprop keeps a running mean v of the squared gradients, which starts at 0 without bias
// correction, and changes a parameter by lr·g/(√v+eps). TensorFlow's variant starts v at 1 and adds
// eps inside the root.
//
// Source: torch.optim.RMSprop, without momentum and not centered; Tieleman and Hinton,
// "Lecture 6.5: rmsprop", Coursera, 2012.
type RMSprop struct {
	cfg    RMSpropConfig
	params []models.Param
	step   int64
	v      slot
}

var _ Optimizer = (*RMSprop)(nil)

// NewRMSprop returns an optimizer of params. It panics if a constant is out of its range.
func NewRMSprop(params []models.Param, cfg RMSpropConfig) *RMSprop {
	if !(cfg.Alpha >= 0 && cfg.Alpha < 1) || !(cfg.Eps >= 0) {
		panic(fmt.Sprintf("optim: constants of RMSprop out of range: %+v", cfg))
	}
	return &RMSprop{cfg: cfg, params: params, v: newSlot("square_avg", params)}
}

// Step implements [Optimizer].
func (r *RMSprop) Step(lr float64) {
	r.step++
	alpha, rest := float32(r.cfg.Alpha), float32(1-r.cfg.Alpha)
	size, eps := float32(lr), float32(r.cfg.Eps)
	for i, p := range r.params {
		v := r.v.values[i]
		// The conversions keep the compiler from fusing a product with the sum after it, so
		// that all machines give the same bits.
		for j, g := range p.Grad {
			v[j] = float32(alpha*v[j]) + float32(rest*float32(g*g))
			p.Value[j] -= float32(size * (g / (float32(math.Sqrt(float64(v[j]))) + eps)))
		}
	}
}

// Save implements [Optimizer], under PyTorch's names: step and square_avg.
func (r *RMSprop) Save(f *models.File) { save(f, r.params, r.step, r.v) }

// Load implements [Optimizer].
func (r *RMSprop) Load(f models.File) error {
	step, err := load(f, r.params, r.v)
	if err != nil {
		return err
	}
	r.step = step
	return nil
}
