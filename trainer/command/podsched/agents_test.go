package podsched

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// podschedCases are the agents of pod scheduling on both environments, with clusters that fill up.
func podschedCases() map[string]podschedCase {
	cases := map[string]podschedCase{}
	for env, kwargs := range map[string]map[string]any{
		"k8s/PodBalance-v0":       {"nodes": 4, "node_types": "mixed", "pods": "mixed", "cpu_load": 1.0, "memory_load": 1.0, "pod_load": 1.0},
		"k8s/GPUPodScheduling-v0": {"num_nodes": 6},
	} {
		for _, a := range append(podschedAgents, podschedAgent{name: "ppo", algo: ppo.Algo}) {
			c := podschedCase{env: env, algo: a.algo, kwargs: kwargs}
			if a.graph {
				key, value, _ := strings.Cut(graphOptions[env], ":")
				c.kwargs = cli.MergeKwargs(kwargs, map[string]any{key: value})
			}
			if a.algo == ppo.Algo {
				c.params = []string{"policy:NodePolicy", "net_arch:[16]", "n_envs:1"}
			} else {
				c.params = a.params(&earlierFlags{hidden: 16, initEps: 0.5, epsDecay: 1, gamma: 0.9, rate: 1e-3, buffer: 500, update: 10, target: 50, batchSize: 10})
			}
			cases[env+" "+a.name] = c
		}
	}
	return cases
}

type podschedCase struct {
	env, algo string
	kwargs    map[string]any
	params    []string
}

// learner returns an untrained learner for one environment, and the environment.
func (c *podschedCase) learner(t *testing.T) (*run.Learner, *envs.Vec) {
	t.Helper()
	v, err := envs.Make(c.env, 1, envs.VecOptions{Options: c.kwargs, Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	var given map[string]any
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	cli.KwargsVar(flags, &given, "params", "")
	prepend(flags.Lookup("params"), c.params)
	h, err := run.ReadHyperparams(c.algo, "none", "", given)
	if err != nil {
		t.Fatal(err)
	}
	obs, act := v.Spaces()
	l, err := run.NewLearner(c.algo, h, agents.EnvInfo{ID: c.env, Kwargs: c.kwargs, Obs: obs, Act: act, NumEnvs: 1}, play.EngineFused, 7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, v
}

// TestPodschedAgentsSeeTheCluster: the same pod meets two states of the cluster, in which the pod
// before it is on one node or another. Each network's outputs differ. (The earlier project's graph
// networks saw the same input at every decision.)
func TestPodschedAgentsSeeTheCluster(t *testing.T) {
	for name, c := range podschedCases() {
		t.Run(name, func(t *testing.T) {
			l, v := c.learner(t)
			var outputs [2][]float32
			for k := range outputs {
				seed := uint64(3)
				b, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: &seed})
				if err != nil {
					t.Fatal(err)
				}
				action, skip := 0, k // the first node that fits, or the second
				for ; !b.Mask[action] || skip > 0; action++ {
					if b.Mask[action] {
						skip--
					}
				}
				if b, err = v.Step(context.Background(), []float32{float32(action)}); err != nil {
					t.Fatal(err)
				}
				out, err := l.Nets[0].Forward(b.Obs, 1)
				if err != nil {
					t.Fatal(err)
				}
				outputs[k] = append([]float32{}, out...)
			}
			if cmp.Equal(outputs[0], outputs[1]) {
				t.Errorf("the outputs are %v in both states of the cluster", outputs[0])
			}
		})
	}
}

// TestPodschedAgentsKeepToTheMask: neither what explores nor what is greedy chooses a node on
// which the pod does not fit, over some hundred decisions with updates between them.
func TestPodschedAgentsKeepToTheMask(t *testing.T) {
	for name, c := range podschedCases() {
		t.Run(name, func(t *testing.T) {
			l, v := c.learner(t)
			seed := uint64(5)
			b, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: &seed})
			if err != nil {
				t.Fatal(err)
			}
			masked := 0
			action, greedy := make([]float32, 1), make([]float32, 1)
			for step := range 400 {
				if err := l.Greedy().Act(b, greedy); err != nil {
					t.Fatal(err)
				}
				if err := l.Act(b, action); err != nil {
					t.Fatal(err)
				}
				for _, a := range []float32{greedy[0], action[0]} {
					if !b.Mask[int(a)] {
						t.Fatalf("step %d: node %v, where the pod does not fit", step, a)
					}
				}
				for _, fits := range b.Mask {
					if !fits {
						masked++
					}
				}
				if b, err = v.Step(context.Background(), action); err != nil {
					t.Fatal(err)
				}
				if err := l.Observe(b); err != nil {
					t.Fatal(err)
				}
				if _, err := l.Update(); err != nil {
					t.Fatal(err)
				}
			}
			if masked < 20 {
				t.Errorf("only %d nodes were masked out in all: the test says nothing", masked)
			}
		})
	}
}

