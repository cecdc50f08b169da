// Package optim has optimizers. The formulas, the defaults and the names of states are those of
// torch.optim.
package optim

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// An Optimizer updates the parameters that it was made for by their gradients. It is not safe for
// concurrent use.
type Optimizer interface {
	// Step updates each parameter by its gradient, with the given learning rate.
	Step(lr float64)

	// Save adds the state to a checkpoint, and Load reads it from one, so that the next steps are
	// the same bit for bit. The error of Load wraps [models.ErrMismatch]; then nothing has changed.
	Save(f *models.File)
	Load(f models.File) error
}

// sumLanes is the number of partial sums of squares, so that vectors of any width give the same
// bits.
const sumLanes = 32

// ClipGradNorm scales all gradients by max/(norm+1e-6) if that is less than 1, and returns norm,
// the Euclidean length of all gradients together before that. Squares are summed in float64, for
// one parameter after another, into 32 partial sums, which are then added in order.
//
// Source: torch.nn.utils.clip_grad_norm_.
func ClipGradNorm(params []models.Param, max float64) (norm float64) {
	var sums [sumLanes]float64
	for _, p := range params {
		for i := sumSquaresVectors(&sums, p.Grad); i < len(p.Grad); i++ {
			// The product of two float32 is exact in float64, so that fusing it with the sum
			// on some machines changes nothing.
			sums[i%sumLanes] += float64(p.Grad[i]) * float64(p.Grad[i])
		}
	}
	sum := 0.0
	for _, s := range sums {
		sum += s
	}
	norm = math.Sqrt(sum)
	if coef := max / (norm + 1e-6); coef < 1 {
		c := float32(coef)
		for _, p := range params {
			for i := scaleVectors(p.Grad, c); i < len(p.Grad); i++ {
				p.Grad[i] *= c
			}
		}
	}
	return norm
}

// Decay multiplies params by 1 − lr·decay, before a step of [Adam] with the learning rate lr: together they are
// torch.optim.AdamW, whose weight_decay is decay.
//
// Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", arXiv:1711.05101, algorithm 2.
func Decay(params []models.Param, lr, decay float64) {
	keep := float32(1 - lr*decay)
	for _, p := range params {
		for i := scaleVectors(p.Value, keep); i < len(p.Value); i++ {
			p.Value[i] *= keep
		}
	}
}

// slot is an array of an optimizer's state for each parameter.
type slot struct {
	name   string // PyTorch's, such as "exp_avg"
	values [][]float32
}

func newSlot(name string, params []models.Param) slot {
	s := slot{name: name}
	for _, p := range params {
		s.values = append(s.values, make([]float32, len(p.Value)))
	}
	return s
}

func (s slot) prefix() string { return models.OptimizerPrefix + s.name + "." }

func save(f *models.File, params []models.Param, step int64, slots ...slot) {
	f.Put(safetensors.Tensor{Name: stepName, Data: []int64{step}})
	for _, s := range slots {
		for i, p := range params {
			f.PutState(s.prefix(), p, s.values[i])
		}
	}
}

const stepName = models.OptimizerPrefix + "step"

// load fills all slots and returns the number of steps. After an error no slot has changed.
func load(f models.File, params []models.Param, slots ...slot) (step int64, err error) {
	t, err := f.Tensor(stepName)
	if err != nil {
		return 0, err
	}
	steps, err := safetensors.As[int64](t)
	if err != nil || len(steps) != 1 || steps[0] < 0 {
		return 0, fmt.Errorf("%w: tensor %q is not one I64 of at least 0", models.ErrMismatch, stepName)
	}
	fresh := make([]slot, len(slots))
	for k, s := range slots {
		fresh[k] = newSlot(s.name, params)
		for i, p := range params {
			if err := f.State(s.prefix(), p, fresh[k].values[i]); err != nil {
				return 0, err
			}
		}
	}
	for k, s := range slots {
		copy(s.values, fresh[k].values)
	}
	return steps[0], nil
}
