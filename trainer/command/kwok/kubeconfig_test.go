package kwok

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok"
)

// TestKubeconfigForTheHost reads a kubeconfig that names the API server as containers see it, with
// files beside it, and reaches that server with what the command prints, from another folder.
func TestKubeconfigForTheHost(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"major":"1","minor":"36","gitVersion":"v1.36.0"}`))
	}))
	defer server.Close()
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		envstest.Write(t, file, text)
		return file
	}
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	write("ca.crt", ca)
	file := write("kubeconfig", `{apiVersion: v1, kind: Config, current-context: ours,
contexts: [{name: ours, context: {cluster: ours, user: ours}}, {name: other, context: {cluster: other, user: other}}],
clusters: [{name: ours, cluster: {server: "https://controlplane:6443", certificate-authority: ca.crt}},
  {name: other, cluster: {server: "https://other:6443"}}],
users: [{name: ours, user: {token: secret}}, {name: other, user: {token: their-secret}}]}`)

	t.Setenv(kwok.KubeconfigVariable, file)
	text := mustExecute(t, "kwok", "kubeconfig", "--server", server.URL)
	if !strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(ca))) || strings.Contains(text, "their-secret") {
		t.Errorf("kwok kubeconfig printed\n%s\nwant the certificate in it, and no other context", text)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if version, err := client.ServerVersion(); err != nil || version.Minor != "36" {
		t.Errorf("the server's version is %v, %v; want 1.36", version, err)
	}
	// Without --server it is the file's.
	if text := mustExecute(t, "kwok", "kubeconfig", "--kubeconfig", file); !strings.Contains(text, "https://controlplane:6443") {
		t.Errorf("kwok kubeconfig printed\n%s\nwant the file's server", text)
	}
	t.Setenv(kwok.KubeconfigVariable, "")
	if _, _, err := execute(t, context.Background(), "kwok", "kubeconfig"); err == nil || !strings.Contains(err.Error(), kwok.KubeconfigVariable) {
		t.Errorf("without a file: %v, want an error that names %s", err, kwok.KubeconfigVariable)
	}
}
