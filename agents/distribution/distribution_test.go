package distribution

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// spec returns one whose output rows have an unrelated number first, then the action's and,
// for a Box, the deviations.
func spec(actions, logStd int) models.Spec {
	s := models.Spec{Inputs: 1, Towers: []models.Tower{{Name: "t"}}, Heads: []models.Head{
		{Name: "value_net", Size: 1, Gain: 1}, {Name: ActionHead, Size: actions, Gain: 1},
	}}
	if logStd > 0 {
		s.Heads = append(s.Heads, models.Head{Name: LogStdHead, Size: logStd, Gain: 1})
	}
	return s
}

type example struct {
	name    string
	act     space.Space
	out     []float32
	mask    []bool
	action  []float32
	logProb float64
	entropy float64
	mode    []float32
}

// The numbers come from Stable-Baselines3 2.9 (common/distributions.py), those with masks are
// worked by hand.
var examples = []example{
	{"box", space.NewBox(-9, 9, 2), []float32{7, 0.5, -1, 0.2, -0.7}, nil,
		[]float32{1, -1.2}, -1.5027711391448975, 2.337877035140991, []float32{0.5, -1}},
	{"multi-discrete", space.MultiDiscrete{NVec: []int{2, 3}}, []float32{7, 0.1, 0.4, -1, 2, 0.5}, nil,
		[]float32{1, 2}, -2.2956666946411133, 1.3036072254180908, []float32{1, 1}},
	{"multi-binary", space.MultiBinary{N: 3}, []float32{7, 0.3, -2, 1.5}, nil,
		[]float32{1, 0, 0}, -2.3826966285705566, 1.5224080085754395, []float32{1, 0, 1}},
	// ln 3 against 0: 3/4 and 1/4.
	{"discrete", space.Discrete{N: 2}, []float32{7, 0, float32(math.Log(3))}, nil,
		[]float32{0}, math.Log(0.25), -0.25*math.Log(0.25) - 0.75*math.Log(0.75), []float32{1}},
	{"discrete, masked", space.Discrete{N: 3}, []float32{7, 0, float32(math.Log(3)), 9}, []bool{true, true, false},
		[]float32{0}, math.Log(0.25), -0.25*math.Log(0.25) - 0.75*math.Log(0.75), []float32{1}},
	{"multi-discrete, masked", space.MultiDiscrete{NVec: []int{2, 2}}, []float32{7, 5, 1, 0, 0}, []bool{false, true, true, true},
		[]float32{1, 0}, math.Log(0.5), math.Log(2), []float32{1, 0}},
	// The first may only be 1, the second only 0, the third is free: 3/4 for 1.
	{"multi-binary, masked", space.MultiBinary{N: 3}, []float32{7, -4, 4, float32(math.Log(3))}, []bool{false, true, true, false, true, true},
		[]float32{1, 0, 1}, math.Log(0.75), -0.25*math.Log(0.25) - 0.75*math.Log(0.75), []float32{1, 0, 1}},
}

func (e example) distribution(t *testing.T) Distribution {
	t.Helper()
	s := spec(len(e.out)-1, 0)
	if _, ok := e.act.(space.Box); ok {
		s = spec(e.act.Size(), e.act.Size())
	}
	d, err := New(e.act, s)
	if err != nil {
		t.Fatal(err)
	}
	d.Condition(e.out, e.mask)
	return d
}

