package upstream

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	certutil "k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
	"sigs.k8s.io/jobset/pkg/webhooks"

	"github.com/kubernasium/kubernasium/kwok/freeport"
	"github.com/kubernasium/kubernasium/trainer/submit"
)

var jobSets = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}

// startJobSets starts JobSet's controllers and webhooks, as its command does, until the test's end.
func (c *cluster) startJobSets(t *testing.T) {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, jobset.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := freePort(t)
	ctrl.SetLogger(logr.Discard())
	m, err := ctrl.NewManager(c.rest, ctrl.Options{
		Scheme: s, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: dir}),
	})
	if err == nil {
		err = errors.Join(controllers.SetupJobSetIndexes(t.Context(), m.GetFieldIndexer()), controllers.SetupPodIndexes(t.Context(), m.GetFieldIndexer()))
	}
	if err == nil {
		err = errors.Join(controllers.NewJobSetReconciler(m.GetClient(), s, m.GetEventRecorder("jobset")).SetupWithManager(m),
			controllers.NewPodReconciler(m.GetClient(), s, m.GetEventRecorder("pod")).SetupWithManager(m), webhooks.Setup(m))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the webhooks answer", func() bool { return m.GetWebhookServer().StartedChecker()(nil) == nil })
	for _, configuration := range files(t, "sigs.k8s.io/jobset", "config/components/webhook/manifests.yaml") {
		hooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hooks {
			h := h.(map[string]any)
			path, _, _ := unstructured.NestedString(h, "clientConfig", "service", "path")
			h["clientConfig"] = map[string]any{"url": "https://127.0.0.1:" + strconv.Itoa(port) + path, "caBundle": certificate}
		}
		configuration.Object["webhooks"] = hooks
		resource := map[string]string{"MutatingWebhookConfiguration": "mutatingwebhookconfigurations", "ValidatingWebhookConfiguration": "validatingwebhookconfigurations"}[configuration.GetKind()]
		c.create(t, schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}, configuration)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}

// set returns JobSet "one".
func (c *cluster) set(t *testing.T, ns string) *unstructured.Unstructured {
	t.Helper()
	live, err := c.api.Resource(jobSets).Namespace(ns).Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// testJobSet: JobSet's controller creates the learner's Job when all servers are ready. An evicted learner and an evicted
// server are replaced; the learner's end completes the JobSet and ends the servers.
func testJobSet(t *testing.T, c *cluster) {
	c.volume(t)
	ns := c.namespace(t)
	const file = "name: one\nservers: 2\nbackoffLimit: 0\n"
	c.cordon(t, true)
	applied, notes := c.mustSubmit(t, ns, file)
	if applied.Kind != "JobSet" || !applied.Created || len(notes) != 0 {
		t.Errorf("%+v with notes %q, want a JobSet that was created", applied, notes)
	}
	eventually(t, "two servers wait for a node", func() bool {
		list, err := c.kube.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=server"})
		return err == nil && len(list.Items) == 2
	})
	eventually(t, "JobSet's controller has seen them", func() bool { return replicas(c.set(t, ns), "server", "active") == 1 })
	if _, err := c.kube.BatchV1().Jobs(ns).Get(t.Context(), "one-learner-0", metav1.GetOptions{}); !gone(err) {
		t.Errorf("the learner's Job is there before the servers are ready: %v", err)
	}
	c.cordon(t, false)
	servers := c.run(t, ns, "server", 2)
	for i, p := range servers {
		if want := "one-server-0-" + p.Labels["batch.kubernetes.io/job-completion-index"]; p.Spec.Hostname != want || p.Spec.Subdomain != "one" {
			t.Errorf("server %d is %s.%s, want %s.one, as the learner calls it", i, p.Spec.Hostname, p.Spec.Subdomain, want)
		}
	}
	learner := c.run(t, ns, "learner", 1)[0]
	if args := learner.Spec.Containers[0].Args; args[len(args)-1] != "--resume-newest" {
		t.Errorf("the learner runs %q, want that it resumes", args)
	}
	if applied, _ := c.mustSubmit(t, ns, file); applied.Created || applied.State != "Running" {
		t.Errorf("applied again: %+v, want the JobSet that runs", applied)
	}
	if _, _, err := c.submit(t, ns, "name: one\nservers: 3\nbackoffLimit: 0\n"); !errors.Is(err, submit.ErrOther) {
		t.Errorf("other settings under the same name: %v, want ErrOther", err)
	}
	c.fail(t, learner, true)
	learner = c.replaced(t, ns, "learner", learner.UID)
	c.fail(t, servers[0], true)
	eventually(t, "the server is replaced", func() bool {
		running := c.pods(t, ns, "server")
		return len(running) == 2 && running[0].UID != servers[0].UID && running[1].UID != servers[0].UID
	})
	c.succeed(t, learner)
	eventually(t, "the JobSet completes", func() bool { return condition(c.set(t, ns), "Completed") })
	go c.endDeleted(t.Context(), ns)
	eventually(t, "the servers end", func() bool { return len(c.pods(t, ns, "server")) == 0 })
	if applied, _ := c.mustSubmit(t, ns, file); applied.State != "Complete" {
		t.Errorf("applied after its end: %+v, want that it is complete", applied)
	}
	secret, err := c.kube.CoreV1().Secrets(ns).Get(t.Context(), "one-token", metav1.GetOptions{})
	if err != nil || len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].Kind != "JobSet" || secret.OwnerReferences[0].UID != c.set(t, ns).GetUID() {
		t.Errorf("the token belongs to %v, %v; want the JobSet, with which it is deleted", secret.OwnerReferences, err)
	}
}

// replicas returns a number of the status of a replicated Job.
func replicas(set *unstructured.Unstructured, role, field string) int64 {
	list, _, _ := unstructured.NestedSlice(set.Object, "status", "replicatedJobsStatus")
	for _, r := range list {
		if r, ok := r.(map[string]any); ok && r["name"] == role {
			n, _, _ := unstructured.NestedInt64(r, field)
			return n
		}
	}
	return 0
}

// cordon keeps pods from the node, or lets them go there.
func (c *cluster) cordon(t *testing.T, yes bool) {
	t.Helper()
	patch := map[bool]string{true: `{"spec": {"unschedulable": true}}`, false: `{"spec": {"unschedulable": false}}`}[yes]
	if _, err := c.kube.CoreV1().Nodes().Patch(t.Context(), "node-1", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
