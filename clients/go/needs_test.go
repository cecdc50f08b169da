package client

import (
	"context"
	"errors"
	"testing"

	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/wire"
)

// A server of version 1.0 names no parts in its welcome, one of 1.1 names policy, which has another
// form. Nothing is sent to either.
func TestOldServer(t *testing.T) {
	layout, err := wire.NewLayout(1, space.NewBox(0, 1, 1), space.Discrete{N: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &VecEnv{session: session{server: "old/1.0", caps: []string{"policy"}}, layout: layout, act: space.Discrete{N: 2}, rows: newRows(1)}
	ctx, b := context.Background(), v.Baseline("best", 0)
	_, _, rolled := b.Rollout(ctx, RolloutOptions{Steps: 1})
	_, stepped := b.Step(ctx)
	_, snapped := v.Snapshot(ctx)
	_, forked := v.Fork(ctx, 0, []int{0})
	for name, err := range map[string]error{"Act": b.Act(ctx, make([]float32, 1)), "Rollout": rolled, "Step": stepped, "Snapshot": snapped, "Fork": forked} {
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
	}
}
