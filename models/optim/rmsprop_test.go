package optim

import (
	"errors"
	"math"
	"testing"

	"github.com/kubernasium/kubernasium/models"
)

// Hand-worked with alpha 0.75, eps 0.5 and gradients of ±4, then ±1: v = 0.25·16 = 4, a step of
// 0.1·4/(2+0.5) = 0.16; then v = 0.75·4+0.25·1 = 3.25. With eps inside the root the first step
// would be 0.1·4/√4.5 = 0.1886.
func TestRMSprop(t *testing.T) {
	p := param([3]float32{1, 1, 1}, [3]float32{4, -4, 0})
	r := NewRMSprop(p, RMSpropConfig{Alpha: 0.75, Eps: 0.5})
	r.Step(0.1)
	for i, want := range []float64{0.84, 1.16, 1} {
		if !near(p[0].Value[i], want, 1e-6) {
			t.Errorf("value %d after one step = %v, want %v", i, p[0].Value[i], want)
		}
	}
	p[0].Grad[0], p[0].Grad[1] = 1, -1
	r.Step(0.1)
	second := 0.1 / (math.Sqrt(3.25) + 0.5)
	for i, want := range []float64{0.84 - second, 1.16 + second, 1} {
		if !near(p[0].Value[i], want, 1e-6) {
			t.Errorf("value %d after two steps = %v, want %v", i, p[0].Value[i], want)
		}
	}
}

// What torch 2.15.0 gives: torch.optim.RMSprop([p], lr=0.1, alpha=0.9, eps=0.01), with p and its
// gradients as here.
func TestRMSpropAgainstTorch(t *testing.T) {
	p := param([3]float32{1, -2, 3}, [3]float32{})
	r := NewRMSprop(p, RMSpropConfig{Alpha: 0.9, Eps: 0.01})
	for step, s := range []struct{ grad, value, squares [3]float32 }{
		{[3]float32{0.5, -1, 0}, [3]float32{0.702582597732544, -1.6934657096862793, 3.0}, [3]float32{0.02500000037252903, 0.10000000149011612, 0.0}},
		{[3]float32{0.25, 2, -3}, [3]float32{0.5633519887924194, -1.9751558303833008, 3.312929153442383}, [3]float32{0.028749998658895493, 0.49000000953674316, 0.9000000357627869}},
		{[3]float32{-1, 0.125, 0.5}, [3]float32{0.837483286857605, -1.9936673641204834, 3.2588038444519043}, [3]float32{0.12587499618530273, 0.4425624907016754, 0.8349999785423279}},
	} {
		copy(p[0].Grad, s.grad[:])
		r.Step(0.1)
		for i := range s.value {
			if !near(p[0].Value[i], float64(s.value[i]), 3e-7) || !near(r.v.values[0][i], float64(s.squares[i]), 3e-7) {
				t.Errorf("step %d: value %v and square_avg %v, want %v and %v", step+1, p[0].Value[i], r.v.values[0][i], s.value[i], s.squares[i])
			}
		}
	}
}

func TestRMSpropLoad(t *testing.T) {
	p := param([3]float32{1, 2, 3}, [3]float32{})
	o := NewRMSprop(p, RMSpropConfig{Alpha: 0.99, Eps: 1e-8})
	o.Step(0.01)
	var f models.File
	o.Save(&f)
	if _, err := f.Tensor("optimizer.square_avg.w"); err != nil {
		t.Error(err)
	}
	// The state of another optimizer is refused and changes nothing.
	var adam models.File
	NewAdam(p, DefaultAdam()).Save(&adam)
	if err := o.Load(adam); !errors.Is(err, models.ErrMismatch) || o.step != 1 {
		t.Errorf("Load of Adam's state: error %v and step %d, want %v and 1", err, o.step, models.ErrMismatch)
	}
}

func TestRMSpropConstantsOutOfRange(t *testing.T) {
	for _, cfg := range []RMSpropConfig{{Alpha: 1}, {Alpha: -0.1}, {Alpha: math.NaN()}, {Eps: -1}, {Eps: math.NaN()}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v: no panic", cfg)
				}
			}()
			NewRMSprop(nil, cfg)
		}()
	}
}
