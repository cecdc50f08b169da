package kwok

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/board"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/freeport"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/kwok/procgroup"
	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// defaultNodeSelector excludes nodes of the control plane, and those of running environments.
const defaultNodeSelector = "!node-role.kubernetes.io/control-plane,!kubernasium.io/environment"

// stopTimeout is the time in which the scheduler must end.
const stopTimeout = 15 * time.Second

// scheduleConfig holds the arguments of a scheduler.
type scheduleConfig struct {
	profile schedulerconfig.Profile
	server  kwok.Options
	lease   schedulerconfig.Lease
	margin  int64
	config  string // file to write
	print   bool

	tensorboard string // folder; empty: none
	page        sidePage
}

func newKwokSchedule() *cobra.Command {
	var c scheduleConfig
	cmd := &cobra.Command{
		Use:   "schedule [-- FLAG...]",
		Short: "Place the pods of an API server by a trained model or a baseline",
		Long: `Place the pods of an API server by a trained model or a baseline: kube-scheduler with the plugin
Kubernasium, which ` + "`make scheduler`" + ` builds, runs beside the cluster's own scheduler and binds the pods whose
schedulerName is --scheduler-name. Filters, queues, preemption, volumes, events and leases are
kube-scheduler's; the policy chooses among the nodes that are left.

With --order respect these are the nodes whose score by what users prefer (node and pod affinity,
taints PreferNoSchedule, topology spread) is within --margin of the best; with policy all of them;
with tiebreak those that kube-scheduler's default scores rate best. A decision that takes longer than
--budget, or fails, is made by kube-scheduler's own scores. A model file that changes is read again.

--listen serves POST /score, a dry run of a decision, GET /healthz and GET /metrics. --print-config
prints the KubeSchedulerConfiguration and ends. What follows -- is passed to kube-scheduler.`,
		Example: `  trainer kwok schedule --model models/pretrained/k8s-PodBalance-v0/ppo.safetensors
  trainer kwok schedule --policy Greedy --scheduler-name custom-scheduler --kubeconfig FILE
  trainer kwok schedule --policy Greedy --tensorboard logs/schedule    # then: tensorboard --logdir logs
  trainer kwok schedule --policy Greedy --board 127.0.0.1:6007         # look at the cluster and at why
  trainer kwok schedule --policy Greedy --print-config > scheduler.yaml
  trainer kwok schedule --policy Greedy -- --v=2 --secure-port=10259`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (c.profile.Args.Model == "") == (c.profile.Args.Baseline == "") {
				return errors.New("want one of --model and --policy")
			}
			return c.run(cmd, args)
		},
	}
	f, a := cmd.Flags(), &c.profile.Args
	f.StringVar(&a.Model, "model", "", "model file, trained in an environment whose actions are nodes")
	f.StringVar(&a.Baseline, "policy", "", "baseline, or search such as rollout:base=NAME,ms=50")
	f.StringVar(&a.Env, "env", "", "environment of the baseline (default: "+live.DefaultEnv+"); a model says its own")
	cli.KwargsVar(f, &a.Options, "env-kwargs", "option key:value of the environment (repeat; default: the model's)")
	f.StringVar(&c.profile.Name, "scheduler-name", "custom-scheduler", "schedulerName of the pods to place")
	f.StringVar(&a.NodeSelector, "node-selector", defaultNodeSelector, "label selector of the nodes to place them on")
	f.DurationVar(&a.Budget.Duration, "budget", 100*time.Millisecond, "time limit of a decision, after which kube-scheduler's scores decide")
	f.StringVar(&a.Order, "order", schedulerconfig.OrderRespect, "nodes among which the policy chooses: respect (those that users prefer), policy (all), or tiebreak (those that kube-scheduler scores best)")
	f.Int64Var(&c.margin, "margin", schedulerconfig.DefaultMargin, "how far a node's preference score may be below the best with --order respect; one satisfied preference gives 200")
	f.DurationVar(&a.ReloadEvery.Duration, "reload-every", 5*time.Second, "interval between checks of the model file")
	f.StringVar(&a.Serve.Listen, "listen", "127.0.0.1:10359", "address of the HTTP endpoints; port 0 selects a free one, empty: none. Beyond loopback it needs a token")
	f.StringVar(&a.Serve.TokenFile, "token-file", "", "file with the token of requests (default: "+play.TokenVariable+", if set)")
	f.StringVar(&c.lease.Namespace, "lease-namespace", "kube-system", "namespace of the lease")
	f.StringVar(&c.lease.Name, "lease-name", "", "name of the lease (default: the scheduler's)")
	f.DurationVar(&c.lease.Duration, "lease-duration", 15*time.Second, "time without renewal after which a lease expires")
	f.StringVar(&c.config, "config", "", "file to write the configuration to (default: a temporary one)")
	f.StringVar(&c.tensorboard, "tensorboard", "", "folder to write TensorBoard's tags to: placements by node, the cluster's imbalance")
	f.StringVar(&c.page.address, "board", "", "address of a page with the cluster and the reasons of each decision, such as 127.0.0.1:6007; port 0 selects a free one, empty: none. Beyond loopback it needs the token")
	f.BoolVar(&c.print, "print-config", false, "print the configuration and exit")
	apiserver.Flags(cmd, &c.server)
	return cmd
}

