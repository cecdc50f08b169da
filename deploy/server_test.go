package deploy

import (
	"net/http"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// TestServer: with the arguments and the Secret of the chart, the server plays for a client with the token and
// for no other, answers its probes, and its account may do nothing.
func TestServer(t *testing.T) {
	c := openCluster(t)
	ns := c.install(t, "server.args={--max-envs=3}")
	p := c.run(t, ns, "server")
	p.wantProbes(t)
	secret, err := c.client.CoreV1().Secrets(ns).Get(t.Context(), "kubernasium-server-token", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := string(secret.Data["token"])
	if len(token) < 32 {
		t.Errorf("the drawn token has %d characters, want at least 32", len(token))
	}
	url := "ws://" + p.ports[8765] + wire.Path
	v, err := client.Dial(t.Context(), url, "classic/CartPole-v1", 2, client.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	seed := uint64(1)
	if _, err := v.Reset(t.Context(), envs.VecResetOptions{Seed: &seed}); err != nil {
		t.Fatal(err)
	}
	b, err := v.Step(t.Context(), []float32{0, 1})
	if err != nil || b.Reward[0] != 1 { // CartPole rewards each step with 1
		t.Errorf("Step: %v, rewards %v; want 1", err, b.Reward)
	}
	if _, err := client.Dial(t.Context(), url, "classic/CartPole-v1", 2, client.Options{Token: token}); err == nil {
		t.Error("four environments were made with --max-envs=3 in server.args")
	}
	if _, err := client.Dial(t.Context(), url, "classic/CartPole-v1", 1, client.Options{Token: "wrong"}); err == nil {
		t.Error("a client with a wrong token was served")
	}
	for given, want := range map[string]int{"": http.StatusUnauthorized, token: http.StatusOK} {
		if status, err := p.get("http", 8765, "/metrics", given); err != nil || status != want {
			t.Errorf("/metrics with token %q: %d, %v; want %d", given, status, err, want)
		}
	}
	wantMetrics(t, "server", p.body(t, "http", 8765, "/metrics", token), "")
	for _, b := range c.bindings(t) {
		for _, s := range b.subjects {
			if s.Kind == rbacv1.ServiceAccountKind && s.Namespace == ns {
				t.Errorf("%s binds account %s of an installation with a server only", b.name, s.Name)
			}
		}
	}
}

// TestServerToken: an upgrade keeps the token that was drawn; a Secret of the user's is taken; a value is put
// into the Secret and restarts the pods when it changes.
func TestServerToken(t *testing.T) {
	c := openCluster(t)
	ns := c.install(t)
	token := func() string {
		s, err := c.client.CoreV1().Secrets(ns).Get(t.Context(), "kubernasium-server-token", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(s.Data["token"])
	}
	checksum := func() string {
		d, err := c.client.AppsV1().Deployments(ns).Get(t.Context(), "kubernasium-server", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d.Spec.Template.Annotations["checksum/token"]
	}
	upgrade := func(set ...string) {
		helm(t, append([]string{"upgrade", "kubernasium", chart, "--kubeconfig", c.Kubeconfig, "--namespace", ns}, sets(set)...)...)
	}
	drawn := token()
	upgrade("server.replicas=2")
	if got := token(); got != drawn {
		t.Errorf("the upgrade changed the token from %q to %q", drawn, got)
	}
	upgrade("server.token.value=first")
	first := checksum()
	if got := token(); got != "first" || first == "" {
		t.Errorf("token %q, checksum %q; want the value first and a checksum", got, first)
	}
	upgrade("server.token.value=second")
	if got := checksum(); got == first {
		t.Error("pods do not restart with another token")
	}
	upgrade("server.token.existingSecret=mine")
	d, err := c.client.AppsV1().Deployments(ns).Get(t.Context(), "kubernasium-server", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Spec.Template.Spec.Volumes[0].Secret.SecretName; got != "mine" {
		t.Errorf("the pod mounts Secret %q, want mine", got)
	}
}
