package shadow

import (
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// Margin is the greatest distance from the best score of users' preferences at which a policy may choose a node. It is
// also the default of the scheduler plugin with the order respect. One preference, satisfied or not, makes a difference
// of 200.
const Margin = 20

// Weights of kube-scheduler's score plugins, and the maximum of their normalized scores.
const (
	affinityWeight    = 2
	taintWeight       = 3
	spreadWeight      = 2
	podAffinityWeight = 2
	maxScore          = 100
	hardWeight        = 1 // of a required term of affinity of a running pod
	hostname          = "kubernetes.io/hostname"
)

// readPreferences reads the preferences of a template's pods about other pods. Running pods of the template also apply
// theirs to new pods.
func (h *history) readPreferences(template int32, b *podRules) {
	add := func(term *clustertrace.PodTerm, weight int64) []int32 {
		of := h.selected(term.Selects)
		for _, u := range of {
			v := h.ensurePodRules(u)
			v.existingPreferred = append(v.existingPreferred, existingPreference{template, term.Topology, weight})
		}
		return of
	}
	for k := range b.Affinity {
		add(&b.Affinity[k], hardWeight)
	}
	for k := range b.Preferred {
		b.preferred = append(b.preferred, add(&b.Preferred[k].PodTerm, b.Preferred[k].Weight))
	}
	for k := range b.ScheduleAnyway {
		b.scheduleAnyway = append(b.scheduleAnyway, h.selected(b.ScheduleAnyway[k].Counts))
	}
}

// prefer cordons the nodes on which a pod fits but whose score of users' preferences is more than Margin below the
// best.
//
// Source: plugins NodeAffinity, TaintToleration, PodTopologySpread (stated constraints only) and InterPodAffinity of
// kube-scheduler, with their default weights.
func (w *world) prefer(p int32) {
	t, b := w.template(p), w.history.podRules[w.pods[p].template]
	affinity := b != nil && len(b.Preferred)+len(b.existingPreferred) > 0
	spread := b != nil && len(b.ScheduleAnyway) > 0
	if len(t.Preferred) == 0 && w.discouraged == 0 && !affinity && !spread {
		return
	}
	var fitting []int32
	for i, n := range w.order {
		if w.state.Fits(w.pods[p].slot, int32(i)) {
			fitting = append(fitting, n)
		}
	}
	total := make([]int64, len(fitting))
	add := func(weight int64, scores []int64) {
		for i, s := range scores {
			total[i] += weight * s
		}
	}
	if len(t.Preferred) > 0 {
		add(affinityWeight, w.affinityScores(t, fitting))
	}
	if w.discouraged > 0 {
		add(taintWeight, w.taintScores(t, fitting))
	}
	if spread {
		add(spreadWeight, w.spreadScores(w.pods[p].template, b, fitting))
	}
	if affinity {
		add(podAffinityWeight, w.podAffinityScores(b, fitting))
	}
	best := slices.Max(total)
	for i, n := range fitting {
		if total[i] < best-Margin {
			w.state.Nodes[w.nodes[n].index].Unschedulable = true
		}
	}
}

// affinityScores returns the scores of preferred node affinity.
func (w *world) affinityScores(t *clustertrace.Template, fitting []int32) []int64 {
	scores := make([]int64, len(fitting))
	for i, n := range fitting {
		for k := range t.Preferred {
			if t.Preferred[k].Term.Matches(w.nodes[n].info) {
				scores[i] += int64(t.Preferred[k].Weight)
			}
		}
	}
	if highest := slices.Max(scores); highest > 0 {
		for i := range scores {
			scores[i] = maxScore * scores[i] / highest
		}
	}
	return scores
}

// taintScores returns the scores of PreferNoSchedule taints.
func (w *world) taintScores(t *clustertrace.Template, fitting []int32) []int64 {
	scores := make([]int64, len(fitting))
	for i, n := range fitting {
		scores[i] = t.Discouraged(w.nodes[n].info)
	}
	highest := max(1, slices.Max(scores))
	for i := range scores {
		scores[i] = maxScore - maxScore*scores[i]/highest
	}
	return scores
}

// affinityScores returns the scores of preferred inter-pod affinity, from the pod's own terms and those of running pods.
func (w *world) podAffinityScores(b *podRules, fitting []int32) []int64 {
	domains := map[domain]int64{}
	count := func(template int32, topology string, weight int64) {
		for n, pods := range w.podsByNode[template] {
			if info := w.nodes[n].info; info != nil {
				if v, ok := info.Labels[topology]; ok {
					domains[domain{topology, v}] += weight * int64(pods)
				}
			}
		}
	}
	for k := range b.Preferred {
		for _, u := range b.preferred[k] {
			count(u, b.Preferred[k].Topology, b.Preferred[k].Weight)
		}
	}
	for _, d := range b.existingPreferred {
		count(d.template, d.topology, d.weight)
	}
	scores := make([]int64, len(fitting))
	for i, n := range fitting {
		for key, v := range w.nodes[n].info.Labels {
			scores[i] += domains[domain{key, v}]
		}
	}
	least, most := slices.Min(scores), slices.Max(scores)
	for i := range scores {
		if most > least {
			scores[i] = int64(maxScore * (float64(scores[i]-least) / float64(most-least)))
		} else {
			scores[i] = 0
		}
	}
	return scores
}

// spreadScores returns the scores of topology spread constraints with ScheduleAnyway.
func (w *world) spreadScores(template int32, b *podRules, fitting []int32) []int64 {
	pods, weights := w.scheduleAnywayCounts(template, b, fitting)
	scores := make([]int64, len(fitting))
	least, most := int64(math.MaxInt64), int64(0)
	for i, n := range fitting {
		info := w.nodes[n].info
		if scores[i] = -1; !hasLabels(info, b.ScheduleAnyway) {
			continue
		}
		score := 0.0
		for k := range b.ScheduleAnyway {
			have := pods[k][info.Labels[b.ScheduleAnyway[k].Topology]]
			if b.ScheduleAnyway[k].Topology == hostname {
				have = w.podsOn(b.scheduleAnyway[k], n)
			}
			score += float64(have)*weights[k] + float64(b.ScheduleAnyway[k].MaxSkew-1)
		}
		scores[i] = int64(math.Round(score))
		least, most = min(least, scores[i]), max(most, scores[i])
	}
	for i, s := range scores {
		switch {
		case s < 0:
			scores[i] = 0
		case most == 0:
			scores[i] = maxScore
		default:
			scores[i] = maxScore * (most + least - s) / most
		}
	}
	return scores
}

// scheduleAnywayCounts returns the pods by domain and the weight of a pod, for each constraint of ScheduleAnyway.
func (w *world) scheduleAnywayCounts(template int32, b *podRules, fitting []int32) ([]map[string]int, []float64) {
	pods, weights := make([]map[string]int, len(b.ScheduleAnyway)), make([]float64, len(b.ScheduleAnyway))
	for k := range b.ScheduleAnyway {
		c := &b.ScheduleAnyway[k]
		pods[k] = map[string]int{}
		nodes := 0
		for _, n := range fitting {
			if info := w.nodes[n].info; hasLabels(info, b.ScheduleAnyway) {
				nodes++
				pods[k][info.Labels[c.Topology]] = 0
			}
		}
		if c.Topology == hostname {
			weights[k] = math.Log(float64(nodes + 2))
			continue
		}
		weights[k] = math.Log(float64(len(pods[k]) + 2))
		for _, n := range w.order {
			v := w.nodes[n].info.Labels[c.Topology]
			if _, ok := pods[k][v]; ok && w.eligible(template, b, b.ScheduleAnyway, c, n) {
				pods[k][v] += w.podsOn(b.scheduleAnyway[k], n)
			}
		}
	}
	return pods, weights
}

// podsOn returns how many pods of the templates run on a node.
func (w *world) podsOn(templates []int32, n int32) (pods int) {
	for _, t := range templates {
		pods += w.podsByNode[t][n]
	}
	return pods
}

// preferNoSchedule returns 1 for a node with a PreferNoSchedule taint, otherwise 0.
func preferNoSchedule(n *clustertrace.Node) int {
	if n != nil && slices.ContainsFunc(n.Taints, func(t clustertrace.Taint) bool { return t.Effect == "PreferNoSchedule" }) {
		return 1
	}
	return 0
}
