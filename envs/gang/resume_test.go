package gang_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
)

// TestResumes: with each effect of a reconfiguration, after plans that no action names, and with noise, an episode whose
// state is loaded elsewhere has the same text, node and running pods, and ends the same.
func TestResumes(t *testing.T) {
	const steps = 18
	for _, tc := range []struct{ penalty, baseline string }{{"constant", "dynamic_mpc"}, {"per_task", "one_time"}, {"resize", "random"}, {"per_task", "random"}} {
		penalty, baseline := tc.penalty, tc.baseline
		opts := envs.VecOptions{Options: map[string]any{"steps": steps, "penalty_model": penalty, "noise": 1.0, "straggler_prob": 0.1}, Portable: true}
		v := vecOf(t, opts)
		reset(t, v, 3)
		var copies []*envs.Vec
		policies, err := envs.NewPolicies(v, baseline, 5)
		if err != nil {
			t.Fatal(err)
		}
		action := make([]float32, 1)
		for k := range steps {
			if err := policies.Follow(context.Background(), action); err != nil {
				t.Fatal(err)
			}
			plan := v.Env(0).Task().(envs.Planner).TakePlan()
			for i, x := range append([]*envs.Vec{v}, copies...) {
				if plan != nil {
					x.Env(0).Task().(envs.Planner).LeavePlan(plan)
				}
				b := step(t, x, action[0])
				if got, want := describe(t, x, b), describe(t, v, v.Last()); got != want {
					t.Fatalf("%s, %s: step %d of copy %d:\n%s\nwant\n%s", penalty, baseline, k, i-1, got, want)
				}
			}
			if k%5 > 1 && k < steps-2 {
				continue
			}
			state, err := v.AppendState(nil, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			w := vecOf(t, opts)
			b, _, err := w.LoadState(context.Background(), state)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := describe(t, w, b), describe(t, v, v.Last()); got != want {
				t.Fatalf("%s, %s: after LoadState of step %d:\n%s\nwant\n%s", penalty, baseline, k, got, want)
			}
			copies = append(copies, w)
		}
	}
}

func vecOf(t *testing.T, opts envs.VecOptions) *envs.Vec {
	t.Helper()
	v, err := envs.Make("k8s/GangWindow-v0", 1, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// describe returns all that can be seen of an environment but the order of its pods.
func describe(t *testing.T, v *envs.Vec, b *envs.Batch) string {
	t.Helper()
	text, err := v.RenderANSI(0)
	if err != nil {
		t.Fatal(err)
	}
	s := v.Env(0).State()
	var pods []string
	for i, p := range s.Pods {
		if p.Phase == cluster.Running {
			name, _, _ := strings.Cut(s.PodName(int32(i)), "-")
			pods = append(pods, fmt.Sprint(name, p.Requests, p.Created, p.Started))
		}
	}
	slices.Sort(pods)
	spans := v.Env(0).Task().(envs.Spanner).Spans()
	return fmt.Sprint(b.Obs, b.Reward, b.Info, b.Terminated, b.Truncated, "\n", text, s.Now, s.Nodes, pods, spans)
}

// TestLongEpisodesResume: the state of an episode does not grow with its age, and is loaded without its actions: after
// 3,000 steps of random windows the state is about as long as after 30.
func TestLongEpisodesResume(t *testing.T) {
	v := vecOf(t, envs.VecOptions{Options: map[string]any{"steps": 100_000, "instances": 1}, Portable: true})
	reset(t, v, 3)
	var lengths []int
	for k := range 3000 {
		step(t, v, float32(k%4))
		if k == 29 || k == 2999 {
			state, err := v.AppendState(nil, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			lengths = append(lengths, len(state))
		}
	}
	if lengths[1] > lengths[0]+100 { // more digits
		t.Errorf("states of %d bytes after 30 and 3,000 steps", lengths)
	}
}

// TestBadEpisodes: an episode's state that cannot be is an error, after which the environment can be reset.
func TestBadEpisodes(t *testing.T) {
	v := vecOf(t, envs.VecOptions{Options: map[string]any{"steps": 20}, Portable: true})
	reset(t, v, 3)
	step(t, v, 2)
	e := v.Env(0)
	task := e.Task().(envs.Resumer)
	data, err := task.AppendEpisode(nil, e.State())
	if err != nil {
		t.Fatal(err)
	}
	var good []any
	if err := json.Unmarshal(data, &good); err != nil {
		t.Fatal(err)
	}
	levels := good[9].([]any)
	with := func(at int, x any) string {
		bad := append([]any{}, good...)
		bad[at] = x
		text, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, bad := range map[string]string{
		"no JSON": "x", "short": "[1]", "step": with(0, 21), "before the first": with(0, -1), "few levels": with(9, levels[1:]), "no durations": with(10, []any{}),
		"more than the node has": with(9, append([]any{10_000}, levels[1:]...)), "few pods": with(11, []any{0}), "pods of the future": with(12, 0), "no clock": with(12, nil),
	} {
		reset(t, v, 3)
		// The cluster of a Vec is its own: the state is checked on another one.
		if err := task.ResumeEpisode(context.Background(), sim.New(), []byte(bad)); err == nil {
			t.Errorf("%s: %s is accepted", name, bad)
		}
	}
	ended, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	<-ended.Done()
	if err := task.ResumeEpisode(ended, sim.New(), data); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with an ended context: %v", err)
	}
	reset(t, v, 3)
	if b := step(t, v, 2); b.EpisodeLength[0] != 1 {
		t.Errorf("a length of %d after a reset and a step, want 1", b.EpisodeLength[0])
	}
}
