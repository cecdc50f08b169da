package agents_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/models"
)

// demonstration plays a baseline, or random actions.
func demonstration(t *testing.T, spec *envs.Spec, n int, name string, steps int) imitation.Demonstration {
	t.Helper()
	v, _ := agentstest.NewVec(t, spec, n)
	teacher, err := baseline.New(v, name, 3)
	if err != nil {
		t.Fatal(err)
	}
	return imitation.Demonstration{Envs: v, Teacher: teacher, Steps: steps, Epochs: 20, Seed: 77}
}

// TestImitates lets each algorithm watch the optimal baseline of LargestNode, in a demonstration
// that ends within an episode, and plays its policy without any training. The value of every
// step is 1, since γ is 0, and two runs are equal bit for bit.
func TestImitates(t *testing.T) {
	spec := envcheck.LargestNode(8, true)
	for algo, build := range builders {
		if testing.Short() && algo != "ppo" && algo != "dqn" {
			continue // which clone as ppo does
		}
		t.Run(algo, func(t *testing.T) {
			t.Parallel()
			var saved [][]byte
			for range 2 {
				r := agentstest.NewRun(t, spec, 4, 1, build(t, policies.Node, 10_000))
				m, err := r.L.(imitation.Learner).Imitate(context.Background(), demonstration(t, spec, 4, "Largest", 4010))
				if err != nil {
					t.Fatal(err)
				}
				if m["imitation/accuracy"] < 0.9 || m["imitation/value_loss"] > 0.05 {
					t.Errorf("metrics %v, want an accuracy of at least 0.9 and a value loss of at most 0.05", m)
				}
				if got := r.Evaluate(spec, 20); got < 45 {
					t.Errorf("mean return %v of the imitator, want at least 45 of 50", got)
				}
				if r.L.NumTimesteps() != 0 {
					t.Errorf("%d timesteps after the imitation, want 0", r.L.NumTimesteps())
				}
				r.Train(256) // from there on
				for !r.Cycle() {
				}
				saved = append(saved, r.Saved())
			}
			if !bytes.Equal(saved[0], saved[1]) {
				t.Error("two runs with one seed differ")
			}
		})
	}
}

// TestImitationDecaysWeights: with weight decay an imitation ends with smaller weights. The standard deviations of Box
// actions, which imitation does not learn, stay as they began.
func TestImitationDecaysWeights(t *testing.T) {
	spec := envcheck.IdentityBox(2, 0.1)
	norms := func(decay float64) (weights float64, logStd []float32) {
		var net models.Network
		r := agentstest.NewRun(t, spec, 4, 1, func(env agents.EnvInfo, seed uint64) (agentstest.Learner, error) {
			cfg := ppo.Defaults()
			cfg.NSteps, cfg.BatchSize, cfg.TotalTimesteps = 32, 64, 1000
			cfg.NetArch, cfg.LogStdInit = []int{32}, -1
			return ppo.New(cfg, env, func(spec models.Spec) (models.Network, error) {
				made, err := agentstest.Networks(t, seed)(spec)
				net = made
				return made, err
			}, seed)
		})
		d := demonstration(t, spec, 4, baseline.RandomName, 2000)
		d.WeightDecay = decay
		if _, err := r.L.(imitation.Learner).Imitate(context.Background(), d); err != nil {
			t.Fatal(err)
		}
		for _, p := range net.Params() {
			for _, v := range p.Value {
				if p.Name == "log_std" {
					logStd = append(logStd, v)
				} else {
					weights += float64(v) * float64(v)
				}
			}
		}
		return weights, logStd
	}
	plain, began := norms(0)
	decayed, kept := norms(2)
	if decayed > 0.7*plain {
		t.Errorf("squares of weights sum to %v, want at most 0.7 of the %v without decay", decayed, plain)
	}
	if len(kept) == 0 || !slices.Equal(kept, began) {
		t.Errorf("log_std is %v, want the %v of an imitation without decay", kept, began)
	}
}

// TestImitatesWithMemory lets PPO with a recurrent policy watch the optimal baseline of Memory,
// whose first action alone tells the cue; a demonstration ends within an episode of 5 steps. Over
// nodes it watches that of RecalledNode, whose optimal return is 5, and 3 without memory.
func TestImitatesWithMemory(t *testing.T) {
	t.Run("cues", func(t *testing.T) { checkImitatesWithMemory(t, envcheck.Memory(4, 5), policies.MlpLSTM, 0.99, 0.99) })
	t.Run("nodes", func(t *testing.T) {
		checkImitatesWithMemory(t, envcheck.RecalledNode(8, 5), policies.NodeLSTM, 0.9, 4.5)
	})
}

