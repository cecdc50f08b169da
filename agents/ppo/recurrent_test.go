package ppo

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
	"github.com/kubernasium/kubernasium/models/graph"
)

// quickRecurrent learns Memory in seconds.
func quickRecurrent() RecurrentConfig {
	cfg := RecurrentDefaults()
	cfg.NSteps, cfg.BatchSize, cfg.NEpochs, cfg.TotalTimesteps = 32, 128, 4, 40_960
	cfg.LearningRate, cfg.LSTMHiddenSize, cfg.NetArch, cfg.EntCoef = agents.Constant(3e-3), 16, []int{16}, 0.01
	return cfg
}

var recurrent = agentstest.Algorithm[RecurrentConfig, *Learner](NewRecurrent)

// newRecurrentRun returns a learner in n environments.
var newRecurrentRun = recurrent.NewRun

// TestLearnsToRemember trains on Memory with four cues, where a policy without memory is right
// once in four times: PPO ends there. The greedy policy of the checkpoint plays as well, in
// environments that reset by themselves and in those that others reset.
func TestLearnsToRemember(t *testing.T) {
	spec := envcheck.Memory(4, 5)
	for name, change := range map[string]func(*RecurrentConfig){
		"lstm of each":     func(*RecurrentConfig) {},
		"shared lstm":      func(c *RecurrentConfig) { c.EnableCriticLSTM, c.SharedLSTM = false, true },
		"dense critic":     func(c *RecurrentConfig) { c.EnableCriticLSTM = false },
		"pieces of 16":     func(c *RecurrentConfig) { c.BatchSize = 16 },
		"with their norms": func(c *RecurrentConfig) { c.NormObs, c.NormReward = true, true },
	} {
		if testing.Short() && name != "lstm of each" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quickRecurrent()
			change(&cfg)
			r := newRecurrentRun(t, spec, 8, cfg, 1)
			r.Train(cfg.TotalTimesteps)
			if got := r.Evaluate(spec, 50); got < 0.98 {
				t.Fatalf("mean return %v, want at least 0.98 of 1", got)
			}
			f := agentstest.Parse(t, r.Saved())
			net := agentstest.Network(t, f.Meta.Spec, 9)
			if err := f.Params(net.Params()); err != nil {
				t.Fatal(err)
			}
			policy, err := onpolicy.NewPolicy(net, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, mode := range []envs.AutoresetMode{envs.SameStep, envs.Disabled} {
				if got := playAgain(t, spec, policy, mode); got < 0.98 {
					t.Errorf("%v: mean return %v of the checkpoint's policy, want at least 0.98 of 1", mode, got)
				}
			}
		})
	}
	cfg := Defaults()
	cfg.NSteps, cfg.BatchSize, cfg.NEpochs, cfg.TotalTimesteps, cfg.LearningRate = 32, 128, 4, 40_960, agents.Constant(3e-3)
	r := agentstest.NewRun(t, spec, 8, 1, func(env agents.EnvInfo, seed uint64) (*Learner, error) {
		return New(cfg, env, agentstest.Networks(t, seed), seed)
	})
	r.Train(cfg.TotalTimesteps)
	if got := r.Evaluate(spec, 400); got > 0.25+4*0.022 { // √(¼·¾/400) = 0.0217
		t.Errorf("mean return %v without memory, want about 0.25", got)
	}
}

