package upstream

import (
	"errors"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/trainer/submit"
)

// TestApply: a workload is a Job where the API server has no JobSets, a JobSet where it has, and queued where it has
// Kueue's queues.
func TestApply(t *testing.T) {
	c := start(t)
	t.Run("errors", func(t *testing.T) { testErrors(t, c) })
	t.Run("job", func(t *testing.T) { testJob(t, c) })
	c.install(t, "sigs.k8s.io/jobset", "config/components/crd/bases/*.yaml")
	c.startJobSets(t)
	t.Run("jobset", func(t *testing.T) { testJobSet(t, c) })
	c.install(t, "sigs.k8s.io/kueue", "config/components/crd/bases/*queues.yaml")
	t.Run("queue", func(t *testing.T) { testQueue(t, c) })
}

// testErrors: what a cluster lacks is named.
func testErrors(t *testing.T, c *cluster) {
	ns := c.namespace(t)
	for _, tc := range []struct {
		name, file string
		want       error
		text       string
	}{
		{"JobSets", "kind: jobset", submit.ErrNoJobSets, "does not serve jobset.x-k8s.io/v1alpha2"},
		{"Kueue", "queue: q", submit.ErrQueue, "the cluster has no Kueue"},
		{"namespace", "namespace: nowhere", submit.ErrNoNamespace, "kubectl create namespace nowhere"},
		{"claim", "volume: {claim: mine}", submit.ErrNoClaim, "mine in namespace " + ns},
	} {
		if _, _, err := c.submit(t, ns, tc.file); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want an error of %v with %q", tc.name, err, tc.want, tc.text)
		}
	}
}

// testJob: servers are sidecars of the learner. An evicted pod is replaced and does not count, a failure does; the learner's
// end completes the Job. The token stays when the same workload is applied again, and the claim when it is deleted.
func testJob(t *testing.T, c *cluster) {
	c.volume(t)
	ns := c.namespace(t)
	const file = "name: one\nservers: 2\nbackoffLimit: 1\n"
	applied, notes := c.mustSubmit(t, ns, file)
	if applied.Kind != "Job" || !applied.Created || !slices.Contains(notes, "the cluster has no JobSets: a Job runs learner and servers in one pod") {
		t.Errorf("%+v with notes %q, want a Job that was created, and why", applied, notes)
	}
	pod := c.run(t, ns, "learner", 1)[0]
	var order []string
	for _, s := range pod.Spec.InitContainers {
		if *s.RestartPolicy != "Always" || s.StartupProbe.HTTPGet.Path != "/readyz" {
			t.Errorf("container %s restarts %s and starts by %v, want a sidecar that is ready by /readyz", s.Name, *s.RestartPolicy, s.StartupProbe)
		}
		order = append(order, s.Name)
	}
	if !slices.Equal(order, []string{"server-0", "server-1"}) {
		t.Errorf("sidecars %v, want two servers", order)
	}
	token := c.token(t, ns, "one-token")
	if applied, _ := c.mustSubmit(t, ns, file); applied.Created || applied.State != "Running" || c.token(t, ns, "one-token") != token {
		t.Errorf("applied again: %+v with another token %t, want the Job that runs with its token", applied, c.token(t, ns, "one-token") != token)
	}
	if _, _, err := c.submit(t, ns, file+"terminationGracePeriodSeconds: 5\n"); !errors.Is(err, submit.ErrOther) {
		t.Errorf("other settings under the same name: %v, want ErrOther", err)
	}
	c.fail(t, pod, true)
	pod = c.replaced(t, ns, "learner", pod.UID)
	if job := c.job(t, ns, "one"); job.Status.Failed != 0 {
		t.Errorf("%d failures after an eviction, want none", job.Status.Failed)
	}
	c.fail(t, pod, false)
	pod = c.replaced(t, ns, "learner", pod.UID)
	if job := c.job(t, ns, "one"); job.Status.Failed != 1 {
		t.Errorf("%d failures after one, want it counted", job.Status.Failed)
	}
	c.succeed(t, pod)
	eventually(t, "the Job completes", func() bool {
		return slices.ContainsFunc(c.job(t, ns, "one").Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobComplete && c.Status == "True" })
	})
	if applied, _ := c.mustSubmit(t, ns, file); applied.State != "Complete" {
		t.Errorf("applied after its end: %+v, want that it is complete", applied)
	}
	c.deleteJob(t, ns)
	if applied, _ := c.mustSubmit(t, ns, file); !applied.Created || c.token(t, ns, "one-token") == token {
		t.Errorf("applied after it was deleted: %+v with the same token %t, want another one", applied, c.token(t, ns, "one-token") == token)
	}
}

// deleteJob deletes Job "one": its files and token go, and its claim stays.
func (c *cluster) deleteJob(t *testing.T, ns string) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	if err := c.kube.BatchV1().Jobs(ns).Delete(t.Context(), "one", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "token and files are gone", func() bool {
		_, token := c.kube.CoreV1().Secrets(ns).Get(t.Context(), "one-token", metav1.GetOptions{})
		_, conf := c.kube.CoreV1().ConfigMaps(ns).Get(t.Context(), "one-conf", metav1.GetOptions{})
		return gone(token) && gone(conf)
	})
	if _, err := c.kube.CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), "one-logs", metav1.GetOptions{}); err != nil {
		t.Errorf("the claim did not outlive the workload: %v", err)
	}
}

func (c *cluster) token(t *testing.T, ns, name string) string {
	t.Helper()
	s, err := c.kube.CoreV1().Secrets(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Data["token"]) < 20 {
		t.Fatalf("token %q, want at least 20 characters", s.Data["token"])
	}
	return string(s.Data["token"])
}

func (c *cluster) job(t *testing.T, ns, name string) *batchv1.Job {
	t.Helper()
	j, err := c.kube.BatchV1().Jobs(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}
