package plane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/kwok/scheduler/plugin"
)

// DefaultControllers lists the controllers of kube-controller-manager that run by default: those of workloads,
// and those that clean up. It omits node-lifecycle-controller, because simulated nodes send no heartbeat while
// their clock stands still.
var DefaultControllers = []string{
	"cronjob-controller", "daemonset-controller", "deployment-controller", "disruption-controller",
	"garbage-collector-controller", "job-controller", "namespace-controller", "persistentvolume-binder-controller",
	"pod-garbage-collector-controller", "replicaset-controller", "replicationcontroller-controller", "statefulset-controller", "ttl-after-finished-controller",
}

// runControllerManager starts kube-controller-manager. The channel receives when it has ended.
func runControllerManager(ctx context.Context, kubeconfig string, keys *pki, controllers, extra []string) (<-chan error, error) {
	o, err := kcmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	known, disabled, aliases := kcm.KnownControllers(), kcm.ControllersDisabledByDefault(), kcm.ControllerAliases()
	sets := o.Flags(known, disabled, aliases)
	o.ParsedFlags = &sets
	fs := pflag.NewFlagSet(ControllerManager, pflag.ContinueOnError)
	for _, f := range sets.FlagSets {
		fs.AddFlagSet(f)
	}
	flags := append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--use-service-account-credentials=false", "--kube-api-qps=2000", "--kube-api-burst=4000",
		"--controllers=" + strings.Join(controllers, ","),
		"--service-account-private-key-file=" + keys.accountKey(), "--root-ca-file=" + keys.caCert(),
	}, extra...)
	if err := fs.Parse(flags); err != nil {
		return nil, err
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	c, err := o.Config(ctx, known, disabled, aliases)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- kcm.Run(ctx, c.Complete()) }()
	return done, nil
}

// runScheduler starts kube-scheduler. config is a file with a KubeSchedulerConfiguration, or empty;
// its completed copy goes to dir. The channel receives when the scheduler has ended.
func runScheduler(ctx context.Context, dir, kubeconfig, config string, extra []string) (<-chan error, error) {
	file, err := schedulerConfig(dir, kubeconfig, config)
	if err != nil {
		return nil, err
	}
	o := scheduleroptions.NewOptions()
	fs := pflag.NewFlagSet(Scheduler, pflag.ContinueOnError)
	for _, f := range o.Flags.FlagSets {
		fs.AddFlagSet(f)
	}
	flags := []string{"--config=" + file, "--leader-elect=false", "--secure-port=0", "--authentication-skip-lookup"}
	if err := fs.Parse(append(flags, extra...)); err != nil {
		return nil, err
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	cc, sched, err := scheduler.Setup(ctx, o, scheduler.WithPlugin(plugin.Name, plugin.New))
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- scheduler.Run(ctx, cc, sched) }()
	return done, nil
}

// schedulerConfig writes the user's configuration of the scheduler, or an empty one, with the connection to the
// API server. kube-scheduler ignores its connection flags when it has a configuration file.
func schedulerConfig(dir, kubeconfig, file string) (string, error) {
	conf := map[string]any{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if err := yaml.UnmarshalStrict(text, &conf); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
	}
	conf["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000, "contentType": protobufType}
	text, err := yaml.Marshal(conf)
	if err != nil {
		return "", err
	}
	completed := filepath.Join(dir, "scheduler.yaml")
	return completed, os.WriteFile(completed, text, 0o600)
}