// playAgain lets policy play two episodes after another in each of 25 environments and returns
// the mean return.
func playAgain(t *testing.T, spec *envs.Spec, policy agents.Policy, mode envs.AutoresetMode) float64 {
	t.Helper()
	const n, episodes = 25, 2
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: mode})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	seed, sum, actions := uint64(5), 0.0, make([]float32, n)
	b, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: &seed})
	for range episodes {
		for ended := false; !ended && err == nil; ended = b.Done(0) { // all episodes are equally long
			if err = policy.Act(b, actions); err == nil {
				b, err = v.Step(context.Background(), actions)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range b.EpisodeReturn {
			sum += x
		}
		if mode == envs.Disabled {
			b, err = v.Reset(context.Background(), envs.VecResetOptions{})
		}
	}
	return sum / (n * episodes)
}

func TestRecurrentSameSeedSameBits(t *testing.T) {
	agentstest.CheckSeeds(t, 4, func(seed uint64) *agentstest.Run[*Learner] {
		return newRecurrentRun(t, envcheck.Memory(3, 7), 4, quickRecurrent(), seed)
	})
	agentstest.CheckSeeds(t, 4, func(seed uint64) *agentstest.Run[*Learner] {
		return newRecurrentRun(t, envcheck.RecalledNode(8, 7), 4, quickNodes(), seed)
	})
}

// TestRecurrentResume breaks off between rollouts of 32 steps in the middle of episodes of 7, so
// that the state matters.
func TestRecurrentResume(t *testing.T) {
	agentstest.CheckResume(t, func(r *agentstest.Run[*Learner]) { r.Updates(4) }, func(seed uint64) *agentstest.Run[*Learner] {
		return newRecurrentRun(t, envcheck.Memory(3, 7), 4, quickRecurrent(), seed)
	})
	nodes := func(seed uint64) *agentstest.Run[*Learner] {
		cfg := quickNodes()
		cfg.NormObs, cfg.NormReward = true, true
		return newRecurrentRun(t, envcheck.RecalledNode(8, 7), 4, cfg, seed)
	}
	agentstest.CheckResume(t, func(r *agentstest.Run[*Learner]) { r.Updates(4) }, nodes)
	// Without the state the rest is another.
	checkStateMatters(t, func() *agentstest.Run[*Learner] {
		return newRecurrentRun(t, envcheck.Memory(3, 7), 4, quickRecurrent(), 7)
	})
	checkStateMatters(t, func() *agentstest.Run[*Learner] { return nodes(7) })
}

func checkStateMatters(t *testing.T, run func() *agentstest.Run[*Learner]) {
	t.Helper()
	whole, other := run(), run()
	for !whole.Cycle() {
	}
	for !other.Cycle() {
	}
	f := agentstest.Parse(t, other.Saved())
	for i := range f.Tensors {
		if f.Tensors[i].Name == models.StatePrefix+"lstm" {
			clear(f.Tensors[i].Data.([]float32))
		}
	}
	var buf bytes.Buffer
	if err := models.Write(&buf, f); err != nil {
		t.Fatal(err)
	}
	if err := other.L.Load(&buf); err != nil {
		t.Fatal(err)
	}
	for !whole.Cycle() {
	}
	for !other.Cycle() {
	}
	if bytes.Equal(whole.Tensors(), other.Tensors()) {
		t.Error("the state of the LSTMs makes no difference, which this test is to show")
	}
}

// counter is a network whose state counts the steps of an episode. Its value is 10 times the
// count, plus the observation.
type counter struct{ *agentstest.Stub }

func (c counter) StateSize() int { return 4 } // two LSTMs of one layer and cell; the first number is used

func (c counter) ForwardStep(obs []float32, n int, state []float32, begins []bool) ([]float32, error) {
	out := make([]float32, 0, 3*n)
	for i := range n {
		if begins[i] {
			clear(state[4*i : 4*i+4])
		}
		state[4*i]++
		out = append(out, 0, 0, 10*state[4*i]+obs[i])
	}
	return out, nil
}

func (c counter) ForwardSequence(obs []float32, steps, n int, state []float32, begins []bool) ([]float32, error) {
	state, out := slices.Clone(state), []float32(nil)
	for t := range steps {
		o, err := c.ForwardStep(obs[t*n:(t+1)*n], n, state, begins[t*n:(t+1)*n])
		if err != nil {
			return nil, err
		}
		out = append(out, o...)
	}
	return out, nil
}

// TestStates plays Timing, whose observation after step k is k/10, in two environments for a
// rollout of 8 steps, and compares the values of each observation and of what followed it, which
// the count makes known: at step k of an episode, from 0, the value is 10·(k+1) + k/10. Episodes
// of 3 steps are cut off: the value of a final observation counts one step more than that of the
// last one, 40.3; the next rollout continues in mid-episode.
func TestStates(t *testing.T) {
	cfg := RecurrentConfig{Config: small(8, 8), LSTM: policies.LSTM{LSTMHiddenSize: 1, NLSTMLayers: 1, EnableCriticLSTM: true}}
	cfg.Policy, cfg.NetArch, cfg.NEpochs = policies.MlpLSTM, nil, 1
	env := agentstest.Env(2, 2)
	net := counter{agentstest.NewStub(2, nil)}
	l, err := NewRecurrent(cfg, env, agents.Given(net), 1)
	if err != nil {
		t.Fatal(err)
	}
	v, b := agentstest.NewVec(t, envcheck.Timing(100, 3), 2)
	actions := make([]float32, 2)
	for rollout := range 2 {
		for !l.collector.Buf.Full() {
			b = agentstest.Step(t, l, v, b, actions)
		}
		for row, got := range l.collector.Buf.Value {
			k := (8*rollout + row/2) % 3
			if want := float32(10*(k+1)) + float32(k)/10; math.Abs(float64(got-want)) > 1e-4 {
				t.Errorf("rollout %d: value of step %d is %v, want %v", rollout, row/2, got, want)
			}
			if want := float32(10*(k+2)) + float32(k+1)/10; math.Abs(float64(l.collector.Buf.NextValue[row]-want)) > 1e-4 {
				t.Errorf("rollout %d: value of what followed step %d is %v, want %v", rollout, row/2, l.collector.Buf.NextValue[row], want)
			}
			if l.collector.Seq.Begins[row] != (k == 0) {
				t.Errorf("rollout %d: step %d begins an episode: %v", rollout, row/2, l.collector.Seq.Begins[row])
			}
		}
		// Sequences in any order give each row the value that it had when it was recorded.
		l.batch.obs = make([]float32, 16)
		l.batch.state, l.batch.begins, l.rows = make([]float32, 8), make([]bool, 16), make([]int, 16)
		rows := l.gatherSequences([]int{1, 0})
		for i, r := range rows {
			l.batch.obs[i] = l.collector.Buf.Obs[r]
		}
		out, err := l.actor.Net.(models.Recurrent).ForwardSequence(l.batch.obs, 8, 2, l.batch.state, l.batch.begins)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			if out[3*i+2] != l.collector.Buf.Value[r] {
				t.Errorf("rollout %d: row %d has the value %v when seen again, want %v", rollout, r, out[3*i+2], l.collector.Buf.Value[r])
			}
		}
		l.collector.Buf.Clear()
	}
}

