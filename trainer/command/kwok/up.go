package kwok

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
	"github.com/kubernasium/kubernasium/trainer/apiserver"
	"github.com/kubernasium/kubernasium/trainer/cli"
)

// kwokUp holds the flags of `kwok up`.
type kwokUp struct {
	listen, dataDir, kubeconfig, authorization, context string
	enableCRDs                                          []string
	durable, metrics                                    bool
	nodes                                               kwok.Nodes
	nodeCPU, nodeMemory                                 string
}

func newKwokUp() *cobra.Command {
	var u kwokUp
	cmd := &cobra.Command{
		Use:   "up [-- FLAG...]",
		Short: "Run a control plane with simulated nodes until interrupted",
		Long: `Run a control plane with simulated nodes until interrupted: etcd, kube-apiserver,
kube-scheduler, kube-controller-manager and KWOK's controllers in one process, which ` + "`make controlplane`" + `
builds. Prints where its kubeconfig is and how to use it.

A context is added to the kubeconfig that kubectl uses (KUBECONFIG, or ~/.kube/config) and taken back at
the end; nothing else there is changed, and the current context only where there is none. --context ""
adds none, --kubeconfig FILE writes a file of its own instead.

The state is in memory and goes with the control plane, unless --data-dir is given. What follows
-- is passed to the control plane: see bin/controlplane --help.`,
		Example: `  trainer kwok up
  trainer kwok up --nodes 10 --node-cpu 16 --node-memory 64Gi --node-gpus 8
  trainer kwok up --authorization rbac
  trainer kwok up --enable-crds Logs,ClusterLogs,Exec,ClusterExec    # for kubectl logs and exec
  trainer kwok up --data-dir state --durable
  trainer kwok up -- --components kwok --clock stepped`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := u.complete(cmd); err != nil {
				return err
			}
			return u.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&u.listen, "listen", "127.0.0.1:0", "address of the API server; port 0 selects a free one")
	f.StringVar(&u.dataDir, "data-dir", "", "folder of the state, which is kept and can be reused (default a temporary one in memory)")
	f.BoolVar(&u.durable, "durable", false, "write to the disk at each change; needs --data-dir")
	f.StringVar(&u.kubeconfig, "kubeconfig", "", "file to write for clients, instead of a context (default kubeconfig in the data folder)")
	f.StringVar(&u.context, "context", "kubernasium", "context to add to the kubeconfig that kubectl uses; -2, -3, ... is appended if the name is taken")
	f.StringVar(&u.authorization, "authorization", "always-allow", "always-allow: every client with the token may do everything; rbac: roles decide, and pods get their service account's token")
	f.StringSliceVar(&u.enableCRDs, "enable-crds", nil, "KWOK's kinds that configure kubectl logs, exec, attach and port-forward, such as ClusterLogs; see the control plane's README")
	f.BoolVar(&u.metrics, "metrics", true, "serve metrics.k8s.io for kubectl top, with the usage in the pods' annotations")
	f.IntVar(&u.nodes.Count, "nodes", 0, "simulated nodes to create, node-1 to node-N")
	f.StringVar(&u.nodeCPU, "node-cpu", "8", "CPU of each, such as 8 or 7500m")
	f.StringVar(&u.nodeMemory, "node-memory", "32Gi", "memory of each")
	f.Int64Var(&u.nodes.Pods, "node-pods", 110, "maximum pods of each")
	f.Int64Var(&u.nodes.GPUs, "node-gpus", 0, "GPUs of each, as nvidia.com/gpu")
	return cmd
}

// complete checks the flags.
func (u *kwokUp) complete(cmd *cobra.Command) error {
	if u.nodes.Count < 0 || u.nodes.Pods < 0 || u.nodes.GPUs < 0 {
		return fmt.Errorf("--nodes is %d, --node-pods %d and --node-gpus %d, want none below 0", u.nodes.Count, u.nodes.Pods, u.nodes.GPUs)
	}
	for name, into := range map[string]*resource.Quantity{"node-cpu": &u.nodes.CPU, "node-memory": &u.nodes.Memory} {
		text := cmd.Flag(name).Value.String()
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			return fmt.Errorf("--%s is %q, want a quantity such as 8, 500m or 32Gi", name, text)
		}
		*into = q
	}
	for _, name := range []string{"node-cpu", "node-memory", "node-pods", "node-gpus"} {
		if u.nodes.Count == 0 && cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s needs --nodes", name)
		}
	}
	if u.kubeconfig != "" && u.context != "" && cmd.Flags().Changed("context") {
		return errors.New("--kubeconfig writes a file instead of a context: give only one of --kubeconfig and --context")
	}
	return nil
}

