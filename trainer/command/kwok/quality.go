package kwok

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/kwok/lease"
	"github.com/kubernasium/kubernasium/kwok/scheduler"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// qualityEnv is the environment whose episodes are placed.
const qualityEnv = "k8s/PodBalance-v0"

// qualityBudget is that of a decision: what a machine that is busy otherwise delays is no matter of
// quality.
const qualityBudget = 3 * time.Second

// Ways to place an episode.
const (
	bySimulator = "simulator"
	byKube      = "kube-scheduler"
	bySecond    = "custom-scheduler"
	byExtender  = "extender"
)

// qualityConfig are the arguments of a comparison of placements.
type qualityConfig struct {
	models, policies []string
	kwargs           map[string]any
	seed             uint64
	patience         time.Duration
}

// qualityRow is an episode's workload, placed in one way.
type qualityRow struct {
	By        string  `json:"by"`
	Policy    string  `json:"policy,omitempty"`
	Pods      int     `json:"pods"`
	Placed    int     `json:"placed"`
	Imbalance float64 `json:"imbalance_pct"`
	SDPods    float64 `json:"sd_pods"`
	Fallbacks int     `json:"fallbacks"`                    // decisions that took more than quality's budget
	Equal     *bool   `json:"equal_to_simulator,omitempty"` // pod for pod, of a policy of ours
}

func newKwokQuality() *cobra.Command {
	var c qualityConfig
	var kwargs []string
	cmd := &cobra.Command{
		Use:   "quality",
		Short: "Compare how kube-scheduler and ours place an episode's pods on an API server",
		Long: `Compare how kube-scheduler and ours place the pods of an episode of ` + qualityEnv + ` on an API
server: kube-scheduler alone, and each model and baseline in the simulator, as a second scheduler,
and as kube-scheduler's extender. It starts control planes of its own.`,
		Example: `  trainer kwok quality --model models/pretrained/k8s-PodBalance-v0/ppo.safetensors --policy Greedy \
    --env-kwargs node_types:mixed --env-kwargs pods:mixed --env-kwargs cpu_load:0.6 --env-kwargs memory_load:0.6`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(c.models)+len(c.policies) == 0 {
				return errors.New("want --model or --policy")
			}
			var err error
			if c.kwargs, err = cli.ParseKwargs("env-kwargs", kwargs); err != nil {
				return err
			}
			rows, err := quality(cmd.Context(), c, cmd.ErrOrStderr())
			if err != nil && cmd.Context().Err() == nil {
				return err
			}
			if len(rows) > 0 {
				if err := printQuality(cmd, rows); err != nil {
					return err
				}
			}
			if err != nil {
				return fmt.Errorf("%w: %d of %d ways have placed the episode; the same command starts over", cli.ErrInterrupted, len(rows), 1+3*(len(c.models)+len(c.policies)))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&c.models, "model", nil, "model file (repeat)")
	f.StringArrayVar(&c.policies, "policy", nil, "baseline (repeat)")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat)")
	f.Uint64Var(&c.seed, "seed", play.CompareSeed, "random seed of the episode")
	f.DurationVar(&c.patience, "patience", time.Minute, "how long pods may wait for a node")
	return cmd
}

func printQuality(cmd *cobra.Command, rows []qualityRow) error {
	if cli.WantJSON(cmd) {
		return cli.PrintJSON(cmd, rows)
	}
	t := tracking.NewTable("placed by", "policy", ">pods", ">placed", ">imbalance %", ">sd of pods", ">fallbacks", "as in the simulator")
	for _, r := range rows {
		equal := ""
		if r.Equal != nil {
			equal = map[bool]string{true: "pod for pod", false: "not"}[*r.Equal]
		}
		t.Append(r.By, r.Policy, fmt.Sprint(r.Pods), fmt.Sprint(r.Placed), fmt.Sprintf("%.3f", r.Imbalance), fmt.Sprintf("%.3f", r.SDPods), fmt.Sprint(r.Fallbacks), equal)
	}
	return t.WriteText(cmd.OutOrStdout())
}

// contender is a policy of ours with what it does in the simulator.
type contender struct {
	*scheduler.Policy
	load   *kwok.Workload
	placed kwok.Placements
}

// quality places the episode in all ways. With an error it returns the rows until then.
func quality(ctx context.Context, c qualityConfig, stderr io.Writer) ([]qualityRow, error) {
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))) // client-go's
	all, err := c.contenders(ctx)
	if err != nil {
		return nil, err
	}
	var rows []qualityRow
	note := func(by string, p *contender, placed kwok.Placements, fallbacks int) {
		r := qualityRow{By: by, Placed: placed.Pods(), Fallbacks: fallbacks}
		for _, d := range all[0].load.Deployments {
			r.Pods += d.Replicas
		}
		r.SDPods, r.Imbalance = all[0].load.Imbalance(placed)
		if p != nil {
			r.Policy = p.Name
			if by != bySimulator {
				equal := reflect.DeepEqual(placed, p.placed)
				r.Equal = &equal
			}
		}
		rows = append(rows, r)
		fmt.Fprintf(stderr, "%s %s: %d of %d pods\n", by, r.Policy, r.Placed, r.Pods)
	}
	for i := range all {
		note(bySimulator, &all[i], all[i].placed, 0)
	}
	if err := onControlPlane(ctx, "", func(o kwok.Options) error {
		placed, _, err := c.deploy(ctx, o, &all[0], corev1.DefaultSchedulerName, nil, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", byKube, err)
		}
		note(byKube, nil, placed, 0)
		for i := range all {
			placed, fallbacks, err := c.deploy(ctx, o, &all[i], "custom-scheduler", all[i].Policy, nil)
			if err != nil {
				return fmt.Errorf("%s %s: %w", bySecond, all[i].Name, err)
			}
			note(bySecond, &all[i], placed, fallbacks)
		}
		return nil
	}); err != nil {
		return rows, err
	}
	for i := range all {
		if err := c.extend(ctx, &all[i], note); err != nil {
			return rows, fmt.Errorf("%s %s: %w", byExtender, all[i].Name, err)
		}
	}
	return rows, nil
}

