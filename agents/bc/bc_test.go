package bc

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
)

// TestLossByHand has two rows with the logits (0, ln 3), so that the probabilities are 1/4 and 3/4, and
// actions 0 and 1. The second row permits action 1 alone, whose probability is then 1.
func TestLossByHand(t *testing.T) {
	cfg := Defaults()
	cfg.BatchSize, cfg.EntCoef, cfg.TotalTimesteps = 2, 0.5, 10
	net := agentstest.NewStub(2, func([]float32, float32) []float32 { return []float32{0, float32(math.Log(3)), 7} })
	l, err := New(cfg, agentstest.Env(2, 1), agents.Given(net), 1)
	if err != nil {
		t.Fatal(err)
	}
	copy(l.batch.Action, []float32{0, 1})
	copy(l.batch.Mask, []bool{true, true, false, true})
	got, err := l.gradient()
	if err != nil {
		t.Fatal(err)
	}
	entropy := math.Log(4) - 0.75*math.Log(3)
	for name, want := range map[string]float64{
		"train/neglogp": math.Log(4) / 2, "train/entropy": entropy / 2, "train/loss": math.Log(4)/2 - 0.5*entropy/2,
		"train/accuracy": 0.5, // the most probable action of row 0 is 1
	} {
		if math.Abs(got[name]-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	// d(−ln p_0)/dl_0 = −(1 − 1/4), halved by the mean; the entropy has the derivative −p_0·(ln p_0 + H).
	// The value, the third output, has none.
	dLogit := -0.75/2 + 0.5*0.5*0.25*(-math.Log(4)+entropy)
	for i, want := range []float64{dLogit, -dLogit, 0, 0, 0, 0} {
		if d := float64(net.DOut[i]); math.Abs(d-want) > 1e-6 {
			t.Errorf("gradient of output %d is %v, want %v", i, d, want)
		}
	}
}

// TestGradientAgainstFiniteDifferences writes the loss out for Box actions, whose standard deviations
// have no gradient.
func TestGradientAgainstFiniteDifferences(t *testing.T) {
	means, actions, logStd := []float64{0.5, -0.25, 1, 2}, []float64{0.25, 1, -1, 2.5}, math.Log(0.5)
	cfg := Defaults()
	cfg.BatchSize, cfg.TotalTimesteps = 2, 10
	env := agentstest.Env(2, 1)
	env.Act = space.NewBox(-5, 5, 2)
	spec, err := cfg.ActorCritic(env.Obs, env.Act)
	if err != nil {
		t.Fatal(err)
	}
	offset, _ := spec.Head("action_net")
	deviations, _ := spec.Head("log_std")
	width, row := spec.Outputs(), 0
	net := agentstest.NewStub(2, func([]float32, float32) []float32 {
		row++
		out := make([]float32, width)
		for k := range 2 {
			out[offset+k], out[deviations+k] = float32(means[2*row-2+k]), float32(logStd)
		}
		return out
	})
	l, err := New(cfg, env, agents.Given(net), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range actions {
		l.batch.Action[i] = float32(a)
	}
	objective := func(x []float64) float64 {
		loss := 0.0
		for i, m := range x {
			z := (actions[i] - m) / 0.5
			loss += (z*z/2 + logStd + math.Log(2*math.Pi)/2) / 2
		}
		return loss
	}
	got, err := l.gradient()
	if err != nil {
		t.Fatal(err)
	}
	if want := objective(means); math.Abs(got["train/neglogp"]-want) > 1e-6 {
		t.Errorf("−log π is %v, want %v", got["train/neglogp"], want)
	}
	var all []float64
	for i, x := range net.DOut {
		if k := i % width; k < offset || k >= offset+2 {
			if x != 0 {
				t.Errorf("gradient of output %d, no mean, is %v", i, x)
			}
			continue
		}
		all = append(all, float64(x))
	}
	for i, want := range fd.Gradient(nil, objective, means, &fd.Settings{Formula: fd.Central}) {
		if math.Abs(all[i]-want) > 1e-5 {
			t.Errorf("gradient of mean %d is %v, want %v", i, all[i], want)
		}
	}
}

// newLearner returns a learner with a small network.
func newLearner(t *testing.T, cfg Config, env agents.EnvInfo, seed uint64) (*Learner, error) {
	t.Helper()
	return New(cfg, env, agentstest.Networks(t, seed), seed)
}

func TestOffline(t *testing.T) {
	cfg := Defaults()
	cfg.NetArch, cfg.BatchSize, cfg.TotalTimesteps = []int{8}, 4, 100
	for name, act := range map[string]space.Space{"discrete": space.Discrete{N: 4}, "multi-discrete": space.MultiDiscrete{NVec: []int{2, 3}}, "box": space.NewBox(-1, 1, 2)} {
		t.Run(name, func(t *testing.T) {
			env := agents.EnvInfo{ID: "toy/X-v0", Obs: space.NewBox(-1, 1, 3), Act: act, NumEnvs: 2}
			agentstest.CheckOffline(t, env, func(seed uint64) (*Learner, error) { return newLearner(t, cfg, env, seed) })
		})
	}
}

// TestClonesToys records the best actions of toys and clones them. The best
// return is 100, or 50 of nodes; a tenth is left for errors.
func TestClonesToys(t *testing.T) {
	for name, tc := range map[string]struct {
		spec     *envs.Spec
		policy   string
		baseline string
		bar      float64
	}{
		"box":   {envcheck.IdentityBox(1, 0.5), policies.Mlp, "Identity", 90},
		"nodes": {envcheck.LargestNode(8, false), policies.Node, "Largest", 45},
	} {
		t.Run(name, func(t *testing.T) {
			v, b := agentstest.NewVec(t, tc.spec, 4)
			teacher, err := baseline.New(v, tc.baseline, 1)
			if err != nil {
				t.Fatal(err)
			}
			data := agentstest.Played(t, v, b, teacher, 300)
			cfg := Defaults()
			cfg.Policy, cfg.NetArch, cfg.TotalTimesteps = tc.policy, []int{32}, 600
			obs, act := v.Spaces()
			l, err := newLearner(t, cfg, agents.EnvInfo{ID: tc.spec.ID, Obs: obs, Act: act, NumEnvs: 4}, 1)
			if err != nil {
				t.Fatal(err)
			}
			before := agentstest.MeanReturn(t, tc.spec, l.Greedy(), 10)
			if _, err := l.Record(data); err != nil {
				t.Fatal(err)
			}
			for range cfg.TotalTimesteps {
				if _, err := l.Update(); err != nil {
					t.Fatal(err)
				}
			}
			if got := agentstest.MeanReturn(t, tc.spec, l.Greedy(), 10); got < tc.bar || before >= tc.bar {
				t.Errorf("mean return %v before and %v after, want below and above %v", before, got, tc.bar)
			}
		})
	}
}

// TestHidesValues: the network's value is not trained, and nothing shows it.
func TestHidesValues(t *testing.T) {
	cfg := Defaults()
	cfg.TotalTimesteps = 1
	l, err := newLearner(t, cfg, agentstest.Env(2, 1), 1)
	if err != nil {
		t.Fatal(err)
	}
	p := l.Greedy()
	if _, ok := p.(agents.Valuer); ok {
		t.Errorf("the policy of type %T is a Valuer", p)
	}
	if _, ok := p.(agents.Scorer); !ok {
		t.Errorf("the policy of type %T is no Scorer", p)
	}
}

func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"batch_size is 0":    func(c *Config) { c.BatchSize = 0 },
		"ent_coef is -1":     func(c *Config) { c.EntCoef = -1 },
		"learning_rate is 0": func(c *Config) { c.LearningRate = agents.Constant(0) },
	} {
		cfg := Defaults()
		cfg.TotalTimesteps = 10
		change(&cfg)
		if _, err := newLearner(t, cfg, agentstest.Env(2, 1), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want an error with %q", err, want)
		}
	}
	cfg := Defaults()
	cfg.TotalTimesteps = 10
	env := agentstest.Env(2, 1)
	env.Act = space.NewBox(0, 1, 2)
	l, err := newLearner(t, cfg, env, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := agentstest.Recorded(env.Obs, space.NewBox(0, 1, 3), 4, 1)
	if _, err := l.Record(r); err == nil || !strings.Contains(err.Error(), "12 numbers in actions") {
		t.Errorf("Record of actions of another size: %v", err)
	}
}
