package kwok

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/freeport"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/kwok/poll"
	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
	"github.com/kubernasium/kubernasium/trainer/tracking"
)

// qualityEnv is the environment whose episodes are placed.
const qualityEnv = "k8s/PodBalance-v0"

// qualityBudget is the time limit of a decision. It is long, because delays on a busy machine should not affect
// quality.
const qualityBudget = 3 * time.Second

const metricsPoll = 50 * time.Millisecond

// Methods of placing an episode.
const (
	bySimulator = "simulator"
	byKube      = "kube-scheduler"
	byPlugin    = "plugin"
)

// qualityConfig holds the arguments of a comparison of placements.
type qualityConfig struct {
	models, policies []string
	kwargs           map[string]any
	seed             uint64
	patience         time.Duration
}

// qualityRow is an episode's workload, placed by one method.
type qualityRow struct {
	By        string  `json:"by"`
	Policy    string  `json:"policy,omitempty"`
	Pods      int     `json:"pods"`
	Placed    int     `json:"placed"`
	Imbalance float64 `json:"imbalance_pct"`
	SDPods    float64 `json:"sd_pods"`
	Fallbacks int     `json:"fallbacks"`                    // decisions that exceeded qualityBudget
	Equal     *bool   `json:"equal_to_simulator,omitempty"` // whether all placements equal the simulator's; only for our policies
}

