package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// mostCandidates bounds the nodes whose victims are compared, as kube-scheduler's 100 do.
const mostCandidates = 100

// preempt makes room for the moment's pod, which fits no node, by evicting pods of lower priority from one. It
// returns what to add to the event; "" where that would not help.
func (s *Scheduler) preempt(ctx context.Context, m *moment) string {
	if p := m.pod.Spec.PreemptionPolicy; m.check == nil || p != nil && *p == corev1.PreemptNever {
		return ""
	}
	budgets, err := s.budgets.List(labels.Everything())
	if err != nil {
		return fmt.Sprintf(" Preemption: %v.", err)
	}
	c, fits := s.cache.preemption(m, budgets)
	if fits { // since the moment; what is nominated stays so until the next attempt
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	if c == nil {
		if m.pod.Status.NominatedNodeName != "" {
			if err := s.nominate(ctx, m.pod, ""); err != nil {
				return fmt.Sprintf(" Preemption: %v.", err)
			}
		}
		return ""
	}
	if err := s.nominate(ctx, m.pod, c.node.Name); err != nil {
		return fmt.Sprintf(" Preemption: %v.", err)
	}
	if len(c.victims) == 0 {
		return fmt.Sprintf(" Preemption: there will be room on %s when pods have gone.", c.node.Name)
	}
	for _, v := range c.victims {
		if err := s.evict(ctx, m.pod, v); err != nil {
			return fmt.Sprintf(" Preemption on %s: %v.", c.node.Name, err)
		}
	}
	return fmt.Sprintf(" Preemption: pods of lower priority evicted from %s: %d.", c.node.Name, len(c.victims))
}

// nominate tells that the pod is to run on a node when there is room, so that nobody of lower priority takes it.
func (s *Scheduler) nominate(ctx context.Context, p *podInfo, node string) error {
	if p.Status.NominatedNodeName == node {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"nominatedNodeName": node}})
	if err != nil {
		return err
	}
	if _, err := s.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("nominate node %q for %s/%s: %w", node, p.Namespace, p.Name, err)
	}
	return nil
}

// evict evicts a victim by the eviction API, which respects its disruption budgets.
func (s *Scheduler) evict(ctx context.Context, by, victim *podInfo) error {
	err := s.client.PolicyV1().Evictions(victim.Namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: victim.Namespace, Name: victim.Name}, DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))},
	})
	switch {
	case apierrors.IsNotFound(err):
		s.cache.evicted(victim.UID) // by somebody else
	case err != nil:
		return fmt.Errorf("evict %s/%s: %w", victim.Namespace, victim.Name, err)
	default:
		s.cache.evicted(victim.UID)
		s.metrics.victims.Inc()
		s.recorder.Eventf(victim.Pod, by.Pod, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by %s/%s on node %s", by.Namespace, by.Name, victim.node)
	}
	return nil
}

// candidate is a node, and the pods on it that would have to go.
type candidate struct {
	node    *corev1.Node
	victims []*podInfo // the most important first
}

// compareCandidates puts first the node whose most important victim has the lowest priority, then that with the
// smallest sum of priorities and then the fewest victims: what kube-scheduler compares after budgets.
func compareCandidates(a, b *candidate) int {
	highest := func(c *candidate) int64 {
		if len(c.victims) == 0 {
			return math.MinInt64
		}
		return int64(c.victims[0].priority())
	}
	sum := func(c *candidate) (s int64) {
		for _, v := range c.victims {
			s += int64(v.priority()) + math.MaxInt32 + 1 // so that none is negative, and more are more
		}
		return s
	}
	return cmp.Or(cmp.Compare(highest(a), highest(b)), cmp.Compare(sum(a), sum(b)), cmp.Compare(len(a.victims), len(b.victims)))
}

// preemption returns the best node to empty for the moment's pod as things now are, or nil, and whether the pod now
// fits some node as it is. Pods that are about to go count as gone; pods whose budget allows no disruption stay.
func (c *cache) preemption(m *moment, budgets []*policyv1.PodDisruptionBudget) (best *candidate, fits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.present(m.pod.Pod, m.decision.Replicas, nil)
	if err != nil || m.fitting() > 0 {
		return nil, err == nil
	}
	on := map[string][]*podInfo{}
	for _, i := range c.sorted() {
		if node := m.where(i); node != "" && i.UID != m.pod.UID {
			on[node] = append(on[node], i)
		}
	}
	found := 0
	for _, n := range m.nodes {
		if why, err := m.terms.Refusal(n); err != nil || why != "" || notReady(n) || m.barred != "" || found == mostCandidates {
			continue
		}
		victims, ok := m.emptied(n, on[n.Name], budgets)
		if !ok {
			continue
		}
		found++
		if k := (&candidate{n, victims}); best == nil || compareCandidates(k, best) < 0 {
			best = k
		}
	}
	return best, false
}

