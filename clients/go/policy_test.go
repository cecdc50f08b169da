package client_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// rules is a baseline over the wire.
type rules interface {
	Act(ctx context.Context, actions []float32) error
	Step(ctx context.Context, actions []float32) (*envs.Batch, error)
	Decides(i int) bool
	Plans(i int) bool
}

// Every baseline played over the wire is the same as in this process, undiminished; random actions
// are if they come from one server.
func TestBaselines(t *testing.T) {
	s := hosttest.Start(t)
	const n = 3
	for id, kwargs := range map[string]map[string]any{
		"k8s/GangWindow-v0":            {"steps": 12, "noise": 1.0},
		"k8s/GPUPodScheduling-v0":      nil,
		"k8s/VerticalPodAutoscaler-v0": {"hold": 2},
		"k8s/LRAHierarchical-v0":       nil,
	} {
		for _, mode := range modes[:2] {
			w := local(t, id, n, envs.VecOptions{Options: kwargs, Autoreset: mode})
			opts := client.Options{Options: kwargs, Autoreset: mode}
			v := dial(t, s.Unix, id, n, opts)
			j, err := client.Join(dial(t, s.WS, id, 1, opts), dial(t, s.Unix, id, n-1, opts))
			if err != nil {
				t.Fatal(err)
			}
			names := []string{envs.RandomName}
			for _, b := range v.Spec().Baselines {
				names = append(names, b.Name)
			}
			for _, name := range names {
				t.Run(fmt.Sprintf("%s/%v/%s", id, mode, name), func(t *testing.T) { sameBaseline(t, w, name, v, v.Baseline(name, 5)) })
				if name != envs.RandomName {
					t.Run(fmt.Sprintf("%s/%v/%s/joined", id, mode, name), func(t *testing.T) { sameBaseline(t, w, name, j, j.Baseline(name, 5)) })
				}
			}
		}
	}
}

// sameBaseline plays the baseline of that name in w, and over the wire by b in v, and compares.
func sameBaseline(t *testing.T, w *envs.Vec, name string, v spacedVec, b rules) {
	want, err := envs.NewRules(w, name, 5)
	if err != nil {
		t.Logf("not for these options: %v", err)
		return
	}
	seed := uint64(3)
	for _, x := range []spacedVec{v, w} {
		if _, err := x.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
	}
	n := w.NumEnvs()
	_, act := v.Spaces()
	actions, told := make([]float32, n*act.Size()), make([]float32, n*act.Size())
	for step := range 25 {
		err, remote := want.Act(ctx, actions), b.Act(ctx, told)
		if errors.Is(err, envs.ErrBaseline) && errors.Is(remote, envs.ErrBaseline) {
			t.Logf("cannot act here: %v; %v", err, remote)
			return
		}
		if err != nil || remote != nil || !reflect.DeepEqual(actions, told) {
			t.Fatalf("step %d: %v, %v over the wire, %v, %v here", step, told, remote, actions, err)
		}
		for i := range n {
			if b.Decides(i) != w.Decides(i) || b.Plans(i) != want.Plans(i) {
				t.Fatalf("step %d: Decides %v, Plans %v; want %v, %v", step, b.Decides(i), b.Plans(i), w.Decides(i), want.Plans(i))
			}
		}
		x, err := want.StepBy(ctx, actions)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Step(ctx, told)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual([]any{got.Obs, got.Reward, got.Terminated, got.Info, got.EpisodeReturn}, []any{x.Obs, x.Reward, x.Terminated, x.Info, x.EpisodeReturn}) {
			t.Fatalf("step %d: rewards %v and infos %v over the wire, %v and %v here", step, got.Reward, got.Info, x.Reward, x.Info)
		}
	}
}

func TestBaselineErrors(t *testing.T) {
	s := hosttest.Start(t)
	v := dial(t, s.WS, "classic/CartPole-v1", 2, client.Options{})
	actions := make([]float32, 2)
	if err := v.Baseline("lean", 0).Act(ctx, actions); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Act before Reset: %v, want ErrResetNeeded", err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := v.Baseline("best", 0).Act(ctx, actions); !errors.Is(err, envs.ErrUnknownBaseline) {
		t.Errorf("an unknown baseline: %v, want ErrUnknownBaseline", err)
	}
	if err := v.Baseline("lean", 0).Act(ctx, actions[:1]); err == nil {
		t.Error("too few actions give no error")
	}
	if _, err := v.Baseline("lean", 0).Step(ctx, actions); !errors.Is(err, envs.ErrNotAsked) {
		t.Errorf("Step without Act: %v, want ErrNotAsked", err)
	}
	if _, err := v.Step(ctx, actions); err != nil {
		t.Errorf("Step afterwards: %v", err)
	}
	j, err := client.Join(v, dial(t, s.Unix, "classic/CartPole-v1", 1, client.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	b := j.Baseline("lean", 0)
	if err := b.Act(ctx, actions); err == nil {
		t.Error("too few actions for joined servers give no error")
	}
	if err := b.Act(ctx, make([]float32, 3)); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Act where one server was not reset: %v, want ErrResetNeeded", err)
	}
	if _, err := j.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Step(ctx, make([]float32, 3)); !errors.Is(err, envs.ErrNotAsked) {
		t.Errorf("Step of joined servers without Act: %v, want ErrNotAsked", err)
	}
	if err := b.Act(ctx, make([]float32, 3)); err != nil {
		t.Errorf("Act afterwards: %v", err)
	}
}
