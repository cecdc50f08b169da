package kwok

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubernasium/kubernasium/kwok"
)

func newKwokKubeconfig() *cobra.Command {
	var file, server string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a control plane's kubeconfig with another address",
		Long: `Print a control plane's kubeconfig with another address of its API server. The output contains the
certificates and keys that the kubeconfig names as files, so that it works anywhere. A control plane in
a container has one address for other containers and another for the host:

  docker compose run --rm kubeconfig > kubeconfig`,
		Example: `  trainer kwok kubeconfig --kubeconfig FILE --server https://127.0.0.1:6443 > kubeconfig`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file = cmp.Or(file, os.Getenv(kwok.KubeconfigVariable))
			if file == "" {
				return fmt.Errorf("neither --kubeconfig nor %s names a kubeconfig", kwok.KubeconfigVariable)
			}
			text, err := kubeconfigFor(file, server)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "kubeconfig", "", "file to read (default: that of "+kwok.KubeconfigVariable+")")
	cmd.Flags().StringVar(&server, "server", "", "address of the API server instead of the file's")
	return cmd
}

// kubeconfigFor returns a kubeconfig with the current context of file only, with another server unless that is
// empty, and without references to other files.
func kubeconfigFor(file, server string) ([]byte, error) {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if err := api.MinifyConfig(config); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	if err := api.FlattenConfig(config); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	if cluster == nil {
		return nil, errors.New("kubeconfig: the current context names no cluster")
	}
	if server != "" {
		cluster.Server = server
	}
	return clientcmd.Write(*config)
}
