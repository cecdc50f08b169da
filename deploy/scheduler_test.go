package deploy

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod creates a pod for our scheduler, which requests so much CPU.
func (c *cluster) pod(t *testing.T, ns, name, cpu, class string) {
	t.Helper()
	yes, no, user := true, false, int64(1000)
	if _, err := c.client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		SchedulerName: "kubernasium", PriorityClassName: class,
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "any", Image: "none",
			Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// bound reports whether a pod has a node.
func (c *cluster) bound(t *testing.T, ns, name string) bool {
	t.Helper()
	p, err := c.client.CoreV1().Pods(ns).Get(t.Context(), name, metav1.GetOptions{})
	return err == nil && p.Spec.NodeName != ""
}

// TestScheduler: with the configuration, account and rights of the chart, the scheduler places pods by the
// pretrained model, preempts without the right to evict, holds its own lease, guards its metrics, and is refused nothing.
func TestScheduler(t *testing.T) {
	c := openCluster(t)
	class, err := c.client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "deploy-high"}, Value: 1000}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.client.SchedulingV1().PriorityClasses().Delete(context.Background(), class.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	ns := c.install(t, "server.enabled=false", "scheduler.enabled=true")
	p := c.run(t, ns, "scheduler")
	p.wantProbes(t)
	pods := c.namespace(t)
	c.pod(t, pods, "low", "40", "") // of a node's 64
	p.eventually(t, "the pod is bound", func() bool { return c.bound(t, pods, "low") })
	c.pod(t, pods, "high", "40", class.Name)
	p.eventually(t, "the pod of high priority is bound", func() bool { return c.bound(t, pods, "high") })
	if _, err := c.client.CoreV1().Pods(pods).Get(t.Context(), "low", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod of low priority: %v, want it preempted", err)
	}
	lease, err := c.client.CoordinationV1().Leases(ns).Get(t.Context(), "kubernasium-scheduler", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("lease %v, %v; want one that is held", lease, err)
	}
	for token, want := range map[string]int{"": http.StatusForbidden, c.rest.BearerToken: http.StatusOK} {
		if status, err := p.get("https", 10259, "/metrics", token); err != nil || status != want {
			t.Errorf("/metrics: %d, %v; want %d", status, err, want)
		}
	}
	plugin, err := os.ReadFile("../kwok/scheduler/plugin/metrics.go") // which are served once they count something
	if err != nil {
		t.Fatal(err)
	}
	wantMetrics(t, "scheduler", p.body(t, "https", 10259, "/metrics", c.rest.BearerToken), string(plugin))
	p.stop()
	if log := p.log.String(); strings.Contains(log, "forbidden") {
		t.Errorf("something was refused:\n%s", log)
	}
}

// TestSchedulerRights: the rights on the lease and each binding are needed, and named where they are missing.
func TestSchedulerRights(t *testing.T) {
	c := openCluster(t)
	ns := c.install(t, "server.enabled=false", "scheduler.enabled=true")
	c.wantEachRight(t, ns, "scheduler", func(t *testing.T) {
		err := c.client.CoordinationV1().Leases(ns).Delete(t.Context(), "kubernasium-scheduler", metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	})
	account := "system:serviceaccount:" + ns + ":kubernasium-scheduler"
	wide, of := c.client.RbacV1().ClusterRoleBindings(), c.client.RbacV1().RoleBindings("kube-system")
	for binding, lost := range map[string]right{
		"kube-scheduler":        {"", "nodes", "list", ""},
		"volume-scheduler":      {"storage.k8s.io", "storageclasses", "list", ""},
		"authentication-reader": {"", "configmaps", "get", "extension-apiserver-authentication"},
	} {
		t.Run("binding "+binding, func(t *testing.T) {
			name := ns + "-kubernasium-scheduler-" + binding
			var restore func() error
			if binding == "authentication-reader" {
				old, err := of.Get(t.Context(), name, metav1.GetOptions{})
				if err == nil {
					err = of.Delete(t.Context(), name, metav1.DeleteOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
				restore = func() error {
					_, err := of.Create(context.Background(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: old.Labels, Annotations: old.Annotations}, RoleRef: old.RoleRef, Subjects: old.Subjects}, metav1.CreateOptions{})
					return err
				}
			} else {
				old, err := wide.Get(t.Context(), name, metav1.GetOptions{})
				if err == nil {
					err = wide.Delete(t.Context(), name, metav1.DeleteOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
				restore = func() error {
					_, err := wide.Create(context.Background(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: old.Labels, Annotations: old.Annotations}, RoleRef: old.RoleRef, Subjects: old.Subjects}, metav1.CreateOptions{})
					return err
				}
			}
			defer func() {
				if err := restore(); err != nil {
					t.Error(err)
				}
			}()
			eventually(t, "the right is gone", func() bool { return !c.may(t, account, "kube-system", lost) })
			p := c.run(t, ns, "scheduler")
			eventually(t, "the log has "+lost.refusal(), func() bool {
				return strings.Contains(strings.ReplaceAll(p.log.String(), `\"`, `"`), lost.refusal())
			})
		})
	}
}
