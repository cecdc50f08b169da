package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
)

// newHealth returns the command that checks whether a running control plane is ready. Images FROM scratch have
// no other program for a health check.
func newHealth() *cobra.Command {
	var kubeconfig, server string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether a running control plane is ready; exit with 1 if not",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rc, err := clientcmd.BuildConfigFromFlags(server, kubeconfig)
			if err != nil {
				return err
			}
			rc.Timeout = timeout
			c, err := discovery.NewDiscoveryClientForConfig(rc)
			if err != nil {
				return err
			}
			if _, err := c.RESTClient().Get().AbsPath("/readyz").DoRaw(cmd.Context()); err != nil {
				return fmt.Errorf("%s: %w", rc.Host, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "file that the control plane wrote")
	f.StringVar(&server, "server", "", "URL of the API server, instead of the kubeconfig's")
	f.DurationVar(&timeout, "timeout", 5*time.Second, "timeout of the check")
	_ = cmd.MarkFlagRequired("kubeconfig") // fails only for an unknown flag
	return cmd
}
