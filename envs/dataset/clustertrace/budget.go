package clustertrace

import (
	"fmt"
	"strconv"
	"strings"
)

// Protects reports whether a budget protects pods of a template. An empty selector protects none, as for
// kube-scheduler's preemption.
func (b *Budget) Protects(t *Template) bool {
	return t.Namespace == b.Namespace && b.Selector != nil && len(b.Selector.MatchLabels)+len(b.Selector.MatchExpressions) > 0 && b.Selector.Matches(t.Labels)
}

// Allowed returns how many of the pods that a budget protects may be disrupted, if expected pods are desired and
// healthy ones run.
//
// Source: getExpectedPodCount and updatePdbStatus of kube-controller-manager's disruption controller.
func (b *Budget) Allowed(expected, healthy int) int {
	desired := healthy // a budget without an amount allows no disruption
	switch {
	case b.MaxUnavailable != "":
		desired = max(0, expected-scaled(b.MaxUnavailable, expected))
	case b.MinAvailable != "":
		desired = scaled(b.MinAvailable, expected)
	}
	if expected == 0 {
		return 0
	}
	return max(0, healthy-desired)
}

// scaled returns an amount that [Budget.Check] has accepted; it rounds percentages up.
func scaled(amount string, of int) int {
	text, percent := strings.CutSuffix(amount, "%")
	n, _ := strconv.Atoi(text)
	if percent {
		return (n*of + 99) / 100
	}
	return n
}

// Check returns an error if the budget is invalid.
func (b *Budget) Check() error {
	if b.Name == "" || b.MinAvailable != "" && b.MaxUnavailable != "" {
		return fmt.Errorf("budget %q with min_available %q and max_unavailable %q, want a name and one of them at most", b.Name, b.MinAvailable, b.MaxUnavailable)
	}
	for _, amount := range []string{b.MinAvailable, b.MaxUnavailable} {
		if n, err := strconv.Atoi(strings.TrimSuffix(amount, "%")); amount != "" && (err != nil || n < 0 || n > MaxPods) {
			return fmt.Errorf("budget %s: %q, want a number of pods or a percentage, 0 to %d", b.Name, amount, MaxPods)
		}
	}
	return b.Selector.check()
}
