package kwok

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// documentedRole returns the ClusterRole that docs/cluster-trace.md has for recorders.
func documentedRole(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	text := envstest.Read(t, "../../../docs/cluster-trace.md")
	_, after, found := strings.Cut(text, "    apiVersion: rbac.authorization.k8s.io/v1\n")
	block, _, ends := strings.Cut(after, "\n\n")
	if !found || !ends {
		t.Fatal("docs/cluster-trace.md has no role")
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll("    apiVersion: rbac.authorization.k8s.io/v1\n"+block, "\n    ", "\n")[4:]), role); err != nil {
		t.Fatal(err)
	}
	return role
}

// TestKwokShadowRights: the documented role is enough for a shadow, grants reading alone, and a resource that it
// lacks is named.
func TestKwokShadowRights(t *testing.T) {
	role := documentedRole(t)
	var resources []string
	for _, r := range role.Rules {
		resources = append(resources, r.Resources...)
		if !slices.Equal(r.Verbs, []string{"list", "watch"}) {
			t.Errorf("verbs %v of %v, want list and watch alone", r.Verbs, r.Resources)
		}
	}
	plane := kwoktest.Start(t, "--authorization=rbac")
	mustExecute(t, "kwok", "runsim", "--scheduler_name", "default-scheduler", "--interval", "0s", "--node_count", "2", "--cluster_resets", "1", "--cpu_load", "0.1", "--mem_load", "0.1", "--pod_load", "0.1", "--kubeconfig", plane.Kubeconfig)
	client, kubeconfig := accountOf(t, plane.Kubeconfig)
	ctx := t.Context()
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	shadow := func() error {
		file := filepath.Join(t.TempDir(), "cluster.jsonl")
		_, _, err := execute(t, ctx, "kwok", "shadow", "--record", file, "--policy", "Greedy", "--for", "1s", "--kubeconfig", kubeconfig)
		return err
	}
	within(t, "the role is not enough", func() bool { return shadow() == nil })
	for _, name := range resources {
		fewer := role.DeepCopy()
		for i := range fewer.Rules {
			fewer.Rules[i].Resources = slices.DeleteFunc(fewer.Rules[i].Resources, func(r string) bool { return r == name })
		}
		fewer.Rules = slices.DeleteFunc(fewer.Rules, func(r rbacv1.PolicyRule) bool { return len(r.Resources) == 0 })
		if _, err := client.RbacV1().ClusterRoles().Update(ctx, fewer, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		within(t, "no error names "+name, func() bool {
			err := shadow()
			return err != nil && strings.Contains(err.Error(), name)
		})
	}
}

// within waits until the authorizer, which learns of roles by a watch, has led to what is to be.
func within(t *testing.T, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !met(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// accountOf returns an administrator's client, and a kubeconfig of a service account to which the role kubernasium-record
// is bound.
func accountOf(t *testing.T, admin string) (kubernetes.Interface, string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(admin)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "shadow"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "shadow", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "shadow"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kubernasium-record"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "shadow"}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{"shadow": {Token: token.Status.Token}}
	for _, c := range config.Contexts {
		c.AuthInfo = "shadow"
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return client, path
}
