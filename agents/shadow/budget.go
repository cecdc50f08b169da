package shadow

import "github.com/kubernasium/kubernasium/envs/dataset/clustertrace"

// budget is a PodDisruptionBudget with the templates whose pods it protects.
type budget struct {
	*clustertrace.Budget
	protects []bool
}

func (h *history) newBudget(b *clustertrace.Budget) budget {
	g := budget{b, make([]bool, len(h.templates))}
	for i, t := range h.templates {
		g.protects[i] = b.Protects(t)
	}
	return g
}

// allowance is a budget with its number of allowed disruptions.
type allowance struct {
	budget
	allowed int
}

// allowances returns the allowed disruptions of all budgets. Present pods are expected, running ones healthy.
func (w *world) allowances() (all []allowance) {
	for _, b := range w.budgets {
		expected, healthy := 0, 0
		for p := range w.pods[:w.arrived] {
			q := &w.pods[p]
			if q.phase == absent || q.phase == ended || !b.protects[q.template] {
				continue
			}
			expected++
			if q.phase == running {
				healthy++
			}
		}
		all = append(all, allowance{b, b.Allowed(expected, healthy)})
	}
	return all
}

// splitViolating divides pods, sorted by importance, into those whose eviction violates a budget and the others.
//
// Source: filterPodsWithPDBViolation of kube-scheduler's plugin DefaultPreemption.
func (w *world) splitViolating(pods []int32, budgets []allowance) (violating, others []int32) {
	left := make([]int, len(budgets))
	for i := range budgets {
		left[i] = budgets[i].allowed
	}
	for _, p := range pods {
		violates := false
		for i := range budgets {
			if budgets[i].protects[w.pods[p].template] {
				left[i]--
				violates = violates || left[i] < 0
			}
		}
		if violates {
			violating = append(violating, p)
		} else {
			others = append(others, p)
		}
	}
	return violating, others
}
