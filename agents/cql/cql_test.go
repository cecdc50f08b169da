package cql

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// stubs returns a learner with the given networks and a batch of n rows, whose observations number the
// rows of the outputs.
func stubs(t *testing.T, cfg Config, net, target *agentstest.Stub, n int) *Learner {
	t.Helper()
	cfg.BatchSize, cfg.TotalTimesteps = n, 100
	l, err := New(cfg, agentstest.Env(net.Actions, 1), agents.Given(net, target), 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		l.batch.Obs[i], l.batch.NextObs[i] = float32(i), float32(n+i)
	}
	for i := range l.batch.Mask {
		l.batch.Mask[i], l.batch.NextMask[i] = true, true
	}
	return l
}

func TestLossByHand(t *testing.T) {
	ln3 := math.Log(3)
	// Rows 0 and 1 are observations, 2 and 3 what they lead to. The online network prefers action 1
	// after row 0, of which the target network thinks 4; it thinks 10 of action 0.
	online := []float64{0, ln3, 2, 5, 1, 2, 0, 0}
	beyond := []float64{0, 0, 0, 0, 10, 4, 7, 7}
	for _, tc := range []struct {
		name     string
		doubleQ  bool
		nextMask []bool // of row 0
		target   float64
	}{
		{"double", true, []bool{true, true}, 1 + 0.5*4},
		{"single", false, []bool{true, true}, 1 + 0.5*10},
		{"masked", true, []bool{true, false}, 1 + 0.5*10},
	} {
		cfg := Defaults()
		cfg.Gamma, cfg.Alpha, cfg.DoubleQ = 0.5, 2, tc.doubleQ
		net, target := agentstest.NewStub(2, agentstest.Rows(online, 2)), agentstest.NewStub(2, agentstest.Rows(beyond, 2))
		l := stubs(t, cfg, net, target, 2)
		copy(l.batch.NextMask, tc.nextMask)
		copy(l.batch.Action, []float32{1, 0})
		copy(l.batch.Reward, []float64{1, 1.5})
		copy(l.batch.Terminated, []bool{false, true})
		copy(l.batch.Mask[2:], []bool{true, false})
		td, conservative, err := l.gradient()
		if err != nil {
			t.Fatal(err)
		}
		// Row 0: Q = ln 3 is more than 1 below the target. Row 1 ends: Q = 2 is 1/2 above its reward.
		// The softmax of (0, ln 3) is (1/4, 3/4), so that log Σ exp − ln 3 = ln 4 − ln 3; row 1 permits
		// only its action, so that nothing is left.
		wantTD, wantConservative := ((tc.target-ln3-0.5)+0.5*0.5/2)/2, (math.Log(4)-ln3)/2
		if math.Abs(td-wantTD) > 1e-6 || math.Abs(conservative-wantConservative) > 1e-6 {
			t.Errorf("%s: losses %v and %v, want %v and %v", tc.name, td, conservative, wantTD, wantConservative)
		}
		for i, want := range []float64{2 * 0.25 / 2, (-1 + 2*0.75 - 2) / 2, 0.5 / 2, 0} {
			if got := float64(net.DOut[i]); math.Abs(got-want) > 1e-6 {
				t.Errorf("%s: gradient of output %d is %v, want %v", tc.name, i, got, want)
			}
		}
	}
}

