package client_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// remoteBaseline is a baseline over the wire.
type remoteBaseline interface {
	Act(ctx context.Context, actions []float32) error
	Step(ctx context.Context) (*envs.Batch, error)
	Decides(i int) bool
}

// small are options by which the episodes of an environment, or its solvers, end soon.
var small = map[string]map[string]any{
	"k8s/GangForecast-v0":                  {"steps": 2},
	"k8s/GangWindow-v0":                    {"steps": 12, "noise": 1.0},
	"k8s/VerticalPodAutoscaler-v0":         {"hold": 2},
	"k8s/VerticalPodAutoscaler-v1":         {"hold": 2},
	"k8s/VerticalPodAutoscalerDiscrete-v0": {"hold": 2},
}

// Every baseline of every environment, stepping by its name over the wire, gives what it gives in
// this process; so do random actions that come from one server.
func TestBaselines(t *testing.T) {
	s := hosttest.Start(t)
	const n = 3
	for _, spec := range envs.Specs() {
		if spec.Backend != nil || strings.HasPrefix(spec.ID, "test/") {
			continue
		}
		id, kwargs := spec.ID, small[spec.ID]
		tried := modes[:2]
		if testing.Short() {
			tried = tried[:1]
		}
		for _, mode := range tried {
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
			for i, name := range names {
				t.Run(fmt.Sprintf("%s/%v/%s", id, mode, name), func(t *testing.T) { sameBaseline(t, w, name, v, v.Baseline(name, 5)) })
				if name != envs.RandomName && (i == 1 || !testing.Short()) {
					t.Run(fmt.Sprintf("%s/%v/%s/joined", id, mode, name), func(t *testing.T) { sameBaseline(t, w, name, j, j.Baseline(name, 5)) })
				}
			}
		}
	}
}

// sameBaseline plays the baseline of that name in w, and over the wire by b in v, and compares. At
// every other moment its actions are asked for first.
func sameBaseline(t *testing.T, w *envs.Vec, name string, v spacedVec, b remoteBaseline) {
	want, err := envs.NewPolicies(w, name, 5)
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
	actions, got := make([]float32, n*act.Size()), make([]float32, n*act.Size())
	steps := 25
	if testing.Short() {
		steps = 7
	}
	for step := range steps {
		if step%2 == 0 {
			err, remote := want.Act(ctx, actions), b.Act(ctx, got)
			if errors.Is(err, envs.ErrBaseline) && errors.Is(remote, envs.ErrBaseline) {
				t.Logf("cannot act here: %v; %v", err, remote)
				return
			}
			if err != nil || remote != nil || !reflect.DeepEqual(actions, got) {
				t.Fatalf("step %d: %v, %v over the wire, %v, %v here", step, got, remote, actions, err)
			}
			for i := range n {
				if b.Decides(i) != w.Decides(i) {
					t.Fatalf("step %d: Decides %v, want %v", step, b.Decides(i), w.Decides(i))
				}
			}
		}
		x, err := want.Step(ctx)
		y, remote := b.Step(ctx)
		if errors.Is(err, envs.ErrBaseline) && errors.Is(remote, envs.ErrBaseline) {
			t.Logf("cannot act here: %v; %v", err, remote)
			return
		}
		if err != nil || remote != nil {
			t.Fatalf("step %d: %v over the wire, %v here", step, remote, err)
		}
		if !reflect.DeepEqual([]any{y.Obs, y.Reward, y.Terminated, y.Info, y.EpisodeReturn}, []any{x.Obs, x.Reward, x.Terminated, x.Info, x.EpisodeReturn}) {
			t.Fatalf("step %d: rewards %v and infos %v over the wire, %v and %v here", step, y.Reward, y.Info, x.Reward, x.Info)
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
	if _, err := v.Baseline("best", 0).Step(ctx); !errors.Is(err, envs.ErrUnknownBaseline) {
		t.Errorf("Step by an unknown baseline: %v, want ErrUnknownBaseline", err)
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
	if _, err := b.Step(ctx); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Step where one server was not reset: %v, want ErrResetNeeded", err)
	}
	if _, err := j.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Baseline("best", 0).Step(ctx); !errors.Is(err, envs.ErrUnknownBaseline) {
		t.Errorf("Step of joined servers by an unknown baseline: %v, want ErrUnknownBaseline", err)
	}
	if _, err := b.Step(ctx); err != nil {
		t.Errorf("Step afterwards: %v", err)
	}
}