func TestExamples(t *testing.T) {
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			d := e.distribution(t)
			if got := d.LogProb(e.action); math.Abs(got-e.logProb) > 1e-6 {
				t.Errorf("LogProb(%v) = %v, want %v", e.action, got, e.logProb)
			}
			if got := d.Entropy(); math.Abs(got-e.entropy) > 1e-6 {
				t.Errorf("Entropy() = %v, want %v", got, e.entropy)
			}
			mode := make([]float32, len(e.mode))
			d.Mode(mode)
			if diff := cmp.Diff(e.mode, mode); diff != "" {
				t.Errorf("Mode (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGrad compares with central differences of LogProb and Entropy.
func TestGrad(t *testing.T) {
	for _, e := range examples {
		for _, c := range [][2]float64{{1, 0}, {0, 1}, {-0.7, 0.3}} {
			t.Run(fmt.Sprintf("%s, %v", e.name, c), func(t *testing.T) {
				d := e.distribution(t)
				got := make([]float32, len(e.out))
				d.Grad(got, e.action, c[0], c[1])
				x := make([]float64, len(e.out))
				for i, o := range e.out {
					x[i] = float64(o)
				}
				want := fd.Gradient(nil, func(x []float64) float64 {
					row := make([]float32, len(x))
					for i, v := range x {
						row[i] = float32(v)
					}
					d.Condition(row, e.mask)
					return c[0]*d.LogProb(e.action) + c[1]*d.Entropy()
				}, x, &fd.Settings{Formula: fd.Central, Step: 1e-2})
				for i, w := range want {
					if math.Abs(float64(got[i])-w) > 1e-3 {
						t.Errorf("gradient of output %d is %v, want %v", i, got[i], w)
					}
				}
			})
		}
	}
}

// TestSample compares frequencies, or means and deviations, of 20,000 draws with LogProb's.
func TestSample(t *testing.T) {
	const n = 20_000
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			d, rng := e.distribution(t), rand.New(rand.NewPCG(1, 2))
			action, count, sum, sq := make([]float32, e.act.Size()), map[string]int{}, make([]float64, e.act.Size()), make([]float64, e.act.Size())
			prob := map[string]float64{}
			for range n {
				d.Sample(rng, action)
				key := fmt.Sprint(action)
				count[key]++
				prob[key] = math.Exp(d.LogProb(action))
				for i, a := range action {
					sum[i] += float64(a)
					sq[i] += float64(a) * float64(a)
				}
			}
			if _, ok := e.act.(space.Box); ok {
				for i := range action {
					mean, std := sum[i]/n, math.Sqrt(sq[i]/n-sum[i]*sum[i]/n/n)
					wantMean, wantStd := float64(e.out[1+i]), math.Exp(float64(e.out[3+i]))
					if math.Abs(mean-wantMean) > 5*wantStd/math.Sqrt(n) || math.Abs(std/wantStd-1) > 5/math.Sqrt(2*n) {
						t.Errorf("element %d has mean %v and deviation %v, want %v and %v", i, mean, std, wantMean, wantStd)
					}
				}
				return
			}
			total := 0.0
			for key, c := range count {
				p := prob[key]
				total += p
				if math.Abs(float64(c)/n-p) > 5*math.Sqrt(p*(1-p)/n) {
					t.Errorf("action %s drawn %d times of %d, want a share of %v", key, c, n, p)
				}
			}
			if math.Abs(total-1) > 1e-6 { // every possible action was drawn
				t.Errorf("probabilities sum to %v, want 1", total)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		act  space.Space
		spec models.Spec
		want string
	}{
		{"another number of outputs", space.Discrete{N: 3}, spec(2, 0), "2 outputs action_net for actions that need 3"},
		{"a Box without deviations", space.NewBox(0, 1, 2), spec(2, 0), "0 outputs log_std"},
		{"dict", space.Dict{}, spec(2, 0), "kind dict"},
	} {
		if _, err := New(tc.act, tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", tc.name, err, tc.want)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	for _, e := range examples {
		d, rng := e.distribution(t), rand.New(rand.NewPCG(1, 2))
		action, grad := make([]float32, e.act.Size()), make([]float32, len(e.out))
		if allocs := testing.AllocsPerRun(100, func() {
			d.Condition(e.out, e.mask)
			d.Sample(rng, action)
			d.Grad(grad, action, d.LogProb(action), d.Entropy())
		}); allocs != 0 {
			t.Errorf("%s: %v allocs/op, want 0", e.name, allocs)
		}
	}
}
