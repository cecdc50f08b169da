package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

func newKwokUp() *cobra.Command {
	var listen, dataDir, kubeconfig string
	var durable bool
	cmd := &cobra.Command{
		Use:   "up [-- FLAG...]",
		Short: "Run a control plane with simulated nodes until interrupted",
		Long: `Run a control plane with simulated nodes until interrupted: etcd, kube-apiserver,
kube-scheduler, kube-controller-manager and KWOK's controllers in one process, which ` + "`make controlplane`" + `
builds. Prints where its kubeconfig is and how to use it.

The state is in memory and goes with the control plane, unless --data-dir is given. What follows
-- is passed to the control plane: see bin/controlplane --help.`,
		Example: `  trainer kwok up
  trainer kwok up --data-dir state --durable
  trainer kwok up -- --components kwok --clock stepped`,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := []string{"--listen", listen}
			if dataDir != "" {
				flags = append(flags, "--data-dir", dataDir)
			}
			if durable {
				flags = append(flags, "--durable")
			}
			if kubeconfig != "" {
				flags = append(flags, "--kubeconfig", kubeconfig)
			}
			p, err := startControlPlane(cmd.Context(), launch.Options{Args: append(flags, args...), Stderr: cmd.ErrOrStderr()})
			if err != nil {
				return err
			}
			if err := printUp(cmd, p.Ready); err != nil {
				return err
			}
			select {
			case <-cmd.Context().Done():
			case <-p.Ended():
			}
			return p.Stop()
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:0", "address of the API server; port 0 takes a free one")
	f.StringVar(&dataDir, "data-dir", "", "folder of the state, which stays and may be used again (default a temporary one in memory)")
	f.BoolVar(&durable, "durable", false, "write to the disk at each change; needs --data-dir")
	f.StringVar(&kubeconfig, "kubeconfig", "", "file to write for clients (default kubeconfig in the data folder)")
	return cmd
}

// startControlPlane starts a control plane with our stages, unless the options name others.
func startControlPlane(ctx context.Context, o launch.Options) (*launch.ControlPlane, error) {
	if slices.ContainsFunc(o.Args, func(a string) bool { return strings.HasPrefix(a, "--stages") }) {
		return launch.Start(ctx, o)
	}
	dir, err := os.MkdirTemp("", "kubernasium-stages")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // they are read at the start
	files, err := stages.Write(dir)
	if err != nil {
		return nil, err
	}
	o.Args = append([]string{"--stages", strings.Join(files, ",")}, o.Args...)
	return launch.Start(ctx, o)
}

// printUp tells how to use the control plane.
func printUp(cmd *cobra.Command, r launch.Ready) error {
	if wantJSON(cmd) {
		return printJSON(cmd, r)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), `Kubernetes %[1]s with KWOK %[2]s, ready after %.1[3]f s: %[4]s

    export KUBECONFIG=%[5]s
    kubectl get namespaces
    kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}'    # a node: one object, no machine
    kubectl create deployment web --image=none --replicas=3
    kubectl get pods -o wide

Ctrl-C stops it.
`, r.Versions["kubernetes"], r.Versions["kwok"], r.Seconds, r.URL, r.Kubeconfig)
	return err
}
