package podsched

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/trainer/run"
)

// podschedAgent is a shortcut for train with the flags of an earlier project (AAML).
type podschedAgent struct {
	name, what string
	algo       string
	graph      bool // a graph network instead of a dense one
}

var podschedAgents = []podschedAgent{
	{"dqn", "DQN with a dense network", dqn.Algo, false},
	{"gnn", "DQN with a graph network", dqn.Algo, true},
	{"acdqn", "actor-critic with a dense network", a2c.Algo, false},
	{"acgnn", "actor-critic with a graph network", a2c.Algo, true},
}

// graphOptions holds the options with which an environment includes the graph of its nodes in observations.
var graphOptions = map[string]string{"k8s/PodBalance-v0": "edges:rack", "k8s/GPUPodScheduling-v0": "edges:model"}

// earlierFlags holds the flags of the earlier project.
type earlierFlags struct {
	hidden                            int
	initEps, epsDecay, gamma, rate    float64
	buffer, update, target, batchSize int
	progress, scroll                  bool
}

// earlierEps is the minimum ε of the earlier project, which has no flag for it.
const earlierEps = 0.01

// shortcutSteps is the length of the shortcuts' trainings without -n. The earlier project's runs had 300
// decisions, with 12 gradient steps.
const shortcutSteps = 100_000

func newPodschedAgent(a podschedAgent, trainCommand func() (*cobra.Command, *run.Config)) *cobra.Command {
	cmd, c := trainCommand()
	train := cmd.RunE
	var e earlierFlags
	cmd.Use = a.name
	cmd.Short = "Train " + a.what + " (a shortcut for train)"
	cmd.Long = a.help()
	cmd.Example = fmt.Sprintf(`  trainer podsched %[1]s --progress
  trainer podsched %[1]s --hidden_layers 64 --epsi_decay 0.991 --gamma 0.95 -n 50000 --compare 40
  trainer podsched %[1]s --env GPUPodScheduling --seeds 1..5`, a.name)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("algo") {
			return fmt.Errorf("--algo %s with podsched %s, which is %s; train takes any", c.Algo, a.name, a.algo)
		}
		if !strings.Contains(c.Env, "/") {
			c.Env = "k8s/" + strings.TrimSuffix(c.Env, "-v0") + "-v0"
		}
		if _, ok := graphOptions[c.Env]; !ok {
			return fmt.Errorf("--env %s, want PodBalance or GPUPodScheduling", c.Env)
		}
		if err := e.check(); err != nil {
			return err
		}
		a.warn(cmd)
		c.Algo, c.Quiet, c.Scroll = a.algo, !e.progress, e.scroll
		prepend(cmd.Flag("params"), a.params(&e))
		if a.graph {
			prepend(cmd.Flag("env-kwargs"), []string{graphOptions[c.Env]})
		}
		return train(cmd, args)
	}
	f := cmd.Flags()
	if err := f.MarkHidden("algo"); err != nil {
		panic(err) // train has no such flag
	}
	c.Env = "k8s/PodBalance-v0"
	f.Lookup("env").DefValue = c.Env
	f.Lookup("env").Usage = "PodBalance or GPUPodScheduling"
	f.Lookup("n-timesteps").Usage = fmt.Sprintf("environment steps to train for (default %d)", shortcutSteps)
	f.IntVar(&e.hidden, "hidden_layers", 32, "width of the two hidden layers: net_arch")
	f.Float64Var(&e.initEps, "init_epsi", 1, "first ε: exploration_initial_eps")
	f.Float64Var(&e.epsDecay, "epsi_decay", 0.995, "factor of ε after each decision, down to 0.01: exploration_decay")
	f.Float64Var(&e.gamma, "gamma", 0.99, "discount: gamma")
	f.Float64Var(&e.rate, "learning_rate", 0.001, "learning rate of Adam: learning_rate")
	f.IntVar(&e.buffer, "replay_buffer_size", 2000, "transitions kept: buffer_size")
	f.IntVar(&e.update, "update_frequency", 25, "decisions between updates: train_freq, or n_steps of an actor-critic")
	f.IntVar(&e.target, "target_update_frequency", 50, "decisions between copies to the target network: target_update_interval")
	f.IntVar(&e.batchSize, "batch_size", 200, "decisions of an update: batch_size; an actor-critic plays batch_size/update_frequency environments, n_envs")
	f.BoolVar(&e.progress, "progress", false, "show a progress bar")
	f.BoolVar(&e.scroll, "log_scrolling", false, "print each row of the logs")
	return cmd
}