// emptied returns which of a node's pods have to go so that the moment's pod fits there; false if all that may go
// are not enough. As few go as can be, beginning with the least important.
func (m *moment) emptied(n *corev1.Node, pods []*podInfo, budgets []*policyv1.PodDisruptionBudget) (victims []*podInfo, ok bool) {
	stay, lower := m.lower(pods, budgets)
	gone := slices.DeleteFunc(slices.Clone(pods), func(i *podInfo) bool { return slices.Contains(stay, i) })
	if len(gone) == 0 {
		return nil, false
	}
	add := func(i *podInfo) {
		if i.node != "" && m.check.Minds(i.rules) {
			m.check.Add(i.rules, n)
		}
	}
	remove := func(i *podInfo) {
		if i.node != "" && m.check.Minds(i.rules) {
			m.check.Remove(i.rules, n)
		}
	}
	for _, i := range gone {
		remove(i)
	}
	back, taken := map[*podInfo]bool{}, disruptions{}
	if ok = m.fitsBeside(n, stay); ok {
		for _, i := range lower {
			add(i)
			if back[i] = m.fitsBeside(n, append(stay, i)); back[i] {
				stay = append(stay, i)
				continue
			}
			remove(i)
			victims = append(victims, i)
			ok = ok && taken.take(i, budgets)
		}
	}
	slices.SortStableFunc(victims, compareImportance)
	for _, i := range gone { // the check goes on to the next node
		if !back[i] {
			add(i)
		}
	}
	return victims, ok
}

// lower divides a node's pods into those that stay, and those that may be evicted. Of these, first come the ones
// beyond what budgets allow if all less important ones go; then as before them the most important first. Those that
// are about to go are in neither.
func (m *moment) lower(pods []*podInfo, budgets []*policyv1.PodDisruptionBudget) (stay, lower []*podInfo) {
	var beyond []*podInfo
	taken := disruptions{}
	for _, i := range slices.Backward(slices.SortedStableFunc(slices.Values(pods), compareImportance)) {
		if i.going {
			continue
		}
		if i.priority() >= m.pod.priority() || i.Spec.NodeName == "" {
			stay = append(stay, i)
			continue
		}
		switch {
		case taken.take(i, budgets):
			lower = append(lower, i)
		case disruptions{}.take(i, budgets):
			beyond = append(beyond, i)
		default:
			stay = append(stay, i)
		}
	}
	slices.Reverse(lower)
	slices.Reverse(beyond)
	return stay, append(beyond, lower...)
}

// compareImportance puts first the pod of the higher priority, and then that which has run for longer.
func compareImportance(a, b *podInfo) int {
	return cmp.Or(cmp.Compare(b.priority(), a.priority()), started(a).Compare(started(b).Time))
}

func started(i *podInfo) *metav1.Time {
	if i.Status.StartTime != nil {
		return i.Status.StartTime
	}
	return &i.CreationTimestamp
}

// disruptions are those that were taken from budgets.
type disruptions map[*policyv1.PodDisruptionBudget]int32

// take takes one for a pod, and reports whether its budget allows it. The eviction API serves no pod of more than one
// budget.
func (d disruptions) take(i *podInfo, budgets []*policyv1.PodDisruptionBudget) bool {
	var its []*policyv1.PodDisruptionBudget
	for _, b := range budgets {
		if b.Namespace != i.Namespace {
			continue
		}
		of, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && of.Matches(labels.Set(i.Labels)) {
			its = append(its, b)
		}
	}
	if len(its) != 1 {
		return len(its) == 0
	}
	d[its[0]]++
	return d[its[0]] <= its[0].Status.DisruptionsAllowed
}

// fitsBeside reports whether the moment's pod fits a node with just these pods on it. The check has been told.
func (m *moment) fitsBeside(n *corev1.Node, pods []*podInfo) bool {
	if m.checked(n) != "" {
		return false
	}
	set := newNodeSet([]*corev1.Node{n})
	alone := newMoment(set, m.pod)
	for _, i := range pods {
		if alone.addBound(i, 0) != nil {
			return false
		}
	}
	return alone.addPending(m.pod) == nil && alone.closed[0] == "" && alone.state.Fits(alone.decision.Pod, 0)
}
