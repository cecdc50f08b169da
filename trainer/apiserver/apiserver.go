// Package apiserver connects commands to a Kubernetes API server: one that flags select, or a control plane
// that the commands start.
package apiserver

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/launch"
	"github.com/kubernasium/kubernasium/kwok/stages"
)

// Flags adds the flags that select a control plane.
func Flags(cmd *cobra.Command, o *kwok.Options) {
	cmd.Flags().StringVar(&o.Kubeconfig, "kubeconfig", "", "how to reach the control plane (default: that of "+kwok.KubeconfigVariable+", or in a pod its service account)")
	cmd.Flags().BoolVar(&o.AllowRealNodes, "allow-real-nodes", false, "use a control plane with nodes that KWOK does not manage")
}

// Start starts a control plane with the stages of package stages, unless the options name others.
func Start(ctx context.Context, o launch.Options) (*launch.ControlPlane, error) {
	if slices.ContainsFunc(o.Args, func(a string) bool { return strings.HasPrefix(a, "--stages") }) {
		return launch.Start(ctx, o)
	}
	dir, err := os.MkdirTemp("", "kubernasium-stages")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // the control plane reads them at its start
	files, err := stages.Write(dir)
	if err != nil {
		return nil, err
	}
	o.Args = append([]string{"--stages", strings.Join(files, ",")}, o.Args...)
	return launch.Start(ctx, o)
}