func (a podschedAgent) help() string {
	text := "Train " + a.what + ` on pod scheduling: a shortcut for train.

Flags with underscores are those of an earlier project (AAML), with its defaults; the usage of
each names the hyperparameter that it sets; others are those tuned for the environment. What
--params gives counts more.`
	if a.algo == a2c.Algo {
		text += `

An actor-critic draws from its policy and learns from what it did last. --init_epsi, --epsi_decay,
--replay_buffer_size and --target_update_frequency are accepted for the sake of scripts, and
change nothing. The earlier project's actor-critics had a gamma of 0.95.`
	}
	if a.graph {
		text += `

The graph network is a SAGEPolicy: GraphSAGE layers with a score for each node. PodBalance shows
the nodes of a rack as neighbours, GPUPodScheduling those of a GPU model. (The earlier project's
GCN layers give all nodes of a rack the same score.)`
	}
	return text
}

// check returns an error for the first flag that no hyperparameter can represent.
func (e *earlierFlags) check() error {
	for _, p := range []struct {
		name string
		v    int
	}{
		{"hidden_layers", e.hidden}, {"replay_buffer_size", e.buffer}, {"update_frequency", e.update},
		{"target_update_frequency", e.target}, {"batch_size", e.batchSize},
	} {
		if p.v < 1 {
			return fmt.Errorf("--%s is %d, want at least 1", p.name, p.v)
		}
	}
	return nil
}

// warn logs the given flags that an actor-critic does not use.
func (a podschedAgent) warn(cmd *cobra.Command) {
	if a.algo != a2c.Algo {
		return
	}
	for _, name := range []string{"init_epsi", "epsi_decay", "replay_buffer_size", "target_update_frequency"} {
		if cmd.Flags().Changed(name) {
			fmt.Fprintf(cmd.ErrOrStderr(), "--%s changes nothing: an actor-critic neither explores by ε nor replays\n", name)
		}
	}
}

// params converts the flags to hyperparameters, as arguments of --params.
func (a podschedAgent) params(e *earlierFlags) []string {
	policy := policies.Mlp
	if a.graph {
		policy = policies.SAGE
	}
	params := []string{
		fmt.Sprintf("n_timesteps:%d", shortcutSteps), "policy:" + policy, fmt.Sprintf("net_arch:[%d, %d]", e.hidden, e.hidden),
		fmt.Sprintf("gamma:%v", e.gamma), fmt.Sprintf("learning_rate:%v", e.rate),
	}
	if a.algo == a2c.Algo {
		return append(params, fmt.Sprintf("n_steps:%d", e.update), fmt.Sprintf("n_envs:%d", max(1, e.batchSize/e.update)),
			"use_rms_prop:false", "normalize_advantage:true")
	}
	return append(params, "n_envs:1",
		fmt.Sprintf("exploration_initial_eps:%v", e.initEps), fmt.Sprintf("exploration_decay:%v", e.epsDecay),
		fmt.Sprintf("exploration_final_eps:%v", min(earlierEps, e.initEps)),
		fmt.Sprintf("buffer_size:%d", e.buffer), fmt.Sprintf("train_freq:%d", e.update), fmt.Sprintf("target_update_interval:%d", e.target),
		fmt.Sprintf("batch_size:%d", e.batchSize), fmt.Sprintf("learning_starts:%d", min(e.batchSize, e.buffer)))
}

// prepend inserts values before those of a list flag, so that the user's values take precedence. It does not
// mark the flag as given, because the recorded command line is the user's.
func prepend(f *pflag.Flag, values []string) {
	list := f.Value.(pflag.SliceValue)
	if err := list.Replace(append(values, list.GetSlice()...)); err != nil {
		panic(err) // values are key:value
	}
}