// extend lets kube-scheduler place the episode with the policy as its extender.
func (c *qualityConfig) extend(ctx context.Context, p *contender, note func(string, *contender, kwok.Placements, int)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	return onControlPlane(ctx, "http://"+l.Addr().String(), func(o kwok.Options) error {
		placed, fallbacks, err := c.deploy(ctx, o, p, corev1.DefaultSchedulerName, p.Policy, l)
		if err == nil {
			note(byExtender, p, placed, fallbacks)
		}
		return err
	})
}

// contenders plays the episode by each policy in the simulator.
func (c *qualityConfig) contenders(ctx context.Context) ([]contender, error) {
	kwargs := cli.MergeKwargs(map[string]any{"resets": 1}, c.kwargs) // one filling, which stays until the end
	var all []contender
	for i, name := range slices.Concat(c.models, c.policies) {
		path, rule := name, ""
		if i >= len(c.models) {
			path, rule = "", name
		}
		p, err := play.SchedulerPolicy(path, rule, qualityEnv, kwargs)
		if err != nil {
			return nil, err
		}
		if p.Env.ID != qualityEnv {
			return nil, fmt.Errorf("%s is of %s, want one of %s", name, p.Env.ID, qualityEnv)
		}
		if len(c.models) > 1 && path != "" {
			p.Name = play.ModelName(path, p.Name, false)
		}
		p.Options = kwargs // those that a model was trained with say nothing of the episode
		one := contender{Policy: p}
		if one.load, one.placed, err = c.simulate(ctx, path, rule, kwargs); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// simulate plays the episode in the simulator.
func (c *qualityConfig) simulate(ctx context.Context, path, rule string, kwargs map[string]any) (*kwok.Workload, kwok.Placements, error) {
	v, err := envs.Make(qualityEnv, 1, envs.VecOptions{Options: kwargs, Autoreset: envs.Disabled})
	if err != nil {
		return nil, nil, err
	}
	defer v.Close()
	_, p, closePolicy, err := play.OpenPolicy(ctx, v, play.Config{Model: path, Baseline: rule, Seed: c.seed})
	if err != nil {
		return nil, nil, err
	}
	defer closePolicy()
	if _, err := play.PlayEpisode(ctx, v, p, envs.VecResetOptions{Seed: &c.seed}, nil); err != nil {
		return nil, nil, err
	}
	load, placed := kwok.WorkloadOf(v.Env(0).State())
	return load, placed, nil
}

// onControlPlane starts a control plane, with an extender at url unless that is empty, for f.
func onControlPlane(ctx context.Context, url string, f func(kwok.Options) error) (err error) {
	dir, err := os.MkdirTemp("", "kubernasium-quality")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var args []string
	if url != "" {
		config := filepath.Join(dir, "scheduler.yaml")
		if err := os.WriteFile(config, scheduler.ExtenderConfig(url, true), 0o600); err != nil {
			return err
		}
		args = append(args, "--scheduler-config="+config)
	}
	p, err := apiserver.Start(ctx, launch.Options{Args: args})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	return f(kwok.Options{Kubeconfig: p.Kubeconfig})
}

// deploy places the workload on the API server, with a scheduler of ours running if p is not nil:
// as second scheduler of that name, or at l as extender.
func (c *qualityConfig) deploy(ctx context.Context, o kwok.Options, load *contender, name string, p *scheduler.Policy, l net.Listener) (placed kwok.Placements, fallbacks int, err error) {
	client, err := kwok.Connect(ctx, o)
	if err != nil {
		return nil, 0, err
	}
	var seen []func(context.Context, []string) error
	if p != nil {
		id, err := identity()
		if err != nil {
			return nil, 0, err
		}
		cfg := scheduler.Config{Name: "custom-scheduler", Policy: p, Budget: qualityBudget, Lease: lease.Lease{Identity: id}}
		s, err := scheduler.New(client, cfg)
		if err != nil {
			return nil, 0, err
		}
		running, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		if l != nil {
			go func() { ended <- serveScheduler(running, s, l) }()
		} else {
			go func() { ended <- s.Run(running) }()
		}
		defer func() {
			stop()
			err = errors.Join(err, <-ended)
			fallbacks = s.Fallbacks()
		}()
		select {
		case <-s.Watching(): // or else kube-scheduler would place the first pods without its extender
		case err := <-ended:
			ended <- nil // for the deferred function
			return nil, 0, errors.Join(errors.New("the scheduler ended before it watched"), err)
		}
		seen = append(seen, s.Knows)
	}
	placed, err = load.load.Deploy(ctx, client, name, c.patience, seen...)
	return placed, 0, err
}