// TestGradientAgainstFiniteDifferences writes the loss out from its definition.
func TestGradientAgainstFiniteDifferences(t *testing.T) {
	outputs := []float64{0.5, -0.25, 1, 2, 0, 1, -1, -0.5, 1}
	masks := []bool{true, true, true, true, false, true, false, true, true}
	actions, rewards := []int{0, 2, 1}, []float64{2, 0.75, -0.25}
	for _, alpha := range []float64{0, 0.3, 4} {
		cfg := Defaults()
		cfg.Alpha = alpha
		net := agentstest.NewStub(3, agentstest.Rows(append(slices.Clone(outputs), make([]float64, 9)...), 3))
		l := stubs(t, cfg, net, agentstest.NewStub(3, agentstest.Rows(make([]float64, 18), 3)), 3)
		copy(l.batch.Mask, masks)
		for i, a := range actions {
			l.batch.Action[i], l.batch.Reward[i] = float32(a), rewards[i]
		}
		objective := func(x []float64) float64 {
			loss := 0.0
			for i, a := range actions {
				sum, d := 0.0, x[3*i+a]-rewards[i]
				for j := range 3 {
					if masks[3*i+j] {
						sum += math.Exp(x[3*i+j])
					}
				}
				if math.Abs(d) < 1 {
					loss += d * d / 2
				} else {
					loss += math.Abs(d) - 0.5
				}
				loss += alpha * (math.Log(sum) - x[3*i+a])
			}
			return loss / 3
		}
		td, conservative, err := l.gradient()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := td+alpha*conservative, objective(outputs); math.Abs(got-want) > 1e-6 {
			t.Errorf("α = %v: loss %v, want %v", alpha, got, want)
		}
		for i, want := range fd.Gradient(nil, objective, outputs, &fd.Settings{Formula: fd.Central}) {
			if got := float64(net.DOut[i]); math.Abs(got-want) > 1e-5 {
				t.Errorf("α = %v: gradient of output %d is %v, want %v", alpha, i, got, want)
			}
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
	cfg.NetArch, cfg.BatchSize, cfg.TargetUpdateInterval, cfg.TotalTimesteps = []int{8}, 4, 5, 100
	env := agents.EnvInfo{ID: "toy/X-v0", Obs: space.NewBox(-1, 1, 3), Act: space.Discrete{N: 4}, NumEnvs: 2}
	agentstest.CheckOffline(t, env, func(seed uint64) (*Learner, error) { return newLearner(t, cfg, env, seed) })
}

// TestTargetNetwork: the target network follows at each interval, not before.
func TestTargetNetwork(t *testing.T) {
	cfg := Defaults()
	cfg.TargetUpdateInterval = 3
	net, target := agentstest.NewStub(2, agentstest.Rows(make([]float64, 8), 2)), agentstest.NewStub(2, agentstest.Rows(make([]float64, 8), 2))
	l := stubs(t, cfg, net, target, 1)
	if _, err := l.Record(replay.Transitions{Obs: []float32{0}, NextObs: []float32{1}, Action: []float32{1}, Reward: []float64{1}, Terminated: []bool{true}, Truncated: []bool{false}}); err != nil {
		t.Fatal(err)
	}
	net.Params()[0].Value[0], net.Grad = 1, 1
	for step, same := range []bool{false, false, true, false, false, true} {
		if _, err := l.Update(); err != nil {
			t.Fatal(err)
		}
		if got := net.Theta() == target.Theta(); got != same {
			t.Errorf("after gradient step %d the target is equal: %v, want %v", step+1, got, same)
		}
	}
}

// TestLearnsIdentity: random actions in Identity teach the best one, which gives 100 in an episode.
func TestLearnsIdentity(t *testing.T) {
	spec := envcheck.Identity(4)
	cfg := Defaults()
	cfg.NetArch, cfg.Gamma, cfg.LearningRate, cfg.Alpha, cfg.TotalTimesteps = []int{32}, 0, agents.Constant(3e-3), 0.1, 600
	v, b := agentstest.NewVec(t, spec, 4)
	obs, act := v.Spaces()
	l, err := newLearner(t, cfg, agents.EnvInfo{ID: spec.ID, Obs: obs, Act: act, NumEnvs: 4}, 1)
	if err != nil {
		t.Fatal(err)
	}
	random, err := baseline.New(v, "random", 5)
	if err != nil {
		t.Fatal(err)
	}
	data := agentstest.Played(t, v, b, random, 300)
	if n, err := l.Record(data); n != 1200 || err != nil {
		t.Fatalf("Record = %d, %v", n, err)
	}
	for range cfg.TotalTimesteps {
		if _, err := l.Update(); err != nil {
			t.Fatal(err)
		}
	}
	if got := agentstest.MeanReturn(t, spec, l.Greedy(), 10); got < 90 {
		t.Errorf("mean return %v, want at least 90 of 100; the data have %v in the mean", got, 100*mean(data.Reward))
	}
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v / float64(len(x))
	}
	return sum
}

func TestRefuses(t *testing.T) {
	env := agentstest.Env(2, 1)
	for want, change := range map[string]func(c *Config, env *agents.EnvInfo){
		"alpha is -1":                           func(c *Config, _ *agents.EnvInfo) { c.Alpha = -1 },
		"batch_size is 0":                       func(c *Config, _ *agents.EnvInfo) { c.BatchSize = 0 },
		"target_update_interval is 0":           func(c *Config, _ *agents.EnvInfo) { c.TargetUpdateInterval = 0 },
		"gamma is 2":                            func(c *Config, _ *agents.EnvInfo) { c.Gamma = 2 },
		"actions of kind box, want discrete":    func(_ *Config, env *agents.EnvInfo) { env.Act = space.NewBox(0, 1, 2) },
		"total_timesteps is 0, want at least 1": func(c *Config, _ *agents.EnvInfo) { c.TotalTimesteps = 0 },
	} {
		cfg, e := Defaults(), env
		cfg.TotalTimesteps = 10
		change(&cfg, &e)
		if _, err := newLearner(t, cfg, e, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want an error with %q", err, want)
		}
	}
	cfg := Defaults()
	cfg.TotalTimesteps = 10
	l, err := newLearner(t, cfg, env, 1)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(r *replay.Transitions){
		"not in Discrete(2)": func(r *replay.Transitions) { r.Action[1] = 2 },
		"masked out":         func(r *replay.Transitions) { r.Mask[2], r.Mask[3], r.Action[1] = false, true, 0 },
		"reward":             func(r *replay.Transitions) { r.Reward[1] = math.NaN() },
		"observation is NaN": func(r *replay.Transitions) { r.Obs[0] = float32(math.NaN()) },
		"next mask permits":  func(r *replay.Transitions) { r.Terminated[1], r.NextMask = false, make([]bool, 6) },
	} {
		r := agentstest.Recorded(env.Obs, env.Act, 3, 1)
		change(&r)
		if _, err := l.Record(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Record: %v, want an error with %q", err, want)
		}
	}
}

// TestTerminalMask: a terminal state need not permit an action, and another mask there makes no difference.
func TestTerminalMask(t *testing.T) {
	cfg := Defaults()
	cfg.NetArch, cfg.TotalTimesteps = []int{4}, 3
	var losses []float64
	for _, permitted := range []bool{true, false} {
		l, err := newLearner(t, cfg, agentstest.Env(2, 1), 1)
		if err != nil {
			t.Fatal(err)
		}
		r := replay.Transitions{
			Obs: []float32{0, 1}, NextObs: []float32{1, 2}, Action: []float32{1, 0}, Reward: []float64{1, 2},
			Terminated: []bool{false, true}, Truncated: []bool{false, false}, NextMask: []bool{true, false, permitted, permitted},
		}
		if _, err := l.Record(r); err != nil {
			t.Fatal(err)
		}
		for range cfg.TotalTimesteps {
			m, err := l.Update()
			if err != nil {
				t.Fatal(err)
			}
			losses = append(losses, m["train/loss"])
		}
	}
	if !slices.Equal(losses[:3], losses[3:]) {
		t.Errorf("losses %v with a mask that permits all actions, and %v with one that permits none", losses[:3], losses[3:])
	}
}

// TestGreedyIsMasked: a masked action is not chosen, however high its value.
func TestGreedyIsMasked(t *testing.T) {
	p, err := NewPolicy(agentstest.NewStub(3, func([]float32, float32) []float32 { return []float32{1, 9, 3} }), models.File{Meta: models.Checkpoint{
		ActionSpace: `{"kind":"discrete","dtype":"int64","n":[3]}`, Spec: models.Spec{Heads: []models.Head{{Size: 3}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b := agentstest.BatchOf(3, 0, 0)
	b.Mask[4] = false // action 1 of row 1
	actions, scores := make([]float32, 2), make([]float32, 6)
	if err := p.Act(b, actions); err != nil || !slices.Equal(actions, []float32{1, 2}) {
		t.Errorf("Act = %v, %v, want [1 2]", actions, err)
	}
	if err := p.(agents.Scorer).Scores(b, scores); err != nil || !slices.Equal(scores, []float32{1, 9, 3, 1, 9, 3}) {
		t.Errorf("Scores = %v, %v", scores, err)
	}
}
