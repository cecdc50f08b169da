package main

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// volume returns a volume of a class, on node-1.
func volume(name, class string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{"storage": resource.MustParse("10Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}}, StorageClassName: class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-1"}}},
			}}}},
		},
	}
}

func claim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("5Gi")}},
		},
	}
}

// waitBound waits until a claim is bound to a volume.
func waitBound(t *testing.T, c kubernetes.Interface, name, want string) {
	t.Helper()
	eventually(t, "claim "+name+" is bound to "+want, func(ctx context.Context) (bool, error) {
		p, err := c.CoreV1().PersistentVolumeClaims("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.ClaimBound && p.Spec.VolumeName == want, err
	})
}

// TestVolumes binds a claim to a static volume, and another that waits for its pod: kube-scheduler
// chooses the volume with the node.
func TestVolumes(t *testing.T) {
	p := start(t, command(t))
	c := p.client(t)
	ctx := t.Context()
	createNode(t, c, "node-1")
	createNode(t, c, "node-2")
	n, err := c.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Labels = map[string]string{"kubernetes.io/hostname": "node-1"}
	if _, err := c.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	if _, err := c.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &waits,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, class := range map[string]string{"static": "", "waiting": "local"} {
		if _, err := c.CoreV1().PersistentVolumes().Create(ctx, volume(name, class), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim(name, class), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitBound(t, c, "static", "static")
	if got, err := c.CoreV1().PersistentVolumeClaims("default").Get(ctx, "waiting", metav1.GetOptions{}); err != nil || got.Status.Phase != corev1.ClaimPending {
		t.Errorf("the claim that waits for its first consumer is %s, %v; want Pending", got.Status.Phase, err)
	}
	create(t, c, newPod("consumer", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "waiting"}}}}
	}))
	if got := waitPhase(t, c, "consumer", corev1.PodRunning); got.Spec.NodeName != "node-1" {
		t.Errorf("the pod runs on %s, want node-1, where its volume is", got.Spec.NodeName)
	}
	waitBound(t, c, "waiting", "waiting")
}
