package trace

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

func (r *recorder) key(p *corev1.Pod) podKey { return podKey{r.hash(p.Namespace), r.hash(p.Name)} }

// pod records the changes of a pod.
func (r *recorder) pod(o *corev1.Pod) error {
	key, uid := r.key(o), r.uid(string(o.UID))
	p := r.pods[key]
	if p != nil && p.uid != uid { // another pod of that name, whose end the watch did not report
		if err := r.deletePod(key, p, false); err != nil {
			return err
		}
		p = nil
	}
	done := o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
	if p == nil && done {
		return nil // it ended before the recorder saw it, and uses nothing
	}
	spec, err := r.template(o)
	if err == nil {
		err = spec.Check()
	}
	if err != nil {
		r.log.Warn("pod is not recorded", "pod", o.Namespace+"/"+o.Name, "error", err)
		return nil
	}
	number, err := r.sink.Template(r.at(), spec)
	if err != nil {
		return err
	}
	if p == nil {
		if p, err = r.addPod(o, key, uid, number); err != nil {
			return err
		}
	}
	p.seen = true
	if p.template != number {
		if err := r.write(&clustertrace.Event{Kind: clustertrace.UpdatePod, Pod: p.number, Template: number}); err != nil {
			return err
		}
		p.template = number
	}
	return r.progress(o, key, p, done)
}

// addPod records a new pod.
func (r *recorder) addPod(o *corev1.Pod, key podKey, uid string, template int32) (*recordedPod, error) {
	e := clustertrace.Event{
		Kind: clustertrace.AddPod, Ago: r.ago(o.CreationTimestamp.Time), Template: template,
		Name: key.name, UID: uid, Claims: r.names.claims(o),
	}
	if err := r.write(&e); err != nil {
		return nil, err
	}
	p := &recordedPod{uid: uid, number: e.Pod, template: template}
	r.pods[key] = p
	return p, nil
}

// progress records the phase that the pod has reached.
func (r *recorder) progress(o *corev1.Pod, key podKey, p *recordedPod, done bool) error {
	if o.Spec.NodeName != "" && !p.bound {
		name := r.hash(o.Spec.NodeName)
		n := r.nodes[name]
		if n == nil { // pods and nodes arrive independently; the node is not known yet
			if r.awaited[name] == nil {
				r.awaited[name] = map[podKey]*corev1.Pod{}
			}
			r.awaited[name][key] = o
			return nil
		}
		devices, err := kubeyaml.Devices(o)
		if err != nil {
			r.log.Warn("pod is recorded without its GPUs", "pod", o.Namespace+"/"+o.Name, "error", err)
		}
		e := clustertrace.Event{Kind: clustertrace.BindPod, Ago: r.ago(boundAt(o)), Pod: p.number, Node: n.number, Devices: devices}
		if err := r.write(&e); err != nil {
			return err
		}
		p.bound = true
	}
	started, ended := ranAt(o)
	if p.bound && !p.ran && (o.Status.Phase == corev1.PodRunning || done && !started.IsZero()) {
		if err := r.write(&clustertrace.Event{Kind: clustertrace.RunPod, Ago: r.ago(started), Pod: p.number}); err != nil {
			return err
		}
		p.ran = true
	}
	if done && !p.finished {
		e := clustertrace.Event{Kind: clustertrace.FinishPod, Ago: r.ago(ended), Pod: p.number, Phase: clustertrace.Phase(o.Status.Phase), Preempted: preempted(o)}
		if err := r.write(&e); err != nil {
			return err
		}
		p.finished = true
	}
	return nil
}

func (r *recorder) podGone(o *corev1.Pod) error {
	key := r.key(o)
	p := r.pods[key]
	if p == nil || p.uid != r.uid(string(o.UID)) {
		return nil
	}
	return r.deletePod(key, p, preempted(o))
}

func (r *recorder) deletePod(key podKey, p *recordedPod, preempted bool) error {
	delete(r.pods, key)
	for _, held := range r.awaited {
		delete(held, key)
	}
	return r.write(&clustertrace.Event{Kind: clustertrace.DeletePod, Pod: p.number, Preempted: preempted})
}

// preempted reports whether a scheduler has evicted the pod to make room for another pod.
func preempted(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
	})
}

// boundAt returns when the pod was bound, or zero if the pod does not state it.
func boundAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// ranAt returns when the first container started and when the last one ended, or zero if the pod does not state
// it.
func ranAt(p *corev1.Pod) (started, ended time.Time) {
	first := func(t time.Time) {
		if !t.IsZero() && (started.IsZero() || t.Before(started)) {
			started = t
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if s := c.State.Running; s != nil {
			first(s.StartedAt.Time)
		}
		if s := c.State.Terminated; s != nil {
			first(s.StartedAt.Time)
			if s.FinishedAt.After(ended) {
				ended = s.FinishedAt.Time
			}
		}
	}
	return started, ended
}
