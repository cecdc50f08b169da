package a2c

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/models/graph"
)

// TestLossByHand has two rows with the logits (0, ln 3), so that the probabilities are 1/4 and
// 3/4, and the value 2: action 0 with advantage 2 and return 3, and action 1 with advantage −1
// and return 0. The second row permits action 1 alone, whose probability is then 1.
func TestLossByHand(t *testing.T) {
	cfg := small(2)
	cfg.EntCoef, cfg.VfCoef = 0.5, 0.25
	net := agentstest.NewStub(2, func([]float32, float32) []float32 { return []float32{0, float32(math.Log(3)), 2} })
	l := stubLearner(t, cfg, net, 1)
	copy(l.collector.Buf.Action, []float32{0, 1})
	copy(l.collector.Buf.Adv, []float32{2, -1})
	copy(l.collector.Buf.Ret, []float32{3, 0})
	copy(l.collector.Buf.Mask, []bool{true, true, false, true})
	got, err := l.gradient()
	if err != nil {
		t.Fatal(err)
	}
	entropy := math.Log(4) - 0.75*math.Log(3)
	want := onpolicy.Losses{Policy: math.Log(4), Value: (1 + 4) / 2., Entropy: -entropy / 2}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-6, 0)); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	// d(−adv·ln p_0)/dl_0 = −2·(1 − 1/4), halved by the mean; the entropy has the derivative
	// −p_0·(ln p_0 + H). The value's: 1/2·1/4·2·(value − return).
	dLogit := -0.75 + 0.5*0.5*0.25*(-math.Log(4)+entropy)
	for i, want := range []float64{dLogit, -dLogit, -0.25, 0, 0, 0.5} {
		if got := float64(net.DOut[i]); math.Abs(got-want) > 1e-6 {
			t.Errorf("gradient of output %d is %v, want %v", i, got, want)
		}
	}
}

// TestGradientAgainstFiniteDifferences writes the loss out from its definition.
func TestGradientAgainstFiniteDifferences(t *testing.T) {
	outputs := []float64{0.5, -0.25, 1, 2, 0, 1, -1, -0.5, 1, 2, 3, 0.25}
	masks := []bool{true, true, true, true, false, true, false, true, true}
	actions, adv, ret := []int{0, 2, 1}, []float64{2, -1.5, 0.5}, []float64{1, 0, 3}
	for _, coef := range [][2]float64{{0, 0}, {0.3, 0}, {0, 0.5}, {0.01, 0.7}} {
		cfg := small(3)
		cfg.EntCoef, cfg.VfCoef = coef[0], coef[1]
		row := 0
		net := agentstest.NewStub(3, func([]float32, float32) []float32 {
			row++
			var out []float32
			for _, x := range outputs[4*(row-1) : 4*row] {
				out = append(out, float32(x))
			}
			return out
		})
		l := stubLearner(t, cfg, net, 1)
		for i, a := range actions {
			l.collector.Buf.Action[i], l.collector.Buf.Adv[i], l.collector.Buf.Ret[i] = float32(a), float32(adv[i]), float32(ret[i])
		}
		copy(l.collector.Buf.Mask, masks)
		objective := func(x []float64) float64 {
			loss := 0.0
			for i, a := range actions {
				sum, entropy := 0.0, 0.0
				for j := range 3 {
					if masks[3*i+j] {
						sum += math.Exp(x[4*i+j])
					}
				}
				for j := range 3 {
					if p := math.Exp(x[4*i+j]) / sum; masks[3*i+j] {
						entropy -= p * math.Log(p)
					}
				}
				logp, d := x[4*i+a]-math.Log(sum), x[4*i+3]-ret[i]
				loss += (-adv[i]*logp - coef[0]*entropy + coef[1]*d*d) / 3
			}
			return loss
		}
		s, err := l.gradient()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.Policy+coef[0]*s.Entropy+coef[1]*s.Value, objective(outputs); math.Abs(got-want) > 1e-6 {
			t.Errorf("coefficients %v: loss %v, want %v", coef, got, want)
		}
		for i, want := range fd.Gradient(nil, objective, outputs, &fd.Settings{Formula: fd.Central}) {
			if got := float64(net.DOut[i]); math.Abs(got-want) > 1e-6 {
				t.Errorf("coefficients %v: gradient of output %d is %v, want %v", coef, i, got, want)
			}
		}
	}
}