// args returns the control plane's flags.
func (u *kwokUp) args() []string {
	flags := []string{"--listen", u.listen, "--authorization", u.authorization}
	for name, value := range map[string]string{"--data-dir": u.dataDir, "--kubeconfig": u.kubeconfig, "--enable-crds": strings.Join(u.enableCRDs, ",")} {
		if value != "" {
			flags = append(flags, name, value)
		}
	}
	if u.durable {
		flags = append(flags, "--durable")
	}
	return flags
}

// run runs a control plane until the plane or the command's context ends.
func (u *kwokUp) run(cmd *cobra.Command, more []string) (err error) {
	ctx := cmd.Context()
	p, err := apiserver.Start(ctx, launch.Options{Args: append(u.args(), more...), Stderr: cmd.ErrOrStderr()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	up := upReport{Ready: p.Ready, Nodes: u.nodes.Count}
	if err := u.createNodes(ctx, p.Ready); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if u.context != "" && u.kubeconfig == "" {
		c, err := addContext(u.context, p.Kubeconfig)
		if err != nil { // a home folder that is not writable does not prevent the control plane
			fmt.Fprintln(cmd.ErrOrStderr(), "trainer: no context was added to the kubeconfig that kubectl uses:", err)
		} else {
			up.Context = c.name
			defer func() { err = errors.Join(err, c.remove()) }()
		}
	}
	if u.metrics {
		defer u.serveMetrics(ctx, cmd.ErrOrStderr(), p.Kubeconfig)()
	}
	if err := printUp(cmd, up); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-p.Ended():
	}
	return nil
}

// createNodes creates the nodes, and waits until they are ready if KWOK runs.
func (u *kwokUp) createNodes(ctx context.Context, r launch.Ready) error {
	if u.nodes.Count == 0 {
		return nil
	}
	client, err := kwok.Connect(ctx, kwok.Options{Kubeconfig: r.Kubeconfig, AllowRealNodes: true})
	if err != nil {
		return err
	}
	return kwok.CreateNodes(ctx, client, u.nodes, slices.Contains(r.Components, "kwok"))
}

// serveMetrics serves metrics.k8s.io in the background until the returned function is called.
func (u *kwokUp) serveMetrics(ctx context.Context, stderr io.Writer, kubeconfig string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := keepMetrics(ctx, kubeconfig)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(stderr, "trainer: kubectl top will not work:", err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// keepMetrics serves metrics.k8s.io until ctx ends. The registration ends with the control plane.
func keepMetrics(ctx context.Context, kubeconfig string) error {
	rc, err := kwok.RESTConfig(ctx, kwok.Options{Kubeconfig: kubeconfig, AllowRealNodes: true})
	if err != nil {
		return err
	}
	s, err := metricsapi.Start(ctx, metricsapi.Config{REST: rc})
	if err != nil {
		return err
	}
	return errors.Join(s.Keep(ctx), s.Close())
}

// upReport is the JSON of `kwok up`.
type upReport struct {
	launch.Ready
	Context string `json:"context,omitempty"` // in the kubeconfig that kubectl uses
	Nodes   int    `json:"nodes"`             // number of requested nodes
}

// printUp prints how to use the control plane.
func printUp(cmd *cobra.Command, r upReport) error {
	use := "export KUBECONFIG=" + r.Kubeconfig
	if r.Context != "" {
		use += "\n    kubectl config use-context " + r.Context + "    # or this"
	}
	nodes := `kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}'    # a node: one object, no machine`
	if r.Nodes > 0 {
		nodes = "kubectl get nodes"
	}
	return cli.Printf(cmd, r, `Kubernetes %s with KWOK %s, ready after %.1f s: %s

    %s
    %s
    kubectl create deployment web --image=none --replicas=3
    kubectl get pods -o wide

Ctrl-C stops it.
`, r.Versions["kubernetes"], r.Versions["kwok"], r.Seconds, r.URL, use, nodes)
}