// flatten adds the leaves of a tree to dst, by their names without underscores.
func flatten(dst, tree map[string]any) {
	for name, x := range tree {
		if branch, ok := x.(map[string]any); ok {
			flatten(dst, branch)
			continue
		}
		dst[strings.ReplaceAll(name, "_", "")] = x
	}
}

// TestPodschedShortcuts: the earlier project's flags become hyperparameters. Expected are its
// published defaults, and a rollout of batch_size rows.
func TestPodschedShortcuts(t *testing.T) {
	for name, want := range map[string]map[string]any{
		"dqn": {
			"policy": "MlpPolicy", "net_arch": []any{32, 32}, "gamma": 0.99, "learning_rate": 0.001, "exploration_initial_eps": 1, "exploration_decay": 0.995,
			"exploration_final_eps": 0.01, "buffer_size": 2000, "train_freq": 25, "target_update_interval": 50, "batch_size": 200, "n_envs": 1,
		},
		"gnn":   {"policy": "SAGEPolicy", "net_arch": []any{32, 32}, "exploration_decay": 0.995},
		"acdqn": {"policy": "MlpPolicy", "n_steps": 25, "n_envs": 8, "use_rms_prop": false, "gamma": 0.99},
		"acgnn": {"policy": "SAGEPolicy", "n_steps": 25, "n_envs": 8, "learning_rate": 0.001},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			mustExecute(t, "podsched", name, "-f", folder, "-n", "450", "--eval-freq", "0", "--eval-episodes", "1")
			found, err := filepath.Glob(filepath.Join(folder, "*", "*", "config.yml"))
			if err != nil || len(found) != 1 {
				t.Fatalf("config files %v, %v", found, err)
			}
			text, err := os.ReadFile(found[0])
			if err != nil {
				t.Fatal(err)
			}
			var tree map[string]any
			if err := yaml.Unmarshal(text, &tree); err != nil {
				t.Fatal(err)
			}
			got := map[string]any{}
			flatten(got, tree)
			for key, x := range want {
				if d := cmp.Diff(fmt.Sprint(x), fmt.Sprint(got[strings.ReplaceAll(key, "_", "")])); d != "" {
					t.Errorf("%s (-want +got):\n%s", key, d)
				}
			}
		})
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--env", "classic/CartPole-v1"}, "want PodBalance or GPUPodScheduling"},
		{[]string{"--algo", "ppo"}, "podsched dqn, which is dqn"},
		{[]string{"--hidden_layers", "0"}, "--hidden_layers is 0"},
	} {
		if _, _, err := execute(t, context.Background(), append([]string{"podsched", "dqn", "-f", t.TempDir()}, tc.args...)...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
	_, stderr, err := execute(t, context.Background(), "podsched", "acgnn", "-f", t.TempDir(), "-n", "200", "--init_epsi", "0.5", "--log_scrolling", "--eval-freq", "0", "--eval-episodes", "1")
	if err != nil || !strings.Contains(stderr, "--init_epsi changes nothing") || !strings.Contains(stderr, "msg=update timesteps=200") {
		t.Errorf("%v; standard error is %q, want a warning of --init_epsi and the rows of the logs", err, stderr)
	}
}
