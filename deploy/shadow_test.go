package deploy

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volume creates a volume for the recording's claim: nothing provisions one here. It waits until the volume is
// available: kube-controller-manager leaves a claim that it sees before that for 15 s.
func (c *cluster) volume(t *testing.T) {
	t.Helper()
	v, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "deploy-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.client.CoreV1().PersistentVolumes().Delete(context.Background(), v.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the volume "+v.Name+" is available", func() bool {
		v, err := c.client.CoreV1().PersistentVolumes().Get(t.Context(), v.Name, metav1.GetOptions{})
		return err == nil && v.Status.Phase == corev1.VolumeAvailable
	})
}

// TestShadow: with the arguments, account and rights of the chart, the recorder records the cluster, begins
// again where it was stopped, and is refused nothing; the report compares its recording with a policy.
func TestShadow(t *testing.T) {
	c := openCluster(t)
	c.volume(t)
	ns := c.install(t, "server.enabled=false", "shadow.enabled=true", "shadow.policies={Greedy}")
	recording := func() *program {
		p := c.run(t, ns, "recorder")
		p.eventually(t, "recording", func() bool { return strings.Contains(p.log.String(), "recording to ") })
		return p
	}
	p := recording()
	c.application(t)
	p.stop()
	recording().stop()
	if log := p.log.String(); strings.Contains(log, "forbidden") || !strings.Contains(log, " events in ") {
		t.Errorf("the recorder printed\n%s", log)
	}
	job, err := c.client.BatchV1().CronJobs(ns).Get(t.Context(), "kubernasium-report", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	report := c.start(t, ns, &job.Spec.JobTemplate.Spec.Template.Spec)
	<-report.ended
	// One simulated node; the pods of recorder and application at least.
	for _, want := range []string{": 1 nodes, ", "ppo", "Greedy", "pods placed", "imbalance"} {
		if !strings.Contains(report.log.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, report.log.String())
		}
	}
	if page, err := os.ReadFile(filepath.Join(c.claim(ns, "kubernasium-recorder"), "report.html")); err != nil || !strings.Contains(string(page), "<html") {
		t.Errorf("report.html: %d bytes, %v", len(page), err)
	}
}

// TestShadowRights: the rights of the recorder read and nothing else; each is needed, and named where it is missing.
func TestShadowRights(t *testing.T) {
	c := openCluster(t)
	c.volume(t)
	ns := c.install(t, "server.enabled=false", "shadow.enabled=true")
	for _, role := range c.roles(t, ns, "recorder") {
		for _, r := range role.rights {
			if !slices.Contains([]string{"list", "watch"}, r.verb) {
				t.Errorf("the recorder may %s", r)
			}
		}
	}
	c.wantEachRight(t, ns, "recorder", func(*testing.T) {})
}