func checkImitatesWithMemory(t *testing.T, spec *envs.Spec, policy string, accuracy, bar float64) {
	var saved [][]byte
	for range 2 {
		r := agentstest.NewRun(t, spec, 8, 1, recurrent(t, policy, 10_000))
		m, err := r.L.(imitation.Learner).Imitate(context.Background(), demonstration(t, spec, 8, "Recall", 8*512+8))
		if err != nil {
			t.Fatal(err)
		}
		if m["imitation/accuracy"] < accuracy {
			t.Errorf("metrics %v, want an accuracy of at least %v", m, accuracy)
		}
		if got := r.Evaluate(spec, 50); got < bar {
			t.Errorf("mean return %v of the imitator, want at least %v", got, bar)
		}
		for !r.Cycle() {
		}
		saved = append(saved, r.Saved())
	}
	if !bytes.Equal(saved[0], saved[1]) {
		t.Error("two runs with one seed differ")
	}
}

// recurrent makes PPO with a recurrent policy.
func recurrent(t *testing.T, policy string, steps int) func(env agents.EnvInfo, seed uint64) (agentstest.Learner, error) {
	return func(env agents.EnvInfo, seed uint64) (agentstest.Learner, error) {
		cfg := ppo.RecurrentDefaults()
		cfg.NSteps, cfg.BatchSize, cfg.LSTMHiddenSize, cfg.NetArch, cfg.TotalTimesteps = 32, 128, 16, []int{16}, steps
		cfg.Policy = policy
		return ppo.NewRecurrent(cfg, env, agentstest.Networks(t, seed), seed)
	}
}

// TestImitatesBoxes lets the teacher of a Box show its actions; deviations stay as they are.
func TestImitatesBoxes(t *testing.T) {
	spec := envcheck.IdentityBox(2, 0.5)
	r := agentstest.NewRun(t, spec, 4, 1, builders["ppo"](t, policies.Mlp, 10_000))
	if _, err := r.L.(imitation.Learner).Imitate(context.Background(), demonstration(t, spec, 4, "Identity", 4000)); err != nil {
		t.Fatal(err)
	}
	if got := r.Evaluate(spec, 20); got < 99 {
		t.Errorf("mean return %v of the imitator, want 100", got)
	}
	for _, x := range agentstest.Parse(t, r.Saved()).Tensors {
		if x.Name == "log_std" {
			if x.Data.([]float32)[0] != 0 || x.Data.([]float32)[1] != 0 {
				t.Errorf("log_std is %v, want 0", x.Data)
			}
			return
		}
	}
	t.Error("no log_std")
}

// TestTeachersKeepToTheMask gives the wrong actions of a teacher to learners.
func TestTeachersKeepToTheMask(t *testing.T) {
	spec := envcheck.Timing(7, 0) // masks out action 1 at even steps
	for algo, build := range builders {
		r := agentstest.NewRun(t, spec, 2, 1, build(t, policies.Mlp, 10_000))
		d := demonstration(t, spec, 2, baseline.RandomName, 10)
		d.Teacher = always(1)
		_, err := r.L.(imitation.Learner).Imitate(context.Background(), d)
		if err == nil || !strings.Contains(err.Error(), "the teacher's action [1] in environment 0 at step 0 is masked out") {
			t.Errorf("%s: error %v, want one that names the masked action", algo, err)
		}
		d.Steps = 0
		if _, err := r.L.(imitation.Learner).Imitate(context.Background(), d); err == nil || !strings.Contains(err.Error(), "0 steps") {
			t.Errorf("%s: error %v, want one about 0 steps", algo, err)
		}
	}
}

// always is a policy that takes one action.
type always float32

var _ agents.Policy = always(0)

func (a always) Act(_ *envs.Batch, actions []float32) error {
	for i := range actions {
		actions[i] = float32(a)
	}
	return nil
}

// TestImitatesAtRate: with a rate too small for the weights to move, the learner does what it did
// before; with none given it is the optimum (TestImitates).
func TestImitatesAtRate(t *testing.T) {
	spec := envcheck.LargestNode(8, true)
	for _, algo := range []string{"ppo", "dqn"} {
		t.Run(algo, func(t *testing.T) {
			r := agentstest.NewRun(t, spec, 4, 1, builders[algo](t, policies.Node, 10_000))
			before := r.Evaluate(spec, 20)
			d := demonstration(t, spec, 4, "Largest", 800)
			d.LearningRate = agents.Schedule{Initial: 1e-12, Linear: true}
			if _, err := r.L.(imitation.Learner).Imitate(context.Background(), d); err != nil {
				t.Fatal(err)
			}
			if got := r.Evaluate(spec, 20); got != before {
				t.Errorf("mean return %v after imitation at a rate of 1e-12, want %v as before", got, before)
			}
		})
	}
}
