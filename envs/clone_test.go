package envs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
)

// bare hides all of a task but its methods of [envs.Task].
type bare struct{ envs.Task }

// elsewhere is a cluster that is not in memory.
type elsewhere struct{ *sim.Cluster }

func TestCannotClone(t *testing.T) {
	cartPole := &envs.Spec{ID: "toy/CartPole-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return classic.NewCartPole(classic.CartPoleOptions{}), nil }, nil
	}}
	plain := &envs.Spec{ID: "toy/Plain-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return bare{classic.NewCartPole(classic.CartPoleOptions{})}, nil }, nil
	}}
	for name, tc := range map[string]struct {
		spec *envs.Spec
		opts envs.VecOptions
		want error
	}{
		"task without Clone": {plain, envs.VecOptions{}, envs.ErrCannotClone},
		"another cluster": {cartPole, envs.VecOptions{NewCluster: func() (cluster.Cluster, error) {
			return elsewhere{sim.New()}, nil
		}}, envs.ErrCannotClone},
		"neither": {cartPole, envs.VecOptions{}, nil},
	} {
		v, err := envs.NewVec(tc.spec, 2, tc.opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.CanClone(); !errors.Is(err, tc.want) {
			t.Errorf("%s: CanClone %v, want %v", name, err, tc.want)
		}
		if _, err := v.Save(ctx); !errors.Is(err, tc.want) {
			t.Errorf("%s: Save %v, want %v", name, err, tc.want)
		}
		if _, err := v.Fork(0, []int{1}); !errors.Is(err, tc.want) {
			t.Errorf("%s: Fork %v, want %v", name, err, tc.want)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
		if _, err := v.Save(ctx); !errors.Is(err, envs.ErrClosed) {
			t.Errorf("%s: Save after Close %v, want ErrClosed", name, err)
		}
	}
}

func TestSaveHeedsItsContext(t *testing.T) {
	v, err := envs.Make("classic/CartPole-v1", 2, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := v.Save(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Save with an ended context: %v, want Canceled", err)
	}
}
