package envs_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
)

// backwards is a crew that begins with the last part.
type backwards struct{ parts []int }

func (b *backwards) Do(parts int, f func(worker, part int)) {
	b.parts = append(b.parts, parts)
	for part := parts - 1; part >= 0; part-- {
		f(0, part)
	}
}

// together is a crew of a goroutine for each part.
type together struct{}

func (together) Do(parts int, f func(worker, part int)) {
	var wg sync.WaitGroup
	for part := range parts {
		wg.Go(func() { f(part, part) })
	}
	wg.Wait()
}

// TestShare compares the batches of a Vec that a crew steps with those of its own goroutines.
func TestShare(t *testing.T) {
	back := &backwards{}
	var want []envs.Batch
	for _, crew := range []envs.Crew{nil, back, together{}} {
		v, err := envs.NewVec(envcheck.Identity(5), 9, envs.VecOptions{Shards: 3, Autoreset: envs.SameStep})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if crew != nil {
			v.Share(crew)
		}
		seed := uint64(1)
		b, err := v.Reset(t.Context(), envs.VecResetOptions{Seed: &seed})
		for i := 0; err == nil && i < 30; i++ {
			got := envs.Batch{Obs: slices.Clone(b.Obs), Reward: slices.Clone(b.Reward), Terminated: slices.Clone(b.Terminated), EpisodeLength: slices.Clone(b.EpisodeLength)}
			if crew == nil {
				want = append(want, got)
			} else if !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("%T, step %d: %+v, want %+v", crew, i, got, want[i])
			}
			actions := make([]float32, 9)
			for j := range actions {
				actions[j] = float32((i + j) % 5)
			}
			b, err = v.Step(t.Context(), actions)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(back.parts) != 31 || back.parts[0] != 4 { // 9 steps of 1 µs in shards of 2 µs
		t.Errorf("the crew got %v parts, want 4 of each of 31 calls", back.parts)
	}
}

type failing struct{}

func (*failing) Spaces() (obs, act space.Space) { return space.NewBox(0, 1, 1), space.Discrete{N: 9} }

func (*failing) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }

func (*failing) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	if action[0] > 2 {
		panic("broken")
	}
	return envs.Outcome{}, nil
}

func (*failing) Observe(*cluster.State, []float32, []bool) {}

// TestCrewErrors: of all environments that fail, the error names the first.
func TestCrewErrors(t *testing.T) {
	spec := &envs.Spec{ID: "toy/Failing-v0", StepNanos: 5000, Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return &failing{}, nil }, nil
	}}
	v, err := envs.NewVec(spec, 9, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	v.Share(&backwards{})
	seed := uint64(1)
	if _, err := v.Reset(t.Context(), envs.VecResetOptions{Seed: &seed}); err != nil {
		t.Fatal(err)
	}
	_, err = v.Step(t.Context(), []float32{0, 1, 2, 3, 4, 5, 6, 7, 8})
	if err == nil || !strings.Contains(err.Error(), "environment 3: panic: broken") {
		t.Errorf("the error is %v, want the panic of environment 3", err)
	}
}
