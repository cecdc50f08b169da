package agents_test

import (
	"encoding/json"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/agents/reinforce"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
)

// build makes a learner of a policy for n environments.
type build func(t *testing.T, policy string, steps int) func(env agents.EnvInfo, seed uint64) (agentstest.Learner, error)

// builders are the algorithms, with settings that learn the toys fast.
var builders = map[string]build{
	"ppo": func(t *testing.T, policy string, steps int) func(agents.EnvInfo, uint64) (agentstest.Learner, error) {
		return func(env agents.EnvInfo, seed uint64) (agentstest.Learner, error) {
			cfg := ppo.Defaults()
			cfg.NSteps, cfg.BatchSize, cfg.Gamma, cfg.LearningRate, cfg.TotalTimesteps = 32, 64, 0, agents.Constant(3e-3), steps
			cfg.Policy, cfg.NetArch = policy, []int{32}
			return ppo.New(cfg, env, agentstest.Networks(t, seed), seed)
		}
	},
	"a2c": func(t *testing.T, policy string, steps int) func(agents.EnvInfo, uint64) (agentstest.Learner, error) {
		return func(env agents.EnvInfo, seed uint64) (agentstest.Learner, error) {
			cfg := a2c.Defaults()
			cfg.NSteps, cfg.Gamma, cfg.LearningRate, cfg.TotalTimesteps = 8, 0, agents.Constant(3e-3), steps
			cfg.Policy, cfg.NetArch, cfg.NormalizeAdvantage = policy, []int{32}, true
			return a2c.New(cfg, env, agentstest.Networks(t, seed), seed)
		}
	},
	"reinforce": func(t *testing.T, policy string, steps int) func(agents.EnvInfo, uint64) (agentstest.Learner, error) {
		return func(env agents.EnvInfo, seed uint64) (agentstest.Learner, error) {
			cfg := reinforce.Defaults()
			cfg.NEpisodes, cfg.Gamma, cfg.TotalTimesteps = 8, 0, steps
			cfg.Policy, cfg.NetArch = policy, []int{32}
			return reinforce.New(cfg, env, agentstest.Networks(t, seed), seed)
		}
	},
	"dqn": func(t *testing.T, policy string, steps int) func(agents.EnvInfo, uint64) (agentstest.Learner, error) {
		return func(env agents.EnvInfo, seed uint64) (agentstest.Learner, error) {
			cfg := dqn.Defaults()
			cfg.BufferSize, cfg.BatchSize, cfg.TrainFreq, cfg.GradientSteps = 10_000, 64, 1, 1
			cfg.LearningRate, cfg.Gamma, cfg.TargetUpdateInterval, cfg.TotalTimesteps = agents.Constant(3e-3), 0, 100, steps
			cfg.Policy, cfg.NetArch, cfg.Dueling, cfg.DoubleQ = policy, []int{32}, true, true
			return dqn.New(cfg, env, agentstest.Networks(t, seed), seed)
		}
	},
}

// TestLearnsTheToys trains each algorithm on toys with every kind of action and policy. Rewards
// of these toys come at once, so that γ = 0 suffices. The bars are nine tenths of the optimal
// return, which is known.
func TestLearnsTheToys(t *testing.T) {
	for _, tc := range []struct {
		name, policy string
		spec         *envs.Spec
		steps        map[string]int // of each algorithm that has such actions
		bar          float64
	}{
		{"box", policies.Mlp, envcheck.IdentityBox(1, 0.5), map[string]int{"ppo": 20_000, "a2c": 30_000, "reinforce": 60_000}, 90},
		{"multi-discrete", policies.Mlp, envcheck.IdentityMultiDiscrete(2, 3), map[string]int{"ppo": 20_000, "a2c": 20_000, "reinforce": 40_000}, 90},
		{"multi-binary", policies.Mlp, envcheck.IdentityMultiBinary(3), map[string]int{"ppo": 20_000, "a2c": 20_000, "reinforce": 40_000}, 90},
		{"nodes", policies.Node, envcheck.LargestNode(8, false), map[string]int{"ppo": 20_000, "a2c": 20_000, "reinforce": 40_000, "dqn": 10_000}, 45},
		{"nodes or waiting", policies.Node, envcheck.LargestNode(8, true), map[string]int{"ppo": 20_000, "dqn": 10_000}, 45},
		{"graph, sage", policies.SAGE, envcheck.Partner(8), map[string]int{"ppo": 20_000, "a2c": 20_000, "reinforce": 40_000, "dqn": 10_000}, 45},
		{"graph, gcn", policies.GCN, envcheck.Partner(8), map[string]int{"ppo": 20_000, "a2c": 20_000, "reinforce": 40_000, "dqn": 10_000}, 45},
	} {
		for algo, steps := range tc.steps {
			if testing.Short() && algo != "ppo" {
				continue // every kind of action and policy once
			}
			t.Run(tc.name+"/"+algo, func(t *testing.T) {
				t.Parallel()
				r := agentstest.NewRun(t, tc.spec, 8, 1, builders[algo](t, tc.policy, steps))
				for r.L.NumTimesteps() < steps {
					r.Cycle()
					for i, invalid := range r.Batch.Invalid {
						if invalid {
							t.Fatalf("environment %d: a masked action after %d timesteps", i, r.L.NumTimesteps())
						}
					}
				}
				if got := r.Evaluate(tc.spec, 20); got < tc.bar {
					t.Errorf("mean return %v after %d timesteps, want at least %v", got, r.L.NumTimesteps(), tc.bar)
				}
			})
		}
	}
}

