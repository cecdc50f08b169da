package envs

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// costly is a task whose steps cost what it says.
type costly int

func (c costly) StepNanos() int { return int(c) }

func (costly) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, 1), space.Discrete{N: 2} }

func (costly) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }

func (costly) Apply(context.Context, cluster.Cluster, []float32) (Outcome, error) {
	return Outcome{}, nil
}

func (costly) Observe(*cluster.State, []float32, []bool) {}

// TestCoster: 10 environments share a goroutine until a step of all takes 100 µs.
func TestCoster(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for nanos, want := range map[int]int{1: 1, 9_999: 1, 10_000: 2, 20_000: 4, 1_000_000: 4} {
		spec := &Spec{ID: "toy/Costly-v0", StepNanos: 7, Open: func(map[string]any) (Maker, error) {
			return func() (Task, error) { return costly(nanos), nil }, nil
		}}
		v, err := NewVec(spec, 10, VecOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(v.work) + 1; got != want {
			t.Errorf("steps of %d ns: %d goroutines, want %d", nanos, got, want)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}
