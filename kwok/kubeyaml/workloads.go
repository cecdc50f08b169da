package kubeyaml

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Workloads holds objects that create pods.
type Workloads struct {
	Deployments            []appsv1.Deployment
	ReplicaSets            []appsv1.ReplicaSet
	ReplicationControllers []corev1.ReplicationController
	StatefulSets           []appsv1.StatefulSet
	Jobs                   []batchv1.Job
	CronJobs               []batchv1.CronJob
	DaemonSets             []appsv1.DaemonSet
}

// Annotations that name a pod's workload, as Alibaba's open-simulator (Simon) writes them.
const (
	AnnotationWorkloadKind      = "simon/workload-kind"
	AnnotationWorkloadName      = "simon/workload-name"
	AnnotationWorkloadNamespace = "simon/workload-namespace"
)

// Lengths of the hashes in UIDs and in the names of pods and of workloads that workloads create.
const (
	workloadDigits = 10
	podDigits      = 5
	uidDigits      = 32
)

// maxReplicas limits the pods of one workload.
const maxReplicas = 100_000

// expand returns the pods of o and those that its workloads have yet to create, in Simon's order: pods, then
// those of each kind as [Workloads] lists them. Objects in o that a workload owns count towards its number.
func (o *Objects) expand() ([]*corev1.Pod, error) {
	e := &expander{objects: o}
	for i := range o.Pods {
		e.pods = append(e.pods, &o.Pods[i])
	}
	w := &o.Workloads
	for i := range w.Deployments {
		e.deployment(&w.Deployments[i])
	}
	for i := range w.ReplicaSets {
		r := &w.ReplicaSets[i]
		e.replicas(parent{"apps/v1", "ReplicaSet", &r.ObjectMeta}, &r.Spec.Template, r.Spec.Replicas)
	}
	for i := range w.ReplicationControllers {
		rc := &w.ReplicationControllers[i]
		template := &corev1.PodTemplateSpec{}
		if rc.Spec.Template != nil {
			template = rc.Spec.Template
		}
		e.replicas(parent{"v1", "ReplicationController", &rc.ObjectMeta}, template, rc.Spec.Replicas)
	}
	for i := range w.StatefulSets {
		e.statefulSet(&w.StatefulSets[i])
	}
	for i := range w.Jobs {
		e.job(&w.Jobs[i])
	}
	for i := range w.CronJobs {
		e.cronJob(&w.CronJobs[i])
	}
	for i := range w.DaemonSets {
		e.daemonSet(&w.DaemonSets[i])
	}
	return e.pods, e.err
}

// expander adds the pods of objects, until its first error.
type expander struct {
	objects *Objects
	pods    []*corev1.Pod
	err     error
}

// parent is the workload that controls a pod.
type parent struct {
	apiVersion, kind string
	meta             *metav1.ObjectMeta
}

func (p parent) namespace() string { return cmp.Or(p.meta.Namespace, corev1.NamespaceDefault) }

func (p parent) String() string { return fmt.Sprintf("%s %s/%s", p.kind, p.namespace(), p.meta.Name) }

// controls reports whether p is the controller of an object.
func (p parent) controls(m *metav1.ObjectMeta) bool {
	ref := metav1.GetControllerOf(m)
	return ref != nil && ref.Kind == p.kind && ref.Name == p.meta.Name && cmp.Or(m.Namespace, corev1.NamespaceDefault) == p.namespace()
}

// active reports whether a pod uses or requests resources.
func active(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// owned returns the active pods among the objects that p controls.
func (e *expander) owned(p parent) (own []*corev1.Pod) {
	for i := range e.objects.Pods {
		if pod := &e.objects.Pods[i]; active(pod) && p.controls(&pod.ObjectMeta) {
			own = append(own, pod)
		}
	}
	return own
}

// count returns the desired number of pods.
func (e *expander) count(p parent, wanted *int32) int {
	n := 1
	if wanted != nil {
		n = int(*wanted)
	}
	if e.err == nil && (n < 0 || n > maxReplicas) {
		e.err = fmt.Errorf("%s wants %d pods, want 0 to %d", p, n, maxReplicas)
	}
	if e.err != nil {
		return 0
	}
	return n
}

// replicas adds pods with hashes in their names.
func (e *expander) replicas(p parent, template *corev1.PodTemplateSpec, wanted *int32) {
	for i := range e.count(p, wanted) - len(e.owned(p)) {
		e.pods = append(e.pods, p.pod(template, p.meta.Name+"-"+hash(podDigits, p, i)))
	}
}

// deployment adds the pods of the ReplicaSet that the Deployment would create, unless it has created one.
func (e *expander) deployment(d *appsv1.Deployment) {
	p := parent{"apps/v1", "Deployment", &d.ObjectMeta}
	for i := range e.objects.Workloads.ReplicaSets {
		if p.controls(&e.objects.Workloads.ReplicaSets[i].ObjectMeta) {
			return
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("%s: selector: %w", p, err)
	}
	n := int32(e.count(p, d.Spec.Replicas))
	for i := range e.objects.Pods { // of a ReplicaSet that is not among the objects
		pod := &e.objects.Pods[i]
		set := metav1.GetControllerOf(pod)
		if n > 0 && active(pod) && set != nil && set.Kind == "ReplicaSet" && strings.HasPrefix(set.Name, d.Name+"-") &&
			cmp.Or(pod.Namespace, corev1.NamespaceDefault) == p.namespace() && selector.Matches(labels.Set(pod.Labels)) {
			n--
		}
	}
	rs := p.child(d.Name + "-" + hash(workloadDigits, p, 0))
	e.replicas(parent{"apps/v1", "ReplicaSet", rs}, &d.Spec.Template, &n)
}

// statefulSet adds pods with ordinals in their names.
func (e *expander) statefulSet(s *appsv1.StatefulSet) {
	p := parent{"apps/v1", "StatefulSet", &s.ObjectMeta}
	have := e.owned(p)
	first := 0
	if s.Spec.Ordinals != nil {
		first = int(s.Spec.Ordinals.Start)
	}
	for i := range e.count(p, s.Spec.Replicas) {
		name := fmt.Sprintf("%s-%d", s.Name, first+i)
		if !slices.ContainsFunc(have, func(pod *corev1.Pod) bool { return pod.Name == name }) {
			e.pods = append(e.pods, p.pod(&s.Spec.Template, name))
		}
	}
}

// job adds the pods of all remaining completions at once.
func (e *expander) job(j *batchv1.Job) {
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		return
	}
	for _, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return
		}
	}
	wanted := cmp.Or(j.Spec.Completions, j.Spec.Parallelism)
	p := parent{"batch/v1", "Job", &j.ObjectMeta}
	n := max(0, int32(e.count(p, wanted))-j.Status.Succeeded)
	e.replicas(p, &j.Spec.Template, &n)
}

