package reinforce

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

func small(episodes int) Config {
	cfg := Defaults()
	cfg.NEpisodes, cfg.TotalTimesteps, cfg.NormalizeAdvantage = episodes, 1_000_000, false
	return cfg
}

var algorithm = agentstest.Algorithm[Config, *Learner](New)

// stubLearner and newRun return learners in n environments, of one-number observations and of a
// specification.
var (
	stubLearner = algorithm.NewStub
	newRun      = algorithm.NewRun
)

// valued gives both actions the same probability and observations the value 100·obs + 7.
func valued(obs []float32, _ float32) []float32 { return []float32{0, 20, 100*obs[0] + 7} }

// TestReturns plays Timing, whose reward at step k is k and whose observation after it is k/10,
// with γ = 1/2 and the value 100·obs + 7.
func TestReturns(t *testing.T) {
	for _, tc := range []struct {
		name          string
		length, limit int
		want          []float32
	}{
		// 1 + (2 + 3/2)/2, 2 + 3/2, 3.
		{"terminated after 3 steps", 3, 0, []float32{2.75, 3.5, 3}},
		// The final observation 3/10 is worth 37: 3 + 37/2 = 21.5, 2 + 21.5/2, 1 + 12.75/2.
		{"truncated after 3 steps", 100, 3, []float32{7.375, 12.75, 21.5}},
		{"both at once", 3, 3, []float32{2.75, 3.5, 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const n = 2
			cfg := small(2 * n)
			cfg.Gamma = 0.5
			l := stubLearner(t, cfg, agentstest.NewStub(2, valued), n)
			v, b := agentstest.NewVec(t, envcheck.Timing(tc.length, tc.limit), n)
			for range 6 {
				b = agentstest.Step(t, l, v, b, make([]float32, n))
			}
			var want []float32 // two episodes of two environments
			for range 4 {
				want = append(want, tc.want...)
			}
			if diff := cmp.Diff(want, l.steps.ret, cmpopts.EquateApprox(0, 1e-4)); diff != "" {
				t.Errorf("returns (-want +got):\n%s", diff)
			}
			// V of the observations 0, 1/10 and 2/10.
			if diff := cmp.Diff([]float32{7, 17, 27}, l.steps.value[:3], cmpopts.EquateApprox(0, 1e-4)); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryEnvironmentGivesTheSame has one environment whose episodes take 2 steps and one
// whose take 5: both give two episodes, the first waits meanwhile, and what it plays while it
// waits, and the rest of the episode that it is in when the update comes, belong to no update.
func TestEveryEnvironmentGivesTheSame(t *testing.T) {
	net := agentstest.NewStub(2, func(obs []float32, _ float32) []float32 { return []float32{0, 0, 0} })
	l := stubLearner(t, small(4), net, 2)
	b := agentstest.BatchOf(2, 0, 0)
	play := func(k int) agents.Metrics {
		if err := l.Act(b, make([]float32, 2)); err != nil {
			t.Fatal(err)
		}
		b.Obs[0], b.Obs[1] = float32(k), float32(k)
		b.Reward[0], b.Reward[1] = 1, 1
		b.Terminated[0], b.Terminated[1] = k%2 == 0, k%5 == 0
		if err := l.Observe(b); err != nil {
			t.Fatal(err)
		}
		rows := len(l.steps.ret)
		m, err := l.Update()
		if err != nil {
			t.Fatal(err)
		}
		if want := (k == 10 || k == 20); (m != nil) != want {
			t.Fatalf("step %d: learned is %v, want %v", k, m != nil, want)
		}
		if m != nil && rows != 2*2+2*5 {
			t.Errorf("step %d: learned from %d steps, want 14", k, rows)
		}
		return m
	}
	for k := 1; k <= 20; k++ {
		play(k)
	}
	// From step 21 on environment 0 starts at an episode's start; break off within one.
	var buf bytes.Buffer
	play(21)
	if err := l.Save(&buf); err == nil || !strings.Contains(err.Error(), "want right after an update") {
		t.Errorf("Save among episodes gives %v", err)
	}
	if got, want := l.NumTimesteps(), 42; got != want {
		t.Errorf("NumTimesteps() = %d, want %d", got, want)
	}
}

// TestWaitsForTheEndOfAnEpisode lets an environment be in mid-episode when the update comes.
func TestWaitsForTheEndOfAnEpisode(t *testing.T) {
	net := agentstest.NewStub(2, func(obs []float32, _ float32) []float32 { return []float32{0, 0, 0} })
	l := stubLearner(t, small(2), net, 2)
	b := agentstest.BatchOf(2, 0, 0)
	recorded := []int{}
	for k := 1; k <= 6; k++ {
		if err := l.Act(b, make([]float32, 2)); err != nil {
			t.Fatal(err)
		}
		// Environment 0 ends its episodes at steps 2 and 5, environment 1 at 3 and 4.
		b.Terminated[0], b.Terminated[1] = k == 2 || k == 5, k == 3 || k == 4
		if err := l.Observe(b); err != nil {
			t.Fatal(err)
		}
		recorded = append(recorded, len(l.runs[0].episode.reward))
		if _, err := l.Update(); err != nil {
			t.Fatal(err)
		}
	}
	// Steps 1, 2 are its first episode; at step 3 it waits, and the update comes while it is in
	// the episode of steps 3 to 5, which is left out; step 6 begins the next.
	if diff := cmp.Diff([]int{1, 0, 0, 0, 0, 1}, recorded); diff != "" {
		t.Errorf("steps on record of environment 0 (-want +got):\n%s", diff)
	}
}

// TestLossByHand has two steps with the logits (0, ln 3), so that the probabilities are 1/4 and
// 3/4, and the value 2: action 0 with return 4, and action 1, which alone is permitted, with 1.
func TestLossByHand(t *testing.T) {
	cfg := small(1)
	cfg.EntCoef, cfg.VfCoef = 0.5, 0.25
	net := agentstest.NewStub(2, func([]float32, float32) []float32 { return []float32{0, float32(math.Log(3)), 2} })
	l := stubLearner(t, cfg, net, 1)
	l.steps = steps{
		obs: []float32{0, 0}, action: []float32{0, 1}, mask: []bool{true, true, false, true},
		value: []float32{2, 2}, ret: []float32{4, 1}, reward: []float64{0, 0},
	}
	got, err := l.learn()
	if err != nil {
		t.Fatal(err)
	}
	// Advantages 2 and −1: (2·ln 4 + 0)/2; values: (4 + 1)/2; the second entropy is 0.
	entropy := math.Log(4) - 0.75*math.Log(3)
	want := onpolicy.Losses{Policy: math.Log(4), Value: 2.5, Entropy: -entropy / 2}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-6, 0)); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	loss := func(x []float64) float64 { // from the definition
		z := math.Log(math.Exp(x[0]) + math.Exp(x[1]))
		p := math.Exp(x[0] - z)
		h := -p*math.Log(p) - (1-p)*math.Log(1-p)
		return -2*(x[0]-z)/2 - 0.5*h/2 + 0.25*((x[2]-4)*(x[2]-4)+(x[5]-1)*(x[5]-1))/2
	}
	at := []float64{0, math.Log(3), 2, 0, math.Log(3), 2}
	for i, want := range fd.Gradient(nil, loss, at, &fd.Settings{Formula: fd.Central}) {
		if got := float64(net.DOut[i]); math.Abs(got-want) > 1e-6 {
			t.Errorf("gradient of output %d is %v, want %v", i, got, want)
		}
	}
	for i, d := range net.DOut[6:] {
		if d != 0 {
			t.Fatalf("gradient of padding %d is %v, want 0", i, d)
		}
	}
}

// TestChunks compares the gradient of more steps than go through the network at once with the
// mean of the gradients of its halves.
func TestChunks(t *testing.T) {
	cfg, env := small(1), agentstest.Env(2, 1)
	cfg.NetArch = []int{8}
	l, err := New(cfg, env, agentstest.Networks(t, 3), 1)
	if err != nil {
		t.Fatal(err)
	}
	all := func(from, to int) steps {
		var s steps
		for i := from; i < to; i++ {
			s.append(steps{
				obs: []float32{float32(i%11) - 5}, action: []float32{float32(i % 2)}, mask: []bool{true, true},
				value: []float32{1}, ret: []float32{float32(i % 7)}, reward: []float64{0},
			})
		}
		return s
	}
	gradient := func(s steps) []float64 {
		l.steps = s
		if _, err := l.learn(); err != nil {
			t.Fatal(err)
		}
		var g []float64
		for _, p := range l.actor.Params {
			for _, x := range p.Grad {
				g = append(g, float64(x))
			}
		}
		return g
	}
	const half = 200
	whole, first, second := gradient(all(0, 2*half)), gradient(all(0, half)), gradient(all(half, 2*half))
	for i := range whole {
		if want := (first[i] + second[i]) / 2; math.Abs(whole[i]-want) > 1e-5 {
			t.Fatalf("gradient %d of %d steps is %v, want %v", i, 2*half, whole[i], want)
		}
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	broken := errors.New("broken")
	net := agentstest.NewStub(2, valued)
	l, b := stubLearner(t, small(1), net, 2), agentstest.BatchOf(2, 0, 0)
	if err := l.Act(b, make([]float32, 2)); err != nil {
		t.Fatal(err)
	}
	b.Reward[1] = math.NaN()
	if err := l.Observe(b); err == nil || !strings.Contains(err.Error(), "reward NaN of environment 1 at timestep 1") {
		t.Errorf("Observe of NaN gives %v", err)
	}
	b.Reward[1], b.Truncated[0] = 0, true
	net.Err = broken
	if err := errors.Join(l.Act(b, make([]float32, 2))); !errors.Is(err, broken) {
		t.Errorf("Act gives %v", err)
	}
	if err := l.Observe(b); !errors.Is(err, broken) {
		t.Errorf("Observe of a truncated episode gives %v", err)
	}
}

// TestOverflowNamesTheStep: rewards that are finite, but whose sum is not in float32.
func TestOverflowNamesTheStep(t *testing.T) {
	cfg := small(2)
	cfg.Gamma = 1
	l, b := stubLearner(t, cfg, agentstest.NewStub(2, valued), 2), agentstest.BatchOf(2, 0, 0)
	for step := range 3 {
		if err := l.Act(b, make([]float32, 2)); err != nil {
			t.Fatal(err)
		}
		b.Reward[1] = []float64{0, 3e38, 3e38}[step]
		b.Terminated[0], b.Terminated[1] = step == 2, step == 2
		if err := l.Observe(b); err != nil {
			t.Fatal(err)
		}
	}
	// 3e38 twice is above the largest float32, 3.4e38: the returns of steps 0 and 1.
	if _, err := l.Update(); err == nil || !strings.Contains(err.Error(), "environment 1 at step 1 of its episode") {
		t.Errorf("Update gives %v", err)
	}
}

// TestGradientIsClipped: Adam's first step is rate·g/(|g| + ε), so that a gradient clipped to
// ε = 1e-8 moves the parameter by half the rate.
func TestGradientIsClipped(t *testing.T) {
	cfg := small(1)
	cfg.MaxGradNorm, cfg.LearningRate = 1e-8, agents.Constant(0.5)
	net := agentstest.NewStub(2, valued)
	net.Grad = 3
	l, b := stubLearner(t, cfg, net, 1), agentstest.BatchOf(2, 0)
	for k := 1; k <= 2; k++ {
		if err := l.Act(b, make([]float32, 1)); err != nil {
			t.Fatal(err)
		}
		b.Terminated[0] = true
		if err := l.Observe(b); err != nil {
			t.Fatal(err)
		}
		m, err := l.Update()
		if err != nil {
			t.Fatal(err)
		}
		if m["train/n_updates"] != float64(k) {
			t.Errorf("n_updates is %v after %d updates", m["train/n_updates"], k)
		}
		if k == 1 && math.Abs(float64(net.Theta())+0.25) > 1e-3 {
			t.Errorf("the parameter moved to %v, want −0.25", net.Theta())
		}
	}
}

// TestNormalizesAndMasks: the observations 2 and 4 become −1 and 1, and their rewards 2 and 6 are
// divided by the root of their variance 4. The mask of each step comes with it to the update, where
// an action that alone is permitted has no entropy.
func TestNormalizesAndMasks(t *testing.T) {
	cfg := small(2)
	cfg.NormObs, cfg.NormReward, cfg.Gamma = true, true, 0.5
	l := stubLearner(t, cfg, agentstest.NewStub(2, func([]float32, float32) []float32 { return []float32{0, 0, 0} }), 2)
	b := agentstest.BatchOf(2, 2, 4)
	b.Mask[1], b.Mask[3] = false, false
	if err := l.Act(b, make([]float32, 2)); err != nil {
		t.Fatal(err)
	}
	copy(b.Reward, []float64{2, 6})
	b.Terminated[0], b.Terminated[1] = true, true
	if err := l.Observe(b); err != nil {
		t.Fatal(err)
	}
	near := cmpopts.EquateApprox(0, 2e-3) // VecNormalize's statistics begin with 1e-4 rows
	if d := cmp.Diff([]float32{-1, 1}, l.steps.obs, near); d != "" {
		t.Errorf("observations (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]float32{1, 3}, l.steps.ret, near); d != "" {
		t.Errorf("returns (-want +got):\n%s", d)
	}
	m, err := l.Update()
	if err != nil {
		t.Fatal(err)
	}
	if h := m["train/entropy_loss"]; h != 0 {
		t.Errorf("entropy loss %v with one permitted action, want 0", h)
	}
}

// TestClipsBoxActions: the environment gets the bound, the update what was sampled.
func TestClipsBoxActions(t *testing.T) {
	cfg, env := small(1), agentstest.Env(2, 1)
	env.Act = space.NewBox(-0.5, 0.25, 1)
	spec, err := cfg.ActorCritic(env.Obs, env.Act)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]float32, spec.Outputs())
	from, _ := spec.Head("action_net")
	row[from] = 5 // standard deviation 1
	l, err := New(cfg, env, agents.Given(agentstest.NewStub(1, func([]float32, float32) []float32 { return row })), 1)
	if err != nil {
		t.Fatal(err)
	}
	action := make([]float32, 1)
	if err := l.Act(agentstest.BatchOf(0, 0), action); err != nil {
		t.Fatal(err)
	}
	if action[0] != 0.25 || l.runs[0].episode.action[0] < 1 {
		t.Errorf("plays %v and remembers %v, want 0.25 and what was sampled", action[0], l.runs[0].episode.action[0])
	}
}

func quick() Config {
	cfg := Defaults()
	cfg.NEpisodes, cfg.NetArch, cfg.TotalTimesteps = 8, []int{32}, 80_000
	return cfg
}

func TestSolvesIdentity(t *testing.T) {
	spec := envcheck.Identity(5)
	r := newRun(t, spec, 8, quick(), 1)
	r.Train(80_000)
	if got := r.Evaluate(spec, 10); got < 99 {
		t.Errorf("mean return %v after 80,000 steps, want at least 99 of 100", got)
	}
}

func TestCartPole(t *testing.T) {
	if testing.Short() {
		t.Skip("a learning gate: run without -short")
	}
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Defaults()
	cfg.TotalTimesteps = 500_000
	r := newRun(t, spec, 8, cfg, 1)
	r.Train(cfg.TotalTimesteps)
	if got := r.Evaluate(spec, 100); got < 475 {
		t.Errorf("mean return of the last policy over 100 episodes is %v, want at least 475", got)
	}
}

func TestSameSeedSameBits(t *testing.T) {
	agentstest.CheckSeeds(t, 4, func(seed uint64) *agentstest.Run[*Learner] {
		return newRun(t, envcheck.Identity(5), 4, quick(), seed)
	})
}

// TestResumeEqualsUninterrupted plays CartPole, whose episodes end at different times, so that
// some environments are in mid-episode at the break.
func TestResumeEqualsUninterrupted(t *testing.T) {
	spec, err := envs.Lookup("classic/CartPole-v1")
	if err != nil {
		t.Fatal(err)
	}
	agentstest.CheckResume(t, func(r *agentstest.Run[*Learner]) { r.Updates(4) }, func(seed uint64) *agentstest.Run[*Learner] {
		cfg := quick()
		cfg.NormObs, cfg.NormReward = true, true
		return newRun(t, spec, 4, cfg, seed)
	})
}

func TestLoadRefusesAnotherNumberOfEnvironments(t *testing.T) {
	four, two := newRun(t, envcheck.Identity(5), 4, quick(), 1), newRun(t, envcheck.Identity(5), 2, quick(), 1)
	if err := two.L.Load(bytes.NewReader(four.Saved())); !errors.Is(err, models.ErrMismatch) {
		t.Errorf("error %v, want one that wraps %v", err, models.ErrMismatch)
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"learning_rate": func(c *Config) { c.LearningRate = agents.Constant(0) },
		"n_episodes":    func(c *Config) { c.NEpisodes = 0 },
		"gamma":         func(c *Config) { c.Gamma = 1.5 },
		"ent_coef":      func(c *Config) { c.EntCoef = -1 },
		"vf_coef":       func(c *Config) { c.VfCoef = math.NaN() },
		"max_grad_norm": func(c *Config) { c.MaxGradNorm = 0 },
	} {
		cfg := small(1)
		change(&cfg)
		if err := cfg.validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want one that names it", name, err)
		}
	}
}
