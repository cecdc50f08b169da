package shadow

import "github.com/kubernasium/kubernasium/envs/dataset/clustertrace"

// guard is a disruption budget, and by template whether it protects pods.
type guard struct {
	*clustertrace.Budget
	protects []bool
}

func (h *history) guards(b *clustertrace.Budget) guard {
	g := guard{b, make([]bool, len(h.templates))}
	for i, t := range h.templates {
		g.protects[i] = b.Protects(t)
	}
	return g
}

// allowance is how many pods a budget lets go.
type allowance struct {
	guard
	allowed int
}

// allowances returns what the budgets allow at present. Pods that are there are expected, and those that run are healthy.
func (w *world) allowances() (all []allowance) {
	for _, b := range w.budgets {
		expected, healthy := 0, 0
		for p := range w.pods[:w.born] {
			q := &w.pods[p]
			if q.phase == absent || q.phase == gone || !b.protects[q.template] {
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

// split parts pods, the most important first, into those whose eviction breaks a budget and the others.
//
// Source: filterPodsWithPDBViolation of kube-scheduler's plugin DefaultPreemption.
func (w *world) split(pods []int32, budgets []allowance) (violating, others []int32) {
	left := make([]int, len(budgets))
	for i := range budgets {
		left[i] = budgets[i].allowed
	}
	for _, p := range pods {
		breaks := false
		for i := range budgets {
			if budgets[i].protects[w.pods[p].template] {
				left[i]--
				breaks = breaks || left[i] < 0
			}
		}
		if breaks {
			violating = append(violating, p)
		} else {
			others = append(others, p)
		}
	}
	return violating, others
}
