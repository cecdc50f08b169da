package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// slow is an environment of five steps of 2 ms and a reset of 50 ms.
type slow struct{ steps int }

func (*slow) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, 1), space.Discrete{N: 2} }

func (t *slow) Begin(context.Context, cluster.Cluster, *rand.Rand) error {
	t.steps = 0
	time.Sleep(50 * time.Millisecond)
	return nil
}

func (t *slow) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	t.steps++
	time.Sleep(2 * time.Millisecond)
	return envs.Outcome{Terminated: t.steps == 5}, nil
}

func (*slow) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0], mask[0], mask[1] = 0, true, true
}

func TestMeasure(t *testing.T) {
	spec := &envs.Spec{ID: "test/Slow-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return new(slow), nil }, nil
	}}
	for _, most := range []int{3, 1000} {
		c, err := measure(spec, 0, most)
		if err != nil {
			t.Fatal(err)
		}
		// Sleeps last at least as long; a machine with other work may make them longer, but resets not as short as steps.
		if c.step < 2e6 || c.reset < 50e6 || c.step > c.reset {
			t.Errorf("at most %d steps: %+v, want 2e6 and 50e6 ns and not much more", most, c)
		}
	}
}

// TestEveryEnvironmentHasALine measures the environments of one prefix, and lists them by id.
func TestEveryEnvironmentHasALine(t *testing.T) {
	var b strings.Builder
	if err := run(&b, "classic/", time.Nanosecond, 5); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")[2:]
	for _, spec := range envs.Specs() {
		if strings.HasPrefix(spec.ID, "classic/") {
			if len(lines) == 0 || !strings.HasPrefix(lines[0], "| `"+spec.ID+"` | ") {
				t.Fatalf("lines %q, want one of %s", lines, spec.ID)
			}
			lines = lines[1:]
		}
	}
	if len(lines) > 0 {
		t.Errorf("lines too many: %q", lines)
	}
}
