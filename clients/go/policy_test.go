package client_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// Every baseline played over the wire is the same as in this process, undiminished.
func TestBaselines(t *testing.T) {
	s := hosttest.Start(t)
	const n, steps = 2, 25
	seed := uint64(3)
	for id, kwargs := range map[string]map[string]any{
		"k8s/GangWindow-v0":            {"steps": 12, "noise": 1.0},
		"k8s/GPUPodScheduling-v0":      nil,
		"k8s/VerticalPodAutoscaler-v0": {"hold": 2},
		"k8s/LRAHierarchical-v0":       nil,
	} {
		for _, mode := range modes[:2] {
			w := local(t, id, n, envs.VecOptions{Options: kwargs, Autoreset: mode})
			v := dial(t, s.Unix, id, n, client.Options{Options: kwargs, Autoreset: mode})
			_, act := v.Spaces()
			names := []string{envs.RandomName}
			for _, b := range v.Spec().Baselines {
				names = append(names, b.Name)
			}
			for _, name := range names {
				t.Run(fmt.Sprintf("%s/%v/%s", id, mode, name), func(t *testing.T) {
					rules, err := envs.NewRules(w, name, 5)
					if err != nil {
						t.Logf("not for these options: %v", err)
						return
					}
					b := v.Baseline(name, 5)
					for _, x := range []spacedVec{v, w} {
						if _, err := x.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
							t.Fatal(err)
						}
					}
					actions, told := make([]float32, n*act.Size()), make([]float32, n*act.Size())
					for step := range steps {
						err, remote := rules.Act(ctx, actions), b.Act(ctx, told)
						if errors.Is(err, envs.ErrBaseline) && errors.Is(remote, envs.ErrBaseline) {
							t.Logf("cannot act here: %v; %v", err, remote)
							return
						}
						if err != nil || remote != nil || !reflect.DeepEqual(actions, told) {
							t.Fatalf("step %d: %v, %v over the wire, %v, %v here", step, told, remote, actions, err)
						}
						for i := range n {
							if b.Decides(i) != w.Decides(i) || b.Plans(i) != rules.Plans(i) {
								t.Fatalf("step %d: Decides %v, Plans %v; want %v, %v", step, b.Decides(i), b.Plans(i), w.Decides(i), rules.Plans(i))
							}
						}
						want, err := rules.StepBy(ctx, actions)
						if err != nil {
							t.Fatal(err)
						}
						got, err := b.Step(ctx, told)
						if err != nil {
							t.Fatal(err)
						}
						if !reflect.DeepEqual([]any{got.Obs, got.Reward, got.Terminated, got.Info, got.EpisodeReturn}, []any{want.Obs, want.Reward, want.Terminated, want.Info, want.EpisodeReturn}) {
							t.Fatalf("step %d: rewards %v and infos %v over the wire, %v and %v here", step, got.Reward, got.Info, want.Reward, want.Info)
						}
					}
				})
			}
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
}
