package deploy

import (
	"os"
	"path/filepath"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// job returns the training's only Job.
func (c *cluster) job(t *testing.T, ns string) *batchv1.Job {
	t.Helper()
	jobs, err := c.client.BatchV1().Jobs(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=training"})
	if err != nil || len(jobs.Items) != 1 {
		t.Fatalf("%d Jobs, %v; want 1", len(jobs.Items), err)
	}
	return &jobs.Items[0]
}

// TestTraining: a pod that is evicted in mid-training saves a checkpoint on the volume, and the one in its place resumes
// from there to the end. Evictions do not count as failures.
func TestTraining(t *testing.T) {
	c := openCluster(t)
	c.volume(t)
	ns := c.install(t, "server.enabled=false", "training.enabled=true",
		`training.args={--algo=ppo,--env=classic/CartPole-v1,--n-timesteps=200000,--eval-freq=0,--save-freq=20000,--seed=1}`)
	job := c.job(t, ns)
	rules := job.Spec.PodFailurePolicy.Rules
	if len(rules) != 1 || rules[0].Action != batchv1.PodFailurePolicyActionIgnore || rules[0].OnPodConditions[0].Type != corev1.DisruptionTarget {
		t.Errorf("failure policy %v, want evictions ignored", rules)
	}
	pod := &job.Spec.Template.Spec
	first := c.start(t, ns, pod)
	folder := filepath.Join(c.claim(ns, "kubernasium-training"), "ppo", "classic-CartPole-v1_1")
	checkpoints := func() []string {
		found, err := filepath.Glob(filepath.Join(folder, "rl_model_*_steps.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first.eventually(t, "a checkpoint", func() bool { return len(checkpoints()) > 0 })
	first.stop() // as the kubelet does when a pod is evicted
	final := filepath.Join(folder, "classic-CartPole-v1.safetensors")
	if _, err := os.Stat(final); err == nil {
		t.Fatalf("the training was over before the eviction:\n%s", first.log.String())
	}
	saved := len(checkpoints())
	second := c.start(t, ns, pod)
	<-second.ended
	if code := second.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("the pod in its place ended with %d", code)
	}
	folders, err := filepath.Glob(filepath.Join(filepath.Dir(folder), "*"))
	if err != nil || len(folders) != 1 {
		t.Errorf("trainings %v, %v; want one, which was resumed", folders, err)
	}
	if _, err := os.Stat(final); err != nil || len(checkpoints()) <= saved {
		t.Errorf("%d checkpoints after the eviction and %d at the end, %v; want more, and a model", saved, len(checkpoints()), err)
	}
}

// TestTrainingUpgrade: other arguments are another Job, since a Job cannot be changed, on the same volume, which stays
// after the release.
func TestTrainingUpgrade(t *testing.T) {
	c := openCluster(t)
	c.volume(t)
	ns := c.install(t, "server.enabled=false", "training.enabled=true")
	before := c.job(t, ns)
	helm(t, "upgrade", "kubernasium", chart, "--kubeconfig", c.Kubeconfig, "--namespace", ns, "--reuse-values", "--set", "training.args={--algo=dqn}")
	after := c.job(t, ns)
	if before.Name == after.Name || after.Spec.Template.Spec.Containers[0].Args[1] != "--algo=dqn" {
		t.Errorf("Job %s with %q after the upgrade, want another one than %s", after.Name, after.Spec.Template.Spec.Containers[0].Args, before.Name)
	}
	helm(t, "uninstall", "kubernasium", "--kubeconfig", c.Kubeconfig, "--namespace", ns)
	if _, err := c.client.CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), "kubernasium-training", metav1.GetOptions{}); err != nil {
		t.Errorf("the volume with the models does not outlive the release: %v", err)
	}
}
