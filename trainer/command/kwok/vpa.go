package kwok

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs"
	env "github.com/kubernasium/kubernasium/envs/vpa"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
	"github.com/kubernasium/kubernasium/kwok/vpa"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// vpaEnv is the environment of the baselines.
const vpaEnv = "k8s/VerticalPodAutoscaler-v0"

// recommenderFlags holds the flags of `kwok vpa` and of its demo.
type recommenderFlags struct {
	server   kwok.Options
	policy   play.Config
	name     string
	upstream vpa.UpstreamConfig
}

func (c *recommenderFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.policy.Model, "model", "", "model file of "+vpaEnv+" or its discrete variant")
	f.StringVar(&c.policy.Baseline, "baseline", "", "or a baseline of "+vpaEnv+"; upstream is the Kubernetes recommender")
	f.StringVar(&c.policy.Env, "env", "", "environment of a model or baseline (default: the model's, or "+vpaEnv+")")
	cli.KwargsVar(f, &c.policy.EnvKwargs, "env-kwargs", "option key:value of the environment (repeat; default: the model's)")
	f.StringVar(&c.name, "recommender-name", "kubernasium", "name by which autoscalers select this recommender; "+vpa.DefaultRecommender+" is that of those that name none")
	apiserver.Flags(cmd, &c.server)
}

// open returns the configuration of the recommender.
func (c *recommenderFlags) open(ctx context.Context) (vpa.Config, error) {
	if err := c.policy.Check(); err != nil {
		return vpa.Config{}, err
	}
	if c.policy.Model == "" && c.policy.Env == "" {
		c.policy.Env = vpaEnv
	}
	models, err := openModels(ctx, c.policy)
	if err != nil {
		return vpa.Config{}, err
	}
	rc, err := kwok.RESTConfig(ctx, c.server)
	c.upstream.Kubeconfig = cmp.Or(c.server.Kubeconfig, os.Getenv(kwok.KubeconfigVariable))
	return vpa.Config{REST: rc, Name: c.name, Open: models}, err
}

// openModels returns the function that makes the model of each container: a policy with its own memory. It
// makes one as a check.
func openModels(ctx context.Context, c play.Config) (func() (vpa.Model, error), error) {
	spec, trained, err := c.TrainedEnv(ctx)
	if err != nil {
		return nil, err
	}
	spec, kwargs := play.Simulated(spec, cli.MergeKwargs(trained, c.EnvKwargs))
	kwargs = cli.MergeKwargs(kwargs, nil)
	for _, played := range []string{"data", "format", "split"} { // pods have their own usage
		delete(kwargs, played)
	}
	open := func() (vpa.Model, error) { return openModel(ctx, spec, kwargs, c) }
	if c.Baseline != "" {
		if open, err = vpa.OpenBaseline(spec, kwargs, c.Baseline); err != nil {
			return nil, err
		}
	}
	m, err := open()
	if err != nil {
		return nil, err
	}
	if _, ok := m.Task.(*env.Task); !ok {
		err = fmt.Errorf("environment %s says nothing of what pods request, want %s or its discrete variant", spec.ID, vpaEnv)
	}
	return open, errors.Join(err, m.Close())
}

// openModel makes the model of a container from the model file of c.
func openModel(ctx context.Context, spec *envs.Spec, kwargs map[string]any, c play.Config) (vpa.Model, error) {
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Options: kwargs})
	if err != nil {
		return vpa.Model{}, err
	}
	_, policy, closePolicy, err := play.OpenPolicy(ctx, v, c)
	if err != nil {
		return vpa.Model{}, errors.Join(err, v.Close())
	}
	return vpa.Model{Task: v.Env(0).Task(), Policy: policy, Close: func() error {
		closePolicy()
		return v.Close()
	}}, nil
}