// cronJob adds the pods of one run, unless runs are among the objects.
func (e *expander) cronJob(c *batchv1.CronJob) {
	p := parent{"batch/v1", "CronJob", &c.ObjectMeta}
	if c.Spec.Suspend != nil && *c.Spec.Suspend {
		return
	}
	for i := range e.objects.Workloads.Jobs {
		if p.controls(&e.objects.Workloads.Jobs[i].ObjectMeta) {
			return
		}
	}
	e.job(&batchv1.Job{ObjectMeta: *p.child(c.Name + "-" + hash(workloadDigits, p, 0)), Spec: c.Spec.JobTemplate.Spec})
}

// daemonTolerations are the tolerations that the DaemonSet controller adds to its pods.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// networkToleration is one more for pods that use their node's network.
var networkToleration = corev1.Toleration{Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}

// daemonSet adds a pod for each node that its node selector and affinity match and whose taints it
// tolerates.
func (e *expander) daemonSet(d *appsv1.DaemonSet) {
	p := parent{"apps/v1", "DaemonSet", &d.ObjectMeta}
	have := map[string]bool{}
	for _, pod := range e.owned(p) {
		have[pod.Spec.NodeName] = true
	}
	for i := range e.objects.Nodes {
		n := &e.objects.Nodes[i]
		pod := p.pod(&d.Spec.Template, d.Name+"-"+hash(podDigits, p, i))
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, daemonTolerations...)
		if pod.Spec.HostNetwork {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, networkToleration)
		}
		terms, err := ReadTerms(pod)
		if err == nil {
			var why string
			if why, err = terms.Refusal(n); why != "" || have[n.Name] || pod.Spec.NodeName != "" && pod.Spec.NodeName != n.Name {
				continue
			}
		}
		if err != nil && e.err == nil {
			e.err = fmt.Errorf("%s: %w", p, err)
		}
		bindTo(&pod.Spec, n.Name)
		e.pods = append(e.pods, pod)
	}
}

// bindTo restricts a pod to one node, as the DaemonSet controller does.
func bindTo(spec *corev1.PodSpec, node string) {
	field := []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}
	spec.Affinity = cmp.Or(spec.Affinity, &corev1.Affinity{})
	spec.Affinity.NodeAffinity = cmp.Or(spec.Affinity.NodeAffinity, &corev1.NodeAffinity{})
	required := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil || len((*required).NodeSelectorTerms) == 0 {
		*required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range (*required).NodeSelectorTerms {
		(*required).NodeSelectorTerms[i].MatchFields = field
	}
}

// child returns the metadata of a workload that p creates.
func (p parent) child(name string) *metav1.ObjectMeta {
	m := p.meta.DeepCopy()
	m.Name, m.Namespace, m.OwnerReferences = name, p.namespace(), []metav1.OwnerReference{p.reference()}
	return m
}

// pod returns a pod of p. It has the workload's labels and annotations, as in Simon, overridden by the
// template's.
func (p parent) pod(template *corev1.PodTemplateSpec, name string) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: p.namespace(), OwnerReferences: []metav1.OwnerReference{p.reference()},
			Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	for _, m := range []*metav1.ObjectMeta{p.meta, &template.ObjectMeta} {
		maps.Copy(pod.Labels, m.Labels)
		maps.Copy(pod.Annotations, m.Annotations)
	}
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	pod.Annotations[AnnotationWorkloadKind] = p.kind
	pod.Annotations[AnnotationWorkloadName] = p.meta.Name
	pod.Annotations[AnnotationWorkloadNamespace] = p.namespace()
	return pod
}

func (p parent) reference() metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: p.apiVersion, Kind: p.kind, Name: p.meta.Name, UID: cmp.Or(p.meta.UID, types.UID(hash(uidDigits, p, 0))), Controller: &yes, BlockOwnerDeletion: &yes}
}

// hash returns digits that identify the n-th pod or workload of p. They are the same in every run; Simon draws
// them at random.
func hash(digits int, p parent, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", p, n))
	return hex.EncodeToString(sum[:])[:digits]
}
