package vpa

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Kill simulates an OOM kill of the first container of a simulated pod after it had run for ran, and its
// restart, in the form that kubelet reports: one more restart, and the reason and end of the last run. KWOK has
// no stage for that. Upstream's updater acts at once on a container that was killed soon after its start.
func Kill(ctx context.Context, client kubernetes.Interface, namespace, pod string, ran time.Duration) error {
	p, err := client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(p.Status.ContainerStatuses) == 0 {
		return fmt.Errorf("vpa: pod %s/%s has no container that runs", namespace, pod)
	}
	s := p.Status.ContainerStatuses[0]
	now := time.Now()
	began, end := metav1.NewTime(now.Add(-ran)), metav1.NewTime(now)
	s.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "OOMKilled", StartedAt: began, FinishedAt: end, ContainerID: s.ContainerID,
	}}
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: end}}
	s.RestartCount++
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"containerStatuses": []corev1.ContainerStatus{s}}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Pods(namespace).Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "kubernasium"}, "status"); err != nil {
		return fmt.Errorf("vpa: kill the container of pod %s/%s: %w", namespace, pod, err)
	}
	return nil
}