func newKwokQuality() *cobra.Command {
	var c qualityConfig
	cmd := &cobra.Command{
		Use:   "quality",
		Short: "Compare kube-scheduler's placements of an episode's pods with those of our policies on an API server",
		Long: `Compare kube-scheduler's placements with those of our policies for the pods of an episode of ` + qualityEnv + ` on an API
server: kube-scheduler alone, and each model and baseline in the simulator and as kube-scheduler's
plugin. It starts a control plane of its own.`,
		Example: `  trainer kwok quality --model models/pretrained/k8s-PodBalance-v0/ppo.safetensors --policy Greedy \
    --env-kwargs node_types:mixed --env-kwargs pods:mixed --env-kwargs cpu_load:0.6 --env-kwargs memory_load:0.6`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(c.models)+len(c.policies) == 0 {
				return errors.New("want --model or --policy")
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
				return fmt.Errorf("%w: %d of %d ways have placed the episode; the same command starts over", cli.ErrInterrupted, len(rows), 1+2*(len(c.models)+len(c.policies)))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&c.models, "model", nil, "model file (repeat)")
	f.StringArrayVar(&c.policies, "policy", nil, "baseline (repeat)")
	cli.KwargsVar(f, &c.kwargs, "env-kwargs", "option key:value of the environment (repeat)")
	f.Uint64Var(&c.seed, "seed", play.CompareSeed, "random seed of the episode")
	f.DurationVar(&c.patience, "patience", time.Minute, "maximum time that pods may be pending")
	return cmd
}

func printQuality(cmd *cobra.Command, rows []qualityRow) error {
	t := tracking.NewTable("placed by", "policy", ">pods", ">placed", ">imbalance %", ">sd of pods", ">fallbacks", "as in the simulator")
	for _, r := range rows {
		equal := ""
		if r.Equal != nil {
			equal = map[bool]string{true: "pod for pod", false: "not"}[*r.Equal]
		}
		t.Append(r.By, r.Policy, fmt.Sprint(r.Pods), fmt.Sprint(r.Placed), fmt.Sprintf("%.3f", r.Imbalance), fmt.Sprintf("%.3f", r.SDPods), fmt.Sprint(r.Fallbacks), equal)
	}
	return cli.Print(cmd, rows, t.WriteText)
}

// contender is one of our policies with its placements in the simulator.
type contender struct {
	name, profile string
	args          live.Args
	load          *kwok.Workload
	placed        kwok.Placements
}

// quality places the episode by all methods. On an error it also returns the rows so far.
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
			r.Policy = p.name
			if by != bySimulator {
				r.Equal = new(reflect.DeepEqual(placed, p.placed))
			}
		}
		rows = append(rows, r)
		fmt.Fprintf(stderr, "%s %s: %d of %d pods\n", by, r.Policy, r.Placed, r.Pods)
	}
	for i := range all {
		note(bySimulator, &all[i], all[i].placed, 0)
	}
	return rows, c.onControlPlane(ctx, all, func(o kwok.Options, metrics string) error {
		client, err := kwok.Connect(ctx, o)
		if err != nil {
			return err
		}
		placed, err := all[0].load.Deploy(ctx, client, corev1.DefaultSchedulerName, c.patience)
		if err != nil {
			return fmt.Errorf("%s: %w", byKube, err)
		}
		note(byKube, nil, placed, 0)
		for i := range all {
			p := &all[i]
			knows := func(ctx context.Context, nodes []string) error { return knowsNodes(ctx, metrics, len(nodes)) }
			placed, err := p.load.Deploy(ctx, client, p.profile, c.patience, knows)
			if err != nil {
				return fmt.Errorf("%s %s: %w", byPlugin, p.name, err)
			}
			fallbacks, err := fallbacksOf(ctx, metrics, p.profile)
			if err != nil {
				return err
			}
			note(byPlugin, p, placed, fallbacks)
		}
		return nil
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
		p, err := live.Open(live.Args{Model: path, Baseline: rule, Options: kwargs}, 1)
		if err != nil {
			return nil, err
		}
		if err := p.Close(); err != nil {
			return nil, err
		}
		if p.Env().ID != qualityEnv {
			return nil, fmt.Errorf("%s is of %s, want one of %s", name, p.Env().ID, qualityEnv)
		}
		one := contender{name: p.Name(), profile: fmt.Sprintf("contender-%d", i), args: live.Args{Model: path, Baseline: rule, Options: kwargs}}
		if len(c.models) > 1 && path != "" {
			one.name = play.ModelName(path, p.Name(), false)
		}
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

// onControlPlane starts a control plane whose kube-scheduler has a profile for each contender, and calls f with
// the address of its metrics.
func (c *qualityConfig) onControlPlane(ctx context.Context, all []contender, f func(o kwok.Options, metrics string) error) (err error) {
	dir, err := os.MkdirTemp("", "kubernasium-quality")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	config := schedulerconfig.Config{Default: true}
	for i, p := range all {
		args := schedulerconfig.Args{Args: p.args}
		if args.Model != "" {
			if args.Model, err = filepath.Abs(args.Model); err != nil {
				return err
			}
		}
		args.Budget.Duration = qualityBudget
		if i == 0 {
			args.Serve.Listen = address
		}
		config.Profiles = append(config.Profiles, schedulerconfig.Profile{Name: p.profile, Args: args})
	}
	text, err := config.YAML()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "scheduler.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	p, err := apiserver.Start(ctx, launch.Options{Args: []string{"--scheduler-config=" + file}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	return f(kwok.Options{Kubeconfig: p.Kubeconfig}, "http://"+address+"/metrics")
}

// knowsNodes waits until kube-scheduler's cache has the given number of nodes. kube-scheduler watches pods
// separately, so that it could place one before it knows an older node.
func knowsNodes(ctx context.Context, metrics string, nodes int) error {
	for {
		have, err := metricOf(ctx, metrics, func(line string) bool { return strings.HasPrefix(line, `scheduler_cache_size{type="nodes"}`) })
		if err != nil || int(have) == nodes {
			return err
		}
		if poll.Sleep(ctx, metricsPoll) != nil {
			return fmt.Errorf("kube-scheduler knows %v of %d nodes: %w", have, nodes, context.Cause(ctx))
		}
	}
}

// fallbacksOf returns the number of a profile's decisions that kube-scheduler's own scores made.
func fallbacksOf(ctx context.Context, metrics, profile string) (int, error) {
	n, err := metricOf(ctx, metrics, func(line string) bool {
		return strings.HasPrefix(line, `kubernasium_decisions_total{profile="`+profile+`"`) && !strings.Contains(line, `result="policy"`)
	})
	return int(n), err
}

// metricOf returns the sum of the matching metrics.
func metricOf(ctx context.Context, url string, match func(line string) bool) (sum float64, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv(play.TokenVariable))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET %s: status %s", url, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if !match(lines.Text()) {
			continue
		}
		v, err := strconv.ParseFloat(lines.Text()[strings.LastIndexByte(lines.Text(), ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", lines.Text(), err)
		}
		sum += v
	}
	return sum, lines.Err()
}
