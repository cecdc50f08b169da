package kwok

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubernasium/kubernasium/envs/envstest"
)

// kubeconfigText is a user's own file, as kubectl writes it: with a relative path, an extension and a context
// of the name that ours would take.
const kubeconfigText = `apiVersion: v1
clusters:
- cluster:
    server: https://127.0.0.1:1
  name: mine
- cluster:
    certificate-authority: ca.crt
    extensions:
    - extension:
        provider: someone
      name: cluster_info
    server: https://prod.example.com
  name: prod
contexts:
- context:
    cluster: mine
    user: mine
  name: mine
- context:
    cluster: prod
    namespace: web
    user: prod
  name: prod
current-context: prod
kind: Config
users:
- name: mine
  user: {}
- name: prod
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      args: null
      command: login
      env: null
      interactiveMode: IfAvailable
      provideClusterInfo: false
`

// planeFile writes the kubeconfig of a control plane at a URL.
func planeFile(t *testing.T, url string) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["k"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: []byte("ca")}
	c.AuthInfos["k"] = &clientcmdapi.AuthInfo{Token: "secret"}
	c.Contexts["k"] = &clientcmdapi.Context{Cluster: "k", AuthInfo: "k"}
	c.CurrentContext = "k"
	file := filepath.Join(t.TempDir(), "plane")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// listening returns the URL of something that listens until the test ends or close is called.
func listening(t *testing.T) (url string, close func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "https://" + l.Addr().String(), func() { _ = l.Close() }
}

func loadContext(t *testing.T, file, name string) (server, token string) {
	t.Helper()
	c, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if c.Contexts[name] == nil {
		return "", ""
	}
	return c.Clusters[c.Contexts[name].Cluster].Server, c.AuthInfos[c.Contexts[name].AuthInfo].Token
}

// TestContextKeepsOthers adds contexts to a user's file and takes them back: the file is then what it was.
func TestContextKeepsOthers(t *testing.T) {
	file := envstest.TempFile(t, "config", kubeconfigText)
	t.Setenv("KUBECONFIG", file)
	url, gone := listening(t)
	first, err := addContext("mine", planeFile(t, url)) // "mine" is the user's, though nothing listens there
	if err != nil {
		t.Fatal(err)
	}
	if first.name != "mine-2" || first.file != file {
		t.Errorf("the context is %s of %s, want mine-2 of %s", first.name, first.file, file)
	}
	if server, token := loadContext(t, file, "mine-2"); server != url || token != "secret" {
		t.Errorf("mine-2 names %q with token %q, want %s and the control plane's", server, token, url)
	}
	if c, err := clientcmd.LoadFromFile(file); err != nil || c.CurrentContext != "prod" {
		t.Errorf("the current context is %q, %v; want prod, as before", c.CurrentContext, err)
	}
	otherURL, _ := listening(t)
	second, err := addContext("mine", planeFile(t, otherURL)) // beside one that runs
	if err != nil || second.name != "mine-3" {
		t.Fatalf("addContext = %+v, %v; want mine-3", second, err)
	}
	gone()
	thirdURL, _ := listening(t)
	third, err := addContext("mine", planeFile(t, thirdURL)) // in place of one that was killed
	if err != nil || third.name != "mine-2" {
		t.Fatalf("addContext = %+v, %v; want mine-2, which was left", third, err)
	}
	if err := first.remove(); err != nil { // it has another's name by now
		t.Fatal(err)
	}
	if server, _ := loadContext(t, file, "mine-2"); server != thirdURL {
		t.Errorf("mine-2 names %q after the end of another control plane, want %s", server, thirdURL)
	}
	for _, c := range []*kubeContext{second, third} {
		if err := c.remove(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(kubeconfigText, envstest.Read(t, file)); diff != "" {
		t.Errorf("the user's file has changed (-before +after)\n%s", diff)
	}
}

// TestContextOfNone: without a kubeconfig one is made, of which ours is the current context; of
// several files, those that have nothing of ours stay as they are.
func TestContextOfNone(t *testing.T) {
	url, _ := listening(t)
	dir := t.TempDir()
	theirs, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "deep", "config")
	t.Setenv("KUBECONFIG", ours)
	c, err := addContext("kubernasium", planeFile(t, url))
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(ours)
	if err != nil || config.CurrentContext != "kubernasium" {
		t.Fatalf("the current context is %q, %v; want kubernasium", config.CurrentContext, err)
	}
	if info, err := os.Stat(ours); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v, want 0600: it holds the token", err, info.Mode())
	}
	if err := c.remove(); err != nil {
		t.Fatal(err)
	}
	if config, err = clientcmd.LoadFromFile(ours); err != nil || config.CurrentContext != "" || len(config.Contexts)+len(config.Clusters)+len(config.AuthInfos) != 0 {
		t.Errorf("after the end: %+v, %v; want nothing", config, err)
	}
	envstest.Write(t, theirs, kubeconfigText)
	t.Setenv("KUBECONFIG", strings.Join([]string{theirs, ours}, string(filepath.ListSeparator)))
	if c, err = addContext("kubernasium", planeFile(t, url)); err != nil {
		t.Fatal(err)
	}
	if err := c.remove(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(theirs); err != nil || string(text) != kubeconfigText {
		t.Errorf("%v; the user's file has changed:\n%s", err, cmp.Diff(kubeconfigText, string(text)))
	}
}
