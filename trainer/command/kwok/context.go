package kwok

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	goneTimeout = time.Second           // of the connection that shows whether a control plane on this machine still listens
	contextMark = "kubernasium.io/kwok" // extension of the contexts that `kwok up` creates
)

// A kubeContext is a context that `kwok up` has added to the user's kubeconfig.
type kubeContext struct {
	name   string
	file   string // file to which it was added
	server string // URL of its cluster, which identifies it
	access *clientcmd.PathOptions
}

// addContext adds the cluster, user and context of the file from to the kubeconfig that kubectl uses: the files
// in KUBECONFIG, or ~/.kube/config. It takes the first of the names name, name-2, name-3, ... that is not in
// use; it replaces a context whose control plane no longer exists. If the kubeconfig has no current context,
// this one becomes current. Nothing else changes.
func addContext(name, from string) (*kubeContext, error) {
	ours, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return nil, err
	}
	current := ours.Contexts[ours.CurrentContext]
	if current == nil {
		return nil, fmt.Errorf("%s has no current context", from)
	}
	cluster, user := ours.Clusters[current.Cluster], ours.AuthInfos[current.AuthInfo]
	access := clientcmd.NewDefaultPathOptions()
	theirs, err := access.GetStartingConfig()
	if err != nil {
		return nil, err
	}
	c := &kubeContext{name: name, server: cluster.Server, access: access}
	for i := 2; !free(theirs, c.name); i++ {
		c.name = fmt.Sprintf("%s-%d", name, i)
	}
	// Existing entries are written to the file that they came from, new ones to the default file.
	if old := theirs.Clusters[c.name]; old != nil {
		cluster.LocationOfOrigin = old.LocationOfOrigin
	} else {
		cluster.LocationOfOrigin = ""
	}
	user.LocationOfOrigin = ""
	if old := theirs.AuthInfos[c.name]; old != nil {
		user.LocationOfOrigin = old.LocationOfOrigin
	}
	entry := &clientcmdapi.Context{Cluster: c.name, AuthInfo: c.name, Extensions: map[string]runtime.Object{
		contextMark: &runtime.Unknown{Raw: []byte(`{}`), ContentType: runtime.ContentTypeJSON},
	}}
	if old := theirs.Contexts[c.name]; old != nil {
		entry.LocationOfOrigin = old.LocationOfOrigin
	}
	theirs.Clusters[c.name], theirs.AuthInfos[c.name], theirs.Contexts[c.name] = cluster, user, entry
	theirs.CurrentContext = cmp.Or(theirs.CurrentContext, c.name)
	c.file = cmp.Or(cluster.LocationOfOrigin, access.GetDefaultFilename())
	return c, clientcmd.ModifyConfig(access, *theirs, true)
}

// free reports whether a kubeconfig has no entry with a name, or only one of a control plane on this machine
// that no longer listens.
func free(c *clientcmdapi.Config, name string) bool {
	entry, cluster := c.Contexts[name], c.Clusters[name]
	if entry == nil && cluster == nil && c.AuthInfos[name] == nil {
		return true
	}
	if entry == nil || cluster == nil || entry.Cluster != name || entry.AuthInfo != name || entry.Extensions[contextMark] == nil {
		return false
	}
	u, err := url.Parse(cluster.Server)
	if err != nil {
		return false
	}
	conn, err := net.DialTimeout("tcp", u.Host, goneTimeout)
	if err == nil {
		_ = conn.Close()
	}
	return err != nil
}

// remove removes the context, its cluster and its user, unless another control plane has taken its name.
func (c *kubeContext) remove() error {
	theirs, err := c.access.GetStartingConfig()
	if err != nil {
		return err
	}
	if cluster := theirs.Clusters[c.name]; cluster == nil || cluster.Server != c.server {
		return nil
	}
	delete(theirs.Clusters, c.name)
	delete(theirs.AuthInfos, c.name)
	delete(theirs.Contexts, c.name)
	if theirs.CurrentContext == c.name {
		theirs.CurrentContext = ""
	}
	if err := clientcmd.ModifyConfig(c.access, *theirs, true); err != nil {
		return errors.Join(fmt.Errorf("context %s stays in %s", c.name, c.file), err)
	}
	return nil
}
