package optim

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/models"
)

// param returns one parameter of shape (1, 3).
func param(value, grad [3]float32) []models.Param {
	return []models.Param{{Name: "w", Shape: []int{1, 3}, Value: value[:], Grad: grad[:]}}
}

func near(got float32, want, tolerance float64) bool {
	return math.Abs(float64(got)-want) <= tolerance*math.Abs(want)
}

// After one step m̂ is the gradient and √v̂ its size, so that a parameter moves by
// lr·g/(|g|+eps); hand-worked: 0.1·2/(2+0.5) = 0.08, 0.1·0.5/(0.5+0.5) = 0.05. With eps
// inside the root, or added before the correction of the bias, this would differ.
func TestAdamFirstStep(t *testing.T) {
	p := param([3]float32{1, 1, 1}, [3]float32{2, -0.5, 0})
	NewAdam(p, AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 0.5}).Step(0.1)
	for i, want := range []float64{0.92, 1.05, 1} {
		if !near(p[0].Value[i], want, 1e-6) {
			t.Errorf("value %d = %v, want %v", i, p[0].Value[i], want)
		}
	}
}

// Algorithm 1 of arXiv:1412.6980 in float64, with a learning rate that changes. 100 steps round
// a value 100 times, by 6e-8 of itself at most.
func TestAdamReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := param([3]float32{3, -2, 4}, [3]float32{})
	cfg := AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-5}
	adam := NewAdam(p, cfg)
	var m, v [3]float64
	w := [3]float64{3, -2, 4}
	for step := 1; step <= 100; step++ {
		lr := 1e-3 / float64(step)
		for i := range w {
			p[0].Grad[i] = float32(rng.NormFloat64())
			g := float64(p[0].Grad[i])
			m[i] = cfg.Beta1*m[i] + (1-cfg.Beta1)*g
			v[i] = cfg.Beta2*v[i] + (1-cfg.Beta2)*g*g
			mHat := m[i] / (1 - math.Pow(cfg.Beta1, float64(step)))
			vHat := v[i] / (1 - math.Pow(cfg.Beta2, float64(step)))
			w[i] -= lr * mHat / (math.Sqrt(vHat) + cfg.Eps)
		}
		adam.Step(lr)
		for i := range w {
			if !near(p[0].Value[i], w[i], 1e-6) {
				t.Fatalf("step %d: value %d = %v, want %v", step, i, p[0].Value[i], w[i])
			}
		}
	}
}

// 1-float32(0.999) is 0.00099998712, 1.3e-5 below 0.001. The state shows it: after one step
// from 0 with gradient 1 it is 1-beta2.
func TestAdamComplement(t *testing.T) {
	p := param([3]float32{}, [3]float32{1, 1, 1})
	adam := NewAdam(p, DefaultAdam())
	adam.Step(1e-3)
	if got := adam.v.values[0][0]; !near(got, 0.001, 1e-7) {
		t.Errorf("mean of squares = %v, want 0.001", got)
	}
}

func TestDecay(t *testing.T) {
	// AdamW, arXiv:1711.05101, algorithm 2, by hand for a first step of Adam with eps 0, which moves each parameter by
	// lr against its gradient: 2·(1−0.1·0.5) − 0.1 = 1.8, −4·0.95 + 0.1 = −3.7. Without a gradient 3·0.95 = 2.85. With
	// decay in the gradient, as in Adam with an L2 loss, the first two would be 1.9 and −3.9.
	p := param([3]float32{2, -4, 3}, [3]float32{0.5, -2, 0})
	adam := NewAdam(p, AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-12})
	Decay(p, 0.1, 0.5)
	adam.Step(0.1)
	for i, want := range []float64{1.8, -3.7, 2.85} {
		if !near(p[0].Value[i], want, 1e-6) {
			t.Errorf("value %d = %v, want %v", i, p[0].Value[i], want)
		}
	}
}

