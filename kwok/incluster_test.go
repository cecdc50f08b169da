package kwok

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// inPod lets inCluster do what it does in a pod into which token and, unless nil, authority are mounted.
func inPod(t *testing.T, url, token string, ca []byte) {
	t.Helper()
	t.Setenv(KubeconfigVariable, "")
	dir := t.TempDir()
	for name, text := range map[string][]byte{"token": []byte(token), "ca.crt": ca} {
		envstest.Write(t, filepath.Join(dir, name), string(text))
	}
	old := inCluster
	t.Cleanup(func() { inCluster = old })
	inCluster = func() (*rest.Config, error) {
		rc := &rest.Config{Host: url, BearerTokenFile: filepath.Join(dir, "token")}
		if ca != nil {
			rc.CAFile = filepath.Join(dir, "ca.crt")
		}
		return rc, nil
	}
}

// TestInCluster: without a kubeconfig, the service account of a pod is used, and shown to the API server.
func TestInCluster(t *testing.T) {
	var shown atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "NodeList", "items": []}`))
	}))
	defer srv.Close()
	inPod(t, srv.URL, "of-the-pod", nil)
	if _, err := Connect(t.Context(), Options{}); err != nil || shown.Load() != "Bearer of-the-pod" {
		t.Errorf("Connect: %v, with %v; want the pod's token", err, shown.Load())
	}
	if rc, err := RESTConfig(t.Context(), Options{}); err != nil || rc.Host != srv.URL {
		t.Errorf("RESTConfig = %v, %v; want that of %s", rc, err, srv.URL)
	}
	inCluster = rest.InClusterConfig
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := Connect(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), KubeconfigVariable) {
		t.Errorf("Connect outside a pod: %v, want what to set", err)
	}
}

// TestServiceAccount connects as a pod of a control plane with roles does: with a token of its service
// account it is refused, and let in once a role is bound.
func TestServiceAccount(t *testing.T) {
	ctx := t.Context()
	plane := kwoktest.Start(t, "--authorization=rbac")
	admin, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	account, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "ours"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inPod(t, admin.Host, token.Status.Token, admin.CAData)
	if _, err := Connect(ctx, Options{}); !apierrors.IsForbidden(err) {
		t.Errorf("Connect without a role: %v, want forbidden", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ours"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kube-scheduler"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "ours"}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the authorizer learns of it by a watch
		if _, err = Connect(ctx, Options{}); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("Connect with the scheduler's role: %v", err)
		}
	}
}
