package plane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName names the cluster, the user and the context in our kubeconfigs.
const contextName = "kubernasium"

// writeKubeconfig writes the client configuration. Only its owner can read it, because it holds the token.
func writeKubeconfig(file, url string, keys *pki) error {
	c := clientcmdapi.NewConfig()
	c.Clusters[contextName] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: keys.ca}
	c.AuthInfos[contextName] = &clientcmdapi.AuthInfo{Token: keys.token}
	c.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName}
	c.CurrentContext = contextName
	text, err := clientcmd.Write(*c)
	if err != nil {
		return err
	}
	// Renaming a file lets readers see either the old or the new one, with our mode.
	next := file + ".new"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// checkOurs returns an error if file is a kubeconfig that names clusters other than ours.
func checkOurs(file string) error {
	c, err := clientcmd.LoadFromFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("%s is no kubeconfig; give the name of a new file: %w", file, err)
	}
	for name := range c.Clusters {
		if name != contextName {
			return fmt.Errorf("%s has the cluster %q and would be overwritten; give the name of a new file", file, name)
		}
	}
	return nil
}