// rollOut fills the learner's rollout with steps of n environments without any end.
func rollOut(t *testing.T, l *Learner, n int) {
	t.Helper()
	for k := 0; !l.collector.Buf.Full(); k++ {
		b := agentstest.BatchOf(2, make([]float32, n)...)
		for i := range n {
			b.Reward[i] = float64(k*n + i)
		}
		if err := l.Act(b, make([]float32, n)); err != nil {
			t.Fatal(err)
		}
		if m, err := l.Update(); m != nil || err != nil {
			t.Fatalf("Update() = %v, %v before the rollout is full, want nil, nil", m, err)
		}
		if err := l.Observe(b); err != nil {
			t.Fatal(err)
		}
	}
}

func even([]float32, float32) []float32 { return []float32{0, 0, 0} }

// TestSchedules has rollouts of 10 timesteps of 40: progress counts the rollout that was just
// collected. Under a constant gradient Adam's step is the learning rate, up to its ε.
func TestSchedules(t *testing.T) {
	cfg := small(5)
	cfg.LearningRate, cfg.TotalTimesteps, cfg.UseRMSProp = agents.Schedule{Initial: 0.4, Linear: true}, 40, false
	net := agentstest.NewStub(2, even)
	net.Grad = 1
	l := stubLearner(t, cfg, net, 2)
	for k, want := range []float64{0.3, 0.2, 0.1, 0, 0} {
		rollOut(t, l, 2)
		before := net.Theta()
		m, err := l.Update()
		if err != nil || m == nil {
			t.Fatalf("Update() = %v, %v", m, err)
		}
		if got := m["train/learning_rate"]; math.Abs(got-want) > 1e-12 || m["train/n_updates"] != float64(k+1) {
			t.Errorf("update %v: train/learning_rate = %v, want %v in update %d", m["train/n_updates"], got, want, k+1)
		}
		if moved := float64(before - net.Theta()); math.Abs(moved-want) > 1e-4 {
			t.Errorf("update %d: the parameter fell by %v, want %v", k+1, moved, want)
		}
	}
}

func TestUpdateRefusesALossThatIsNotFinite(t *testing.T) {
	value := float32(0)
	l := stubLearner(t, small(2), agentstest.NewStub(2, func([]float32, float32) []float32 { return []float32{0, 0, value} }), 1)
	rollOut(t, l, 1)
	value = float32(math.NaN())
	_, err := l.Update()
	if err == nil {
		t.Fatal("Update gives no error for a value of NaN")
	}
	for _, part := range []string{"NaN", "timestep 2", "update 1"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
}

// TestAgainstStableBaselines3 goes through one rollout of 4 steps of 2 environments and one
// update, as A2C of stable-baselines3 2.9.2 does with the same first parameters: observations,
// actions, rewards and ends are those of testdata/sb3.py.
func TestAgainstStableBaselines3(t *testing.T) {
	agentstest.CheckSB3(t, "testdata/sb3.json", map[string]func(*Config){
		"defaults":   func(*Config) {},
		"normalized": func(c *Config) { c.NormalizeAdvantage, c.EntCoef, c.MaxGradNorm = true, 0.01, 100 },
		"Adam":       func(c *Config) { c.UseRMSProp, c.EntCoef, c.VfCoef = false, 0.5, 0.25 },
	}, func(t *testing.T, configure func(*Config)) (got agentstest.SB3Result) {
		cfg := small(4)
		cfg.NetArch, cfg.LearningRate, cfg.Gamma, cfg.GAELambda = []int{2}, agents.Constant(0.05), 0.9, 0.8
		configure(&cfg)
		l := agentstest.SB3Learner(t, algorithm, cfg, graph.New)
		agentstest.SB3Rollout{}.Play(t, l, 0, 4)
		copy(l.collector.Buf.Action, []float32{0, 1, 0, 1, 1, 2, 1, 0}) // in place of what was sampled
		l.collector.Buf.Estimate(nil, cfg.Gamma, cfg.GAELambda)         // Update normalizes the advantages in place
		got.Advantages, got.Returns = slices.Clone(l.collector.Buf.Adv), l.collector.Buf.Ret
		var err error
		if got.Metrics, err = l.Update(); err != nil {
			t.Fatal(err)
		}
		delete(got.Metrics, "train/learning_rate")
		got.Params = agentstest.Flat(l.actor.Params)
		return got
	})
}