// TestSequenceRows: pieces of 2 of 4 steps in 3 environments. Sequence 4 is piece 1 of
// environment 1: rows 2·3+1 and 3·3+1; sequence 2 is piece 0 of environment 2: rows 2 and 5.
func TestSequenceRows(t *testing.T) {
	cfg := quickRecurrent()
	cfg.NSteps, cfg.BatchSize = 4, 2
	r := newRecurrentRun(t, envcheck.Memory(2, 3), 3, cfg, 1)
	for !r.L.collector.Buf.Full() {
		r.Batch = agentstest.Step(t, r.L, r.Vec, r.Batch, r.Actions)
	}
	if len(r.L.perm) != 6 {
		t.Fatalf("%d sequences, want 6", len(r.L.perm))
	}
	r.L.rows, r.L.batch.begins = make([]int, 4), make([]bool, 4)
	r.L.batch.state = make([]float32, 2*r.L.Spec().StateSize())
	if diff := cmp.Diff([]int{7, 2, 10, 5}, r.L.gatherSequences([]int{4, 2})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	// Episodes have three steps, all at once: step 3 begins one.
	if diff := cmp.Diff([]bool{false, true, true, false}, r.L.batch.begins); diff != "" {
		t.Errorf("begins (-want +got):\n%s", diff)
	}
	size := r.L.Spec().StateSize()
	if slices.Max(r.L.batch.state[:size]) == 0 || slices.Max(r.L.batch.state[size:]) != 0 {
		t.Errorf("state of piece 1 %v and of piece 0 %v, want one of the rollout and one of zeros", r.L.batch.state[:size], r.L.batch.state[size:])
	}
}

// TestRecurrentGradientAgainstGorgonia compares the loss and every gradient of a minibatch of
// sequences with those of automatic differentiation, and some with finite differences.
func TestRecurrentGradientAgainstGorgonia(t *testing.T) {
	t.Run("memory", func(t *testing.T) { checkRecurrentGradient(t, envcheck.Memory(3, 5), quickRecurrent(), 0.15) })
	t.Run("nodes", func(t *testing.T) { checkRecurrentGradient(t, envcheck.RecalledNode(5, 4), quickNodes(), 0.8) })
}

// checkRecurrentGradient moves parameters by up to that much.
func checkRecurrentGradient(t *testing.T, spec *envs.Spec, cfg RecurrentConfig, move float64) {
	cfg.NSteps, cfg.BatchSize, cfg.LSTMHiddenSize, cfg.NetArch, cfg.NormalizeAdvantage = 8, 16, 5, []int{4}, false
	r := newRecurrentRun(t, spec, 4, cfg, 1)
	for !r.L.collector.Buf.Full() {
		r.Batch = agentstest.Step(t, r.L, r.Vec, r.Batch, r.Actions)
	}
	r.L.collector.Buf.Estimate(nil, 0.9, 0.9)
	for i, p := range r.L.actor.Params { // so that ratios are not 1, on both sides of the clip
		for j := range p.Value {
			p.Value[j] += float32(move * math.Sin(float64(i+3*j)))
		}
	}
	minibatch := []int{2, 0}
	s, err := gradientOf(r.L, minibatch, 0.2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.clipFraction == 0 || s.clipFraction == 1 {
		t.Errorf("clip fraction %v, want some rows on both sides", s.clipFraction)
	}
	oracle, err := graph.New(r.L.Spec(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer oracle.Close()
	want := *r.L // with another network
	actor := *r.L.actor
	want.actor = &actor
	actor.Net, actor.Params = oracle, oracle.Params()
	for i, p := range actor.Params {
		copy(p.Value, r.L.actor.Params[i].Value)
	}
	o, err := gradientOf(&want, minibatch, 0.2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(s.loss-o.loss) > 1e-5*math.Abs(o.loss) {
		t.Errorf("loss %v, want %v", s.loss, o.loss)
	}
	for i, p := range r.L.actor.Params {
		scale := 0.0
		for _, g := range actor.Params[i].Grad {
			scale = max(scale, math.Abs(float64(g)))
		}
		// The bias that all logits of nodes share changes no probability.
		if shared := p.Name == "action_net.bias" && len(p.Grad) == 1; shared != (scale < 1e-6) {
			t.Errorf("%s has a gradient of size %v", p.Name, scale)
		} else if shared {
			continue
		}
		if diff := cmp.Diff(actor.Params[i].Grad, p.Grad, cmpopts.EquateApprox(1e-4, 1e-4*scale)); diff != "" {
			t.Errorf("gradient of %s (-gorgonia +fused):\n%s", p.Name, diff)
		}
		checkSlope(t, r.L, minibatch, i, slices.Clone(p.Grad))
	}
}

// checkSlope compares the derivative of the loss along the gradient of parameter i with its
// length. Steps of a hundredth leave an error of some thousandths in float32.
func checkSlope(t *testing.T, l *Learner, minibatch []int, i int, grad []float32) {
	t.Helper()
	p, length := l.actor.Params[i], 0.0
	for _, g := range grad {
		length += float64(g) * float64(g)
	}
	length = math.Sqrt(length)
	first := slices.Clone(p.Value)
	loss := func(h float64) float64 {
		for j, g := range grad {
			p.Value[j] = first[j] + float32(h*float64(g)/length)
		}
		s, err := gradientOf(l, minibatch, 0.2, 0)
		if err != nil {
			t.Fatal(err)
		}
		return s.loss
	}
	const h = 2e-3
	slope := (loss(h) - loss(-h)) / (2 * h)
	loss(0)
	if math.Abs(slope-length) > 0.01*length+1e-4 {
		t.Errorf("%s: slope %v along the gradient, whose length is %v", p.Name, slope, length)
	}
}

func TestRecurrentConfigIsValidated(t *testing.T) {
	for _, tc := range []struct {
		change func(*RecurrentConfig)
		want   string
	}{
		{func(c *RecurrentConfig) { c.NSteps, c.BatchSize = 32, 48 }, "ppo: n_steps 32 and batch_size 48: want one to be a multiple"},
		{func(c *RecurrentConfig) { c.Policy = policies.Node }, `policy "NodePolicy" with an LSTM, want MlpLstmPolicy, NodeLstmPolicy`},
		{func(c *RecurrentConfig) { c.SharedLSTM = true }, "shared_lstm and enable_critic_lstm, want one of them or none"},
		{func(c *RecurrentConfig) { c.NLSTMLayers = 0 }, "n_lstm_layers is 0, want at least 1"},
		{func(c *RecurrentConfig) { c.LSTMHiddenSize = 0 }, `lstm "lstm_actor": size 0`},
		{func(c *RecurrentConfig) { c.Gamma = 2 }, "gamma is 2"},
	} {
		cfg := RecurrentDefaults()
		cfg.TotalTimesteps = 1
		tc.change(&cfg)
		env := agents.EnvInfo{Obs: space.NewBox(0, 1, 1), Act: space.Discrete{N: 2}, NumEnvs: 3}
		_, err := NewRecurrent(cfg, env, func(spec models.Spec) (models.Network, error) { return fused.New(spec, nil) }, 1)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want one with %q", err, tc.want)
		}
	}
	cfg := RecurrentDefaults()
	cfg.TotalTimesteps = 1
	if _, err := NewRecurrent(cfg, agentstest.Env(2, 1), agents.Given(agentstest.NewStub(2, nil)), 1); err == nil || !strings.Contains(err.Error(), "no models.Recurrent") {
		t.Errorf("a network without state: error %v", err)
	}
	plain := Defaults()
	plain.Policy, plain.TotalTimesteps = policies.MlpLSTM, 1
	if _, err := New(plain, agentstest.Env(2, 1), nil, 1); err == nil || !strings.Contains(err.Error(), "which is one of ppo_lstm") {
		t.Errorf("ppo with MlpLstmPolicy: error %v", err)
	}
}

func TestGreedyOfAnotherNumberOfEnvironments(t *testing.T) {
	r := newRecurrentRun(t, envcheck.Memory(3, 7), 4, quickRecurrent(), 1)
	policy := r.L.Greedy()
	for _, n := range []int{3, 8, 3} {
		v, _ := agentstest.NewVec(t, envcheck.Memory(3, 7), n)
		if _, err := evaluation.Play(context.Background(), v, policy, evaluation.Seeds(1, n)); err != nil {
			t.Errorf("%d environments: %v", n, err)
		}
	}
}
