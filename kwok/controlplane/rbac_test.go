package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// TestRBAC: with --authorization=rbac, a service account may do what a role that is bound to it says
// and nothing else, the kubeconfig's user everything, and pods get their account's token.
func TestRBAC(t *testing.T) {
	p := start(t, command(t, "--authorization=rbac"))
	admin := p.client(t)
	ctx := t.Context()
	namespace, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	createNode(t, admin, "node-1")
	pods := admin.CoreV1().Pods(namespace.Name)
	eventually(t, "the namespace has an account, by which a pod is admitted", func(ctx context.Context) (bool, error) {
		_, err := pods.Create(ctx, newPod("with-token", func(p *corev1.Pod) { p.Namespace = namespace.Name }), metav1.CreateOptions{})
		return err == nil, err
	})
	wantAccount(t, admin, namespace.Name, "with-token")

	account := accountClient(t, p, admin, namespace.Name, "default").CoreV1().Pods(namespace.Name)
	if _, err := account.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list pods by an account without a role: %v, want forbidden", err)
	}
	// view is one of the bootstrap roles, which clusterrole-aggregation-controller fills.
	_, err = admin.RbacV1().RoleBindings(namespace.Name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "views"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace.Name, Name: "default"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the account may list pods", func(ctx context.Context) (bool, error) {
		_, err := account.List(ctx, metav1.ListOptions{})
		return err == nil, err
	})
	if err := account.Delete(ctx, "with-token", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete a pod by an account that may view: %v, want forbidden", err)
	}
	if _, err := accountClient(t, p, admin, namespace.Name, "default").CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list pods of another namespace: %v, want forbidden", err)
	}
}

// wantAccount sees that a pod has what a kubelet would mount: token, authority and namespace.
func wantAccount(t *testing.T, c kubernetes.Interface, namespace, name string) {
	t.Helper()
	pod, err := c.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var token, authority, mounted bool
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			token = token || s.ServiceAccountToken != nil
			authority = authority || s.ConfigMap != nil && s.ConfigMap.Name == "kube-root-ca.crt"
		}
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		mounted = mounted || m.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount"
	}
	if pod.Spec.ServiceAccountName != "default" || !token || !authority || !mounted {
		t.Errorf("pod of account %q, token %v, authority %v, mounted %v; want default and all of them", pod.Spec.ServiceAccountName, token, authority, mounted)
	}
	eventually(t, "the authority is published", func(ctx context.Context) (bool, error) {
		m, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil && strings.Contains(m.Data["ca.crt"], "BEGIN CERTIFICATE"), err
	})
}

// accountClient returns a client with a token of a service account.
func accountClient(t *testing.T, p *process, admin kubernetes.Interface, namespace, name string) kubernetes.Interface {
	t.Helper()
	token, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rc, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(&rest.Config{Host: rc.Host, TLSClientConfig: rest.TLSClientConfig{CAData: rc.CAData}, BearerToken: token.Status.Token, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestVersion: --version names the components, by which bugs are reported.
func TestVersion(t *testing.T) {
	out, err := command(t, "--version").Output()
	var exit *exec.ExitError
	if err != nil {
		t.Fatalf("%v, %v", err, exit)
	}
	for _, want := range []string{"module: ", "\ncommit: ", "\ngo: go1.", "\nkubernetes: v1.36.3\n", "\netcd: v3.6.8\n", "\nkwok: v0.8.0\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("--version printed\n%s\nwithout %q", out, want)
		}
	}
}
