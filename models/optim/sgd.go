package optim

import (
	"fmt"

	"github.com/kubernasium/kubernasium/models"
)

// SGD changes a parameter by lr·b, where b is the gradient plus momentum times the b of the
// step before.
//
// Source: torch.optim.SGD, with dampening 0 and without Nesterov's variant.
type SGD struct {
	momentum float64
	params   []models.Param
	step     int64
	b        slot
}

var _ Optimizer = (*SGD)(nil)

// NewSGD returns an optimizer of params. It panics unless momentum is in [0, 1).
func NewSGD(params []models.Param, momentum float64) *SGD {
	if !(momentum >= 0 && momentum < 1) {
		panic(fmt.Sprintf("optim: momentum %v, want a number in [0, 1)", momentum))
	}
	return &SGD{momentum: momentum, params: params, b: newSlot("momentum_buffer", params)}
}

// Step implements [Optimizer].
func (s *SGD) Step(lr float64) {
	s.step++
	momentum, size := float32(s.momentum), float32(lr)
	for i, p := range s.params {
		b := s.b.values[i]
		for j, g := range p.Grad {
			b[j] = float32(momentum*b[j]) + g
			p.Value[j] -= float32(size * b[j])
		}
	}
}

// Save implements [Optimizer], under PyTorch's name momentum_buffer.
func (s *SGD) Save(f *models.File) { save(f, s.params, s.step, s.b) }

// Load implements [Optimizer].
func (s *SGD) Load(f models.File) error {
	step, err := load(f, s.params, s.b)
	if err != nil {
		return err
	}
	s.step = step
	return nil
}