// run writes the configuration and runs the scheduler until the command's context ends.
func (c *scheduleConfig) run(cmd *cobra.Command, args []string) (err error) {
	if listen := &c.profile.Args.Serve.Listen; !c.print {
		if *listen, err = withPort(*listen); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	text, err := c.yaml()
	if err != nil {
		return err
	}
	if c.print {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	binary, err := launch.FindScheduler()
	if err != nil {
		return err
	}
	client, err := kwok.Connect(cmd.Context(), c.server) // returns an error for nodes that KWOK does not manage
	if err != nil {
		return err
	}
	if c.config == "" {
		dir, err := os.MkdirTemp("", "kubernasium-scheduler")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		c.config = filepath.Join(dir, "scheduler.yaml")
	}
	if err := os.WriteFile(c.config, text, 0o600); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s by %s; %s\n", c.profile.Name, cmp.Or(c.profile.Args.Model, c.profile.Args.Baseline), c.endpoints())
	c.page.tokenFile, c.page.announce = c.profile.Args.Serve.TokenFile, func(url string) { fmt.Fprintln(cmd.OutOrStdout(), url) }
	return c.logged(cmd.Context(), client, func(ctx context.Context) error {
		return c.onBoard(ctx, client, func(ctx context.Context) error {
			return runScheduler(ctx, binary, append([]string{"--config=" + c.config, "--secure-port=0"}, args...), cmd.ErrOrStderr())
		})
	})
}

// logged calls run, and with --tensorboard writes TensorBoard's tags until run returns.
func (c *scheduleConfig) logged(ctx context.Context, client kubernetes.Interface, run func(context.Context) error) error {
	if c.tensorboard == "" {
		return run(ctx)
	}
	selector, err := labels.Parse(c.profile.Args.NodeSelector)
	if err != nil {
		return fmt.Errorf("--node-selector: %w", err)
	}
	log, err := newPlacementLog(c.tensorboard)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	followed := make(chan error, 1)
	go func() { followed <- kwok.FollowPlacements(following, client, c.profile.Name, selector, log.add) }()
	err = run(ctx)
	stop()
	return errors.Join(err, <-followed, log.close())
}

func (c *scheduleConfig) endpoints() string {
	if c.profile.Args.Serve.Listen == "" {
		return "no endpoints"
	}
	return "http://" + c.profile.Args.Serve.Listen + "/healthz"
}

// yaml returns the configuration. It opens the policy, so that a policy that cannot decide is an error here.
func (c *scheduleConfig) yaml() ([]byte, error) {
	a := &c.profile.Args
	p, err := live.Open(a.Args, 1)
	if err != nil {
		return nil, err
	}
	if err := p.Close(); err != nil {
		return nil, err
	}
	for _, path := range []*string{&a.Model, &a.Serve.TokenFile} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return nil, err
			}
		}
	}
	for flag, address := range map[string]string{"--listen": a.Serve.Listen, "--board": c.page.address} {
		if err := checkListen(flag, address, a.Serve.TokenFile); err != nil {
			return nil, err
		}
	}
	a.Margin = &c.margin
	c.lease.Name = cmp.Or(c.lease.Name, c.profile.Name)
	kubeconfig := cmp.Or(c.server.Kubeconfig, os.Getenv(kwok.KubeconfigVariable))
	if kubeconfig != "" {
		if kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
			return nil, err
		}
	}
	config := schedulerconfig.Config{Kubeconfig: kubeconfig, Lease: &c.lease, Profiles: []schedulerconfig.Profile{c.profile}}
	return config.YAML()
}

// runScheduler runs the binary until ctx ends. On Linux it also ends when this process is killed, so that no
// scheduler keeps running with a lease and a configuration that nobody controls.
func runScheduler(ctx context.Context, binary string, args []string, stderr io.Writer) error {
	child := exec.CommandContext(ctx, binary, args...)
	child.Stderr = stderr
	procgroup.Lead(child, true)
	runtime.LockOSThread() // the kernel signals a child when the thread that started it ends
	defer runtime.UnlockOSThread()
	child.Cancel = func() error { return procgroup.Terminate(child) }
	child.WaitDelay = stopTimeout
	err := child.Run()
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = errors.New("it has ended by itself")
	}
	return fmt.Errorf("%s: %w", filepath.Base(binary), err)
}

// withPort replaces port 0 by a free port, which no connection takes before the scheduler listens, so that the command can
// print it.
func withPort(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if address == "" || err == nil && port != "0" {
		return address, nil
	}
	if err != nil {
		return "", err
	}
	free, err := freeport.Address()
	if err != nil {
		return "", err
	}
	_, port, err = net.SplitHostPort(free)
	return net.JoinHostPort(host, port), err
}

// checkListen returns an error for an address that other machines can reach without a token.
func checkListen(flag, address, tokenFile string) error {
	if address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	token, err := readToken(tokenFile)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); token == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s %s reaches beyond the loopback interface and needs a token: --token-file or %s", flag, address, play.TokenVariable)
	}
	return nil
}

// readToken returns the token in a file, or in the environment.
func readToken(file string) (string, error) {
	if file == "" {
		return os.Getenv(play.TokenVariable), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("%s holds no token", file)
	}
	return token, nil
}

// onBoard calls run, and with --board serves the page with the cluster until run returns.
func (c *scheduleConfig) onBoard(ctx context.Context, client kubernetes.Interface, run func(context.Context) error) (err error) {
	if c.page.address == "" {
		return run(ctx)
	}
	selector, err := labels.Parse(c.profile.Args.NodeSelector)
	if err != nil {
		return fmt.Errorf("--node-selector: %w", err)
	}
	w, err := newLiveCluster([]string{c.profile.Name}, c.profile.Args.Args, selector)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	return c.page.serveDuring(ctx, board.Config{Cluster: w}, func(ctx context.Context) error { return w.watch(ctx, client) }, run)
}
