package clustertrace_test

import (
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// TestBudgetAllowed: examples of the task "Specifying a Disruption Budget" of Kubernetes' documentation, and worked by hand.
func TestBudgetAllowed(t *testing.T) {
	for _, tc := range []struct {
		min, max                string
		expected, healthy, want int
	}{
		{"2", "", 3, 3, 1}, // zookeeper of the documentation
		{"", "1", 3, 3, 1},
		{"", "1", 3, 2, 0},
		{"50%", "", 7, 7, 3}, // at least 4 of 7: percentages are rounded up
		{"", "30%", 7, 7, 3}, // 2.1 of 7, rounded up
		{"", "30%", 7, 5, 1}, // one more
		{"5", "", 3, 3, 0},
		{"", "100%", 3, 1, 1},
		{"0", "", 0, 0, 0},
		{"", "", 3, 3, 0},
	} {
		b := clustertrace.Budget{Name: "b", MinAvailable: tc.min, MaxUnavailable: tc.max}
		if err := b.Check(); err != nil {
			t.Error(err)
		}
		if got := b.Allowed(tc.expected, tc.healthy); got != tc.want {
			t.Errorf("min %q, max %q: %d of %d healthy pods may go, want %d", tc.min, tc.max, got, tc.healthy, tc.want)
		}
	}
}

func TestInvalidBudgets(t *testing.T) {
	for want, b := range map[string]clustertrace.Budget{
		"want a name":     {MinAvailable: "1"},
		"one of them":     {Name: "b", MinAvailable: "1", MaxUnavailable: "1"},
		"a percentage":    {Name: "b", MinAvailable: "half"},
		"0 to 10000000":   {Name: "b", MaxUnavailable: "-1"},
		"want In, NotIn,": {Name: "b", Selector: &clustertrace.Selector{MatchExpressions: []clustertrace.Requirement{{Key: "a", Operator: "Gt", Values: []string{"1"}}}}},
	} {
		if err := b.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: Check = %v, want an error with %q", b, err, want)
		}
	}
}
