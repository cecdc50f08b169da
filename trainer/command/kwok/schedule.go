package kwok

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/scheduler"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// scheduleConfig are the arguments of a scheduler.
type scheduleConfig struct {
	scheduler.Config
	server            kwok.Options
	model, policy     string // one of them
	env               string
	kwargs            map[string]any
	listen, tokenFile string
	shadow            bool
	shadowLog         string // file; empty is standard output
	tensorboard       string // folder; empty is none
}

func newKwokSchedule() *cobra.Command {
	var c scheduleConfig
	var kwargs []string
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Place the pods of an API server by a trained model or a baseline",
		Long: `Place the pods of an API server by a trained model or a baseline: as a second scheduler, which
binds the pods whose schedulerName is --scheduler-name; and over HTTP at --listen, as an extender of
kube-scheduler (/filter, /prioritize) and by POST /score. /healthz and /metrics tell how it does.

What pods ask of nodes, of other pods, of ports and of volumes is honoured by kube-scheduler's rules; the policy
chooses among the nodes that are left. A pod that fits nowhere preempts pods of lower priority. Claims that wait
for their first consumer are left to default-scheduler, and so are resource claims.

Of several instances the one that holds the lease binds pods. A decision that takes longer than
--budget, or fails, is made by kube-scheduler's own scores. With --shadow nothing is bound: a line of
JSON tells of each pod of --scheduler-name what its scheduler did, and what would have been done.`,
		Example: `  trainer kwok schedule --model models/pretrained/k8s-PodBalance-v0/ppo.safetensors
  trainer kwok schedule --policy Greedy --scheduler-name custom-scheduler --kubeconfig FILE
  trainer kwok schedule --policy Greedy --tensorboard logs/schedule    # then: tensorboard --logdir logs
  trainer kwok schedule --model FILE --shadow --scheduler-name default-scheduler --shadow-log shadow.jsonl
  trainer kwok extender-config > scheduler.yaml && trainer kwok up -- --scheduler-config scheduler.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (c.model == "") == (c.policy == "") {
				return errors.New("want one of --model and --policy")
			}
			if c.shadowLog != "" && !c.shadow {
				return errors.New("--shadow-log needs --shadow")
			}
			if c.tensorboard != "" && c.shadow {
				return errors.New("--tensorboard shows what is bound, and --shadow binds nothing")
			}
			var err error
			if c.kwargs, err = cli.ParseKwargs("env-kwargs", kwargs); err != nil {
				return err
			}
			return c.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.model, "model", "", "model file, of an environment of nodes")
	f.StringVar(&c.policy, "policy", "", "baseline")
	f.StringVar(&c.env, "env", "k8s/PodBalance-v0", "environment of the baseline; a model says its own")
	f.StringArrayVar(&kwargs, "env-kwargs", nil, "option key:value of the environment (repeat; default: the model's)")
	f.StringVar(&c.Name, "scheduler-name", "custom-scheduler", "schedulerName of the pods to place")
	f.StringVar(&c.NodeSelector, "node-selector", scheduler.DefaultNodeSelector, "label selector of the nodes to place them on")
	f.DurationVar(&c.Budget, "budget", 100*time.Millisecond, "time of a decision, after which kube-scheduler's scores decide")
	f.BoolVar(&c.shadow, "shadow", false, "bind nothing; record what would have been done beside what the pods' scheduler does")
	f.StringVar(&c.shadowLog, "shadow-log", "", "file to add the records to (default: standard output)")
	f.StringVar(&c.tensorboard, "tensorboard", "", "folder to write TensorBoard's tags to: placements by node, the cluster's imbalance, fallbacks")
	f.StringVar(&c.listen, "listen", "127.0.0.1:10359", "address of the HTTP endpoints; port 0 takes a free one. Beyond loopback it needs a token")
	f.StringVar(&c.tokenFile, "token-file", "", "file with the token of requests (default: "+play.TokenVariable+", if set)")
	f.StringVar(&c.Lease.Namespace, "lease-namespace", "kube-system", "namespace of the lease")
	f.StringVar(&c.Lease.Name, "lease-name", "", "name of the lease (default: the scheduler's)")
	f.DurationVar(&c.Lease.Duration, "lease-duration", 15*time.Second, "how long a leader that is not heard of stays one")
	apiserver.Flags(cmd, &c.server)
	return cmd
}

func newKwokExtenderConfig() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:     "extender-config",
		Short:   "Print a KubeSchedulerConfiguration with `kwok schedule` as kube-scheduler's extender",
		Example: "  trainer kwok extender-config > scheduler.yaml && trainer kwok up -- --scheduler-config scheduler.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(scheduler.ExtenderConfig(url, true))
			return err
		},
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:10359", "where kwok schedule listens; with a token as http://any:TOKEN@HOST:PORT")
	return cmd
}

// run schedules until ctx ends.
func (c *scheduleConfig) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	if c.Policy, err = play.SchedulerPolicy(c.model, c.policy, c.env, c.kwargs); err != nil {
		return err
	}
	if c.Token, err = readToken(c.tokenFile); err != nil {
		return err
	}
	if err := checkListen(c.listen, c.Token); err != nil {
		return err
	}
	c.AllowRealNodes = c.server.AllowRealNodes
	c.Lease.Renew, c.Lease.Retry = c.Lease.Duration*2/3, c.Lease.Duration*2/15 // as kube-scheduler's 15, 10 and 2 s
	if c.Lease.Identity, err = identity(); err != nil {
		return err
	}
	c.Log = slog.New(slog.NewTextHandler(stderr, nil))
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))) // client-go's
	if c.shadow {
		c.Shadow = stdout
		if c.shadowLog != "" {
			f, err := os.OpenFile(c.shadowLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			defer f.Close()
			c.Shadow = f
		}
	}
	if c.tensorboard != "" {
		var log *placementLog
		if log, err = newPlacementLog(c.tensorboard); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, log.close()) }()
		c.Placed = log.add
	}
	client, err := kwok.Connect(ctx, c.server)
	if err != nil {
		return err
	}
	s, err := scheduler.New(client, c.Config)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "%s by %s on %s; http://%s/healthz\n", c.Name, c.Policy.Name, c.Policy.Env.ID, l.Addr())
	return serveScheduler(ctx, s, l)
}

// serveScheduler runs the scheduler and its endpoints until ctx ends or one of them fails.
func serveScheduler(ctx context.Context, s *scheduler.Scheduler, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	served := make(chan error, 1)
	go func() {
		err := server.Serve(l)
		stop()
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		served <- err
	}()
	err := s.Run(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(closing), <-served)
}

// readToken returns the token of a file, or of the variable.
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

// checkListen refuses an address that others can reach without a token.
func checkListen(address, token string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if ip := net.ParseIP(host); token == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen %s reaches beyond the loopback interface and needs a token: --token-file or %s", address, play.TokenVariable)
	}
	return nil
}

// identity returns a name of this process that no other has.
func identity() (string, error) {
	host, err := os.Hostname()
	return host + "_" + strconv.Itoa(os.Getpid()) + "_" + strconv.FormatInt(time.Now().UnixNano(), 36), err
}