func newKwokVPA() *cobra.Command {
	var c recommenderFlags
	var interval time.Duration
	var metrics, once bool
	var storage storageFlags
	var listen, leaseNamespace string
	var elect bool
	cmd := &cobra.Command{
		Use:   "vpa",
		Short: "Recommend requests of pods, as a recommender of VerticalPodAutoscaler objects",
		Long: `Run a trained model, or a baseline, as a recommender with a name. It serves the VerticalPodAutoscaler
objects whose spec.recommenders name it: at each interval it reads the usage of their pods from metrics.k8s.io
and writes status.recommendation. Upstream's updater and admission controller apply it: those of the cluster or,
with --updater and --admission, upstream's packages (bin/vpa-upstream), which run in step with the recommender.
Missing CRDs are installed.

With --storage, the recommender keeps what it has learned after a restart. Values and flags are upstream's: checkpoint
stores the histograms of upstream's recommender as VerticalPodAutoscalerCheckpoint; prometheus reads the usage of the
last days from a Prometheus server at the start. Both serve upstream's recommender, whether it decides or is observed.

With --leader-elect, only the instance that holds the lease recommends. With --listen, /livez and /readyz report
whether it hangs and whether it has listed the autoscalers.`,
		Example: `  trainer kwok up -- --admission=MutatingAdmissionWebhook
  trainer kwok vpa --baseline upstream --metrics --updater --admission
  trainer kwok vpa --model models/pretrained/k8s-VerticalPodAutoscaler-v0/ppo.safetensors --recommender-name ppo`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if interval <= 0 {
				return fmt.Errorf("--interval is %v, want more than 0", interval)
			}
			ctx := cmd.Context()
			kept := vpa.Config{Namespace: c.upstream.Namespace}
			if err := storage.apply(&kept); err != nil {
				return err
			}
			config, err := c.open(ctx)
			if err != nil {
				return err
			}
			config.Namespace, config.Checkpoints, config.History = kept.Namespace, kept.Checkpoints, kept.History
			config.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			if err := vpa.Install(ctx, config.REST); err != nil {
				return err
			}
			later := func(what io.Closer) { err = errors.Join(err, what.Close()) }
			if metrics {
				s, err := metricsapi.Start(ctx, metricsapi.Config{REST: config.REST, Window: interval})
				if err != nil {
					return err
				}
				defer later(s)
			}
			if c.upstream.Updater || c.upstream.Admission {
				c.upstream.Log = cmd.ErrOrStderr()
				if config.Upstream, err = vpa.StartUpstream(ctx, c.upstream); err != nil {
					return err
				}
				defer later(config.Upstream)
			}
			r, err := vpa.New(config)
			if err != nil {
				return err
			}
			defer later(r)
			var total vpa.Report
			if listen != "" {
				h, err := serveHealth(listen, r)
				if err != nil {
					return err
				}
				defer later(h)
			}
			if once {
				if total, err = r.Step(ctx); err != nil {
					return err
				}
			} else if err := runRecommender(ctx, r, elect, leaseNamespace, interval, &total); err != nil {
				return err
			}
			return cli.Printf(cmd, total, "%d autoscalers: %d recommendations, %d written, %d pods evicted, %d resized\n",
				total.Autoscalers, total.Recommended, total.Written, total.Evicted, total.Resized)
		},
	}
	c.add(cmd)
	f := cmd.Flags()
	f.DurationVar(&interval, "interval", time.Minute, "time between steps; a model's steps are minutes unless its option interval_s differs")
	f.BoolVar(&c.upstream.Updater, "updater", false, "run upstream's updater: it resizes and evicts pods, and ends startup boosts")
	f.BoolVar(&c.upstream.Admission, "admission", false, "run upstream's admission controller: new pods get the target and their startup boost, by a webhook on loopback; the API server must call webhooks")
	f.BoolVar(&metrics, "metrics", false, "serve metrics.k8s.io with the usage in the pods' annotations; without it, another server must")
	storage.add(cmd)
	f.BoolVar(&once, "once", false, "make one pass and exit")
	f.IntVar(&c.upstream.MinReplicas, "min-replicas", 2, "minimum live pods for --updater to act on a controller; default of autoscalers without a value")
	f.StringVar(&c.upstream.Namespace, "namespace", "", "namespace of the autoscalers (default: all)")
	f.BoolVar(&elect, "leader-elect", false, "recommend only while holding the lease vpa-recommender-NAME")
	f.StringVar(&leaseNamespace, "leader-elect-resource-namespace", metav1.NamespaceSystem, "namespace of the lease")
	f.StringVar(&listen, "listen", "", "address of /livez and /readyz, such as 127.0.0.1:8942 (default: none)")
	cmd.MarkFlagsMutuallyExclusive("once", "leader-elect")
	cmd.AddCommand(newKwokVPADemo())
	return cmd
}
