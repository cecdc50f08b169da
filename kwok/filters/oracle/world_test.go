package oracle

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// world makes random clusters. Few names make many matches.
type world struct{ *rand.Rand }

func pick[T any](w world, of ...T) T { return of[w.IntN(len(of))] }

// some returns each element with a chance of one half.
func some[T any](w world, of ...T) (out []T) {
	for _, v := range of {
		if w.IntN(2) == 0 {
			out = append(out, v)
		}
	}
	return out
}

func (w world) chance(percent int) bool { return w.IntN(100) < percent }

func ref[T any](v T) *T { return &v }

const (
	device = "example.com/device"
	claims = 12
)

// objects are the namespaces, storage classes, claims and volumes that all clusters share.
func (w world) objects() []runtime.Object {
	all := []runtime.Object{
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"}, VolumeBindingMode: ref(storagev1.VolumeBindingImmediate)},
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "later"}, VolumeBindingMode: ref(storagev1.VolumeBindingWaitForFirstConsumer)},
	}
	for _, name := range []string{"red", "green", "blue"} {
		all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"warm": fmt.Sprint(name == "red"), "name": name}}})
	}
	for i := range claims {
		for _, namespace := range []string{"red", "green", "blue"} {
			all = append(all, w.claim(namespace, fmt.Sprintf("claim%d", i))...)
		}
	}
	return all
}

// claim returns a claim, usually with a volume that is bound to it.
func (w world) claim(namespace, name string) []runtime.Object {
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ref(pick(w, "now", "later")), AccessModes: []corev1.PersistentVolumeAccessMode{pick(w, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)},
			VolumeName: namespace + "-" + name,
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pvc.Spec.VolumeName, Labels: map[string]string{}}}
	switch w.IntN(10) {
	case 0: // bound by nobody
		pvc.Spec.VolumeName, pvc.Status.Phase = "", corev1.ClaimPending
		return []runtime.Object{pvc}
	case 1: // the controller of volumes is not done
		return []runtime.Object{pvc, pv}
	case 2:
		pvc.Status.Phase = corev1.ClaimLost
	case 3:
		pvc.DeletionTimestamp, pvc.Finalizers = &metav1.Time{}, []string{"kubernetes.io/pvc-protection"}
	}
	pvc.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
	if w.chance(5) {
		return []runtime.Object{pvc} // and a volume that is gone
	}
	if w.chance(40) {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: pick(w, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{"r1", pick(w, "r2", "r3")}}},
		}}}}
	}
	for _, key := range some(w, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone) {
		pv.Labels[key] = pick(w, "x", "y", "x__y", "x__ z", "x__")
	}
	return []runtime.Object{pvc, pv}
}

// nodes returns 2 to 8 nodes with labels of several domains, some without them, and taints.
func (w world) nodes() []*corev1.Node {
	nodes := make([]*corev1.Node, 2+w.IntN(7))
	for i := range nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{corev1.LabelHostname: fmt.Sprintf("n%d", i)}}}
		if w.chance(85) {
			n.Labels["rack"] = pick(w, "r1", "r2", "r3")
		}
		if w.chance(80) {
			n.Labels[pick(w, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone)] = pick(w, "x", "y", "z")
		}
		if w.chance(30) {
			n.Spec.Taints = []corev1.Taint{{Key: "team", Effect: pick(w, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule)}}
		}
		n.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
			corev1.ResourceEphemeralStorage: resource.MustParse("14Gi"),
		}
		if w.chance(50) {
			n.Status.Allocatable[device] = resource.MustParse("3")
		}
		nodes[i] = n
	}
	return nodes
}

// pod returns a pod whose terms are rare if it is one of many.
func (w world) pod(name, node string, percent int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(w, "red", "red", "green", "blue"), Name: name, UID: types.UID(name), Labels: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main"}}},
	}
	for _, key := range some(w, "app", "tier", "hash") {
		p.Labels[key] = pick(w, "a", "b")
	}
	if node != "" && w.chance(10) {
		p.DeletionTimestamp = &metav1.Time{}
	}
	if w.chance(percent) {
		p.Spec.Affinity = &corev1.Affinity{}
		if w.chance(50) {
			p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: w.terms()}
		}
		if w.chance(60) {
			p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: w.terms()}
		}
	}
	if w.chance(percent) {
		p.Spec.Containers[0].Ports = w.ports()
	}
	if w.chance(percent / 2) {
		p.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: pick(w, nil, ref(corev1.ContainerRestartPolicyAlways)), Ports: w.ports()}}
	}
	if w.chance(percent / 2) {
		p.Spec.Containers[0].Resources.Requests = pick(w,
			corev1.ResourceList{device: resource.MustParse("1")}, corev1.ResourceList{device: resource.MustParse("2")},
			corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("8Gi")})
	}
	if w.chance(percent) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: fmt.Sprintf("claim%d", w.IntN(pick(w, 3, claims+1))), // one is not there
		}}}}
		if w.chance(30) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		}
	}
	return p
}

func (w world) ports() (ports []corev1.ContainerPort) {
	for range 1 + w.IntN(2) {
		ports = append(ports, corev1.ContainerPort{
			HostPort: pick[int32](w, 0, 80, 81), HostIP: pick(w, "", "0.0.0.0", "127.0.0.1", "10.0.0.1"), Protocol: pick(w, "", corev1.ProtocolTCP, corev1.ProtocolUDP),
		})
	}
	return ports
}

func (w world) selector() *metav1.LabelSelector {
	switch w.IntN(8) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{pick(w, "app", "tier"): pick(w, "a", "b")}}
}

func (w world) key() string {
	return pick(w, corev1.LabelHostname, corev1.LabelHostname, "rack", corev1.LabelTopologyZone, "nowhere")
}

func (w world) terms() (terms []corev1.PodAffinityTerm) {
	for range 1 + w.IntN(2) {
		t := corev1.PodAffinityTerm{LabelSelector: w.selector(), TopologyKey: w.key()}
		if w.chance(30) {
			t.Namespaces = some(w, "red", "green")
		}
		switch w.IntN(5) {
		case 0:
			t.NamespaceSelector = &metav1.LabelSelector{}
		case 1:
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"warm": pick(w, "true", "false")}}
		}
		terms = append(terms, t)
	}
	return terms
}

// spread adds topology spread constraints, and what they may honor.
func (w world) spread(p *corev1.Pod) {
	for range pick(w, 0, 1, 1, 2) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: int32(1 + w.IntN(2)), TopologyKey: pick(w, corev1.LabelHostname, "rack", w.key()), LabelSelector: w.selector(), MatchLabelKeys: some(w, "hash"),
			WhenUnsatisfiable: pick(w, corev1.DoNotSchedule, corev1.DoNotSchedule, corev1.ScheduleAnyway),
		}
		if w.chance(30) {
			c.MinDomains = ref(int32(1 + w.IntN(4)))
		}
		if w.chance(40) {
			c.NodeAffinityPolicy = ref(pick(w, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
		}
		if w.chance(40) {
			c.NodeTaintsPolicy = ref(pick(w, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore))
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
	if w.chance(30) {
		p.Spec.NodeSelector = map[string]string{"rack": pick(w, "r1", "r2")}
	}
	if w.chance(30) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	}
}
