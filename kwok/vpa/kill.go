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

// Kill lets the first container of a simulated pod be killed for memory, and start again, as kubelet
// reports it: one more restart, and the end of the last run with its reason. At is when it was
// killed; it had run since its last kill or, before any, for ran.
func Kill(ctx context.Context, client kubernetes.Interface, namespace, pod string, at time.Time, ran time.Duration) error {
	p, err := client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(p.Status.ContainerStatuses) == 0 {
		return fmt.Errorf("vpa: pod %s/%s has no container that runs", namespace, pod)
	}
	s := p.Status.ContainerStatuses[0]
	began := metav1.NewTime(at.Add(-ran))
	if last := s.LastTerminationState.Terminated; last != nil {
		began = last.FinishedAt
	}
	end := metav1.NewTime(at)
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