func TestClipGradNorm(t *testing.T) {
	for name, tt := range map[string]struct {
		max, want float64 // want: the first gradient
	}{
		"longer":       {2.5, 3 * 2.5 / (5 + 1e-6)},
		"shorter":      {10, 3},
		"just as long": {5, 3 * 5 / (5 + 1e-6)}, // PyTorch scales here, too
	} {
		p := append(param([3]float32{}, [3]float32{3}), param([3]float32{}, [3]float32{0, -4})...)
		if norm := ClipGradNorm(p, tt.max); norm != 5 {
			t.Errorf("%s: norm = %v, want 5", name, norm)
		}
		if g := p[0].Grad[0]; !near(g, tt.want, 1e-7) {
			t.Errorf("%s: gradient = %v, want %v", name, g, tt.want)
		}
		if g := p[1].Grad[1]; !near(g, -tt.want*4/3, 1e-7) {
			t.Errorf("%s: gradient of the other = %v, want %v", name, g, -tt.want*4/3)
		}
	}
}

// A run that is saved to a file and loaded in the middle ends with the same bits.
func TestResume(t *testing.T) {
	for name, make := range map[string]func([]models.Param) Optimizer{
		"Adam":    func(p []models.Param) Optimizer { return NewAdam(p, DefaultAdam()) },
		"RMSprop": func(p []models.Param) Optimizer { return NewRMSprop(p, RMSpropConfig{Alpha: 0.99, Eps: 1e-8}) },
	} {
		run := func(p []models.Param, o Optimizer, from, to int) {
			for k := from; k < to; k++ {
				for i := range p[0].Grad {
					p[0].Grad[i] = float32(math.Sin(float64(7*k + i)))
				}
				o.Step(0.01)
			}
		}
		whole := param([3]float32{1, 2, 3}, [3]float32{})
		run(whole, make(whole), 0, 20)

		first := param([3]float32{1, 2, 3}, [3]float32{})
		o := make(first)
		run(first, o, 0, 9)
		f := models.File{Meta: models.Checkpoint{Spec: models.ActorCritic(1, 1, nil, "")}}
		f.PutParams(first)
		o.Save(&f)
		var buf bytes.Buffer
		if err := models.Write(&buf, f); err != nil {
			t.Fatal(err)
		}
		f, err := models.Read(&buf)
		if err != nil {
			t.Fatal(err)
		}
		second := param([3]float32{}, [3]float32{})
		o = make(second)
		if err := errors.Join(f.Params(second), o.Load(f)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		run(second, o, 9, 20)
		if diff := cmp.Diff(whole, second); diff != "" {
			t.Errorf("%s (-whole +resumed):\n%s", name, diff)
		}
	}
}

// What Load refuses, it does not take in part.
func TestLoadRefuses(t *testing.T) {
	p := param([3]float32{}, [3]float32{1, 1, 1})
	adam := NewAdam(p, DefaultAdam())
	var whole models.File
	adam.Save(&whole)
	adam.Step(1)
	for i, name := range []string{"optimizer.step", "optimizer.exp_avg.w", "optimizer.exp_avg_sq.w"} {
		if got := whole.Tensors[i].Name; got != name {
			t.Errorf("tensor %d is named %s, want %s", i, got, name)
		}
		f := models.File{}
		for j, tensor := range whole.Tensors {
			if j != i {
				f.Put(tensor)
			}
		}
		if err := adam.Load(f); !errors.Is(err, models.ErrMismatch) {
			t.Errorf("Load without %s: %v, want %v", name, err, models.ErrMismatch)
		}
		if adam.step != 1 || adam.m.values[0][0] == 0 || adam.v.values[0][0] == 0 {
			t.Errorf("Load without %s changed the state", name)
		}
	}
	whole.Tensors[0].Data = []int64{-1}
	if err := adam.Load(whole); !errors.Is(err, models.ErrMismatch) {
		t.Errorf("Load of a negative step: %v, want %v", err, models.ErrMismatch)
	}
}

func TestConstantsOutOfRange(t *testing.T) {
	for name, make := range map[string]func(){
		"beta1": func() { NewAdam(nil, AdamConfig{Beta1: 1}) },
		"beta2": func() { NewAdam(nil, AdamConfig{Beta2: -0.1}) },
		"eps":   func() { NewAdam(nil, AdamConfig{Eps: math.NaN()}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			make()
		}()
	}
}

func BenchmarkAdam(b *testing.B) {
	params := models.NewParams(models.ActorCritic(81, 4, []int{64, 64}, models.Tanh))
	for _, p := range params {
		for i := range p.Grad {
			p.Grad[i] = float32(i%7) - 3
		}
	}
	adam := NewAdam(params, DefaultAdam())
	b.ReportAllocs()
	for b.Loop() {
		ClipGradNorm(params, 0.5)
		adam.Step(1e-3)
	}
}
