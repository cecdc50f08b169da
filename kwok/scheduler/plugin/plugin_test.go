package plugin

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// TestRanked: the choice alone has 100, and others theirs in proportion.
func TestRanked(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		scores []float64
		node   int32
		want   []int64
	}{
		{[]float64{-2, 3, nan, 0.5}, 1, []int64{0, 100, 0, 50}}, // 100·(0.5+2)/5
		{[]float64{3, 3, nan, 3}, 0, []int64{100, 99, 0, 99}},
		{[]float64{3, 3, nan, 1}, 0, []int64{100, 99, 0, 0}},
	} {
		if got := scaleScores(live.Choice{Node: tc.node, Scores: tc.scores}); !slices.Equal(got, tc.want) {
			t.Errorf("ranked(%v of %d) = %v, want %v", tc.scores, tc.node, got, tc.want)
		}
	}
}

// TestImbalance: hand-worked. The shares of CPU are 0.5 and 0, those of memory 0.25 and 0.25: deviations 0.25 and 0.
func TestImbalance(t *testing.T) {
	size := cluster.Resources{MilliCPU: 4000, MemoryBytes: 1000}
	nodes := []cluster.Node{{Allocatable: size, Requested: cluster.Resources{MilliCPU: 1000, MemoryBytes: 250}}, {Allocatable: size, Requested: cluster.Resources{MemoryBytes: 250}}}
	if got := imbalance(nodes, 0, cluster.Resources{MilliCPU: 1000}); got != 12.5 {
		t.Errorf("imbalance %v %%, want 12.5", got)
	}
}

func TestReadArgs(t *testing.T) {
	read := func(text string) (string, error) {
		a, _, err := readArgs(&runtime.Unknown{Raw: []byte(text)})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(a.Model, a.Baseline, a.Order, *a.Margin, a.Budget.Duration, a.ReloadEvery.Duration, a.Options), nil
	}
	if got, err := read(`{}`); err != nil || got != fmt.Sprint("", "", "respect", 20, 100*time.Millisecond, 5*time.Second, map[string]any(nil)) {
		t.Errorf("defaults %s, %v", got, err)
	}
	if got, err := read(`{"model": "m", "order": "policy", "margin": 0, "budget": "1s", "options": {"steps": 3}}`); err != nil || got != fmt.Sprint("m", "", "policy", 0, time.Second, 5*time.Second, map[string]any{"steps": 3}) {
		t.Errorf("arguments %s, %v", got, err)
	}
	for text, want := range map[string]string{
		`{"modle": "m"}`: "modle", `{"order": "last"}`: "respect, policy, tiebreak", `{"margin": -1}`: "below 0", `{"nodeSelector": "a in"}`: "nodeSelector", `{"budget": "-1s"}`: "below 0",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}