// TestOnlyMessagesSolvePartner: without messages the best return is 50/7, that of chance among
// seven nodes; the bound is four standard deviations of the mean of 20 episodes above it.
func TestOnlyMessagesSolvePartner(t *testing.T) {
	spec := envcheck.Partner(8)
	r := agentstest.NewRun(t, spec, 8, 1, builders["ppo"](t, policies.Node, 10_000))
	r.Train(10_000)
	if got := r.Evaluate(spec, 20); got > 50./7+4*0.56 { // √(50·1/7·6/7/20) = 0.55
		t.Errorf("mean return %v of a policy that sees no edges, want about %v", got, 50./7)
	}
}

// TestOtherNumberOfNodes trains at one number of nodes and plays at another, by the greedy
// policy of the checkpoint with its network bound again.
func TestOtherNumberOfNodes(t *testing.T) {
	for _, tc := range []struct {
		name, algo, policy string
		small, large       *envs.Spec
		nodes, edges       int
		bar                float64 // of an optimal return of 50, and about 3 of chance
	}{
		{"nodes, ppo", "ppo", policies.Node, envcheck.LargestNode(8, true), envcheck.LargestNode(32, true), 32, 0, 45},
		{"nodes, dqn", "dqn", policies.Node, envcheck.LargestNode(8, true), envcheck.LargestNode(32, true), 32, 0, 40}, // the largest of 16 is close to the next
		{"graph, ppo", "ppo", policies.SAGE, envcheck.Partner(8), envcheck.Partner(32), 32, 32, 45},
		{"graph, dqn", "dqn", policies.SAGE, envcheck.Partner(8), envcheck.Partner(32), 32, 32, 45},
	} {
		if testing.Short() && tc.name != "nodes, dqn" {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const steps = 30_720 // whole rollouts
			r := agentstest.NewRun(t, tc.small, 8, 1, builders[tc.algo](t, tc.policy, steps))
			r.Train(steps)
			f := agentstest.Parse(t, r.Saved())
			v, _ := agentstest.NewVec(t, tc.large, 1)
			obs, act := v.Spaces()
			want, err := f.Meta.Spec.WithNodes(tc.nodes, tc.edges)
			if err != nil {
				t.Fatal(err)
			}
			if f.Meta.Spec, err = policies.Rebind(f.Meta.Spec, obs, act); err != nil || !f.Meta.Spec.Equal(want) {
				t.Fatalf("Rebind gives %+v (%v), want %+v", f.Meta.Spec, err, want)
			}
			f.Meta.ActionSpace = describe(t, act)
			net := agentstest.Network(t, f.Meta.Spec, 9)
			if err := f.Params(net.Params()); err != nil {
				t.Fatal(err)
			}
			algo, err := algorithms.Get(tc.algo)
			if err != nil {
				t.Fatal(err)
			}
			policy, err := algo.NewPolicy(net, f)
			if err != nil {
				t.Fatal(err)
			}
			if got := agentstest.MeanReturn(t, tc.large, policy, 20); got < tc.bar {
				t.Errorf("mean return %v among 32 nodes after training among 8, want at least %v", got, tc.bar)
			}
		})
	}
}

func describe(t *testing.T, s space.Space) string {
	t.Helper()
	text, err := json.Marshal(s.Describe())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
