package shadow_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	agentsbaseline "github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// synthetic returns a recording by the laws of package clustertrace, in which some pods wait.
func synthetic(t *testing.T, law clustertrace.Synthetic, seed uint64) *shadow.Recording {
	t.Helper()
	var b bytes.Buffer
	w, err := clustertrace.NewWriter(&b, clustertrace.Header{Start: start})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(clustertrace.Synthesize(w, law, rand.New(rand.NewPCG(seed, 0))), w.Close(law.Span)); err != nil {
		t.Fatal(err)
	}
	return readAll(t, &b)
}

func readAll(t *testing.T, in io.Reader) *shadow.Recording {
	t.Helper()
	r, err := clustertrace.NewReader("recording", in)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := shadow.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

var busy = clustertrace.Synthetic{Nodes: 12, Pods: 1500, Span: 24 * time.Hour, Load: 0.9, GPUNodes: 0.25}

// TestNoKnowledgeOfTheFuture changes what comes after noon: pods ask for more, and all nodes are cordoned. What was
// decided before is the same, and no pod shows how long it will run.
func TestNoKnowledgeOfTheFuture(t *testing.T) {
	const noon = 12 * time.Hour
	decisions := func(r *shadow.Recording) (before, after []string) {
		spy := policyOf("spy", func(s *cluster.State, d envs.Decision, fitting []int32) int32 {
			for i := range s.Pods {
				if p := &s.Pods[i]; p.Duration != 0 || p.Ended != 0 || p.Phase > cluster.Running {
					t.Fatalf("pod %d shows duration %v, end %v, phase %v", i, p.Duration, p.Ended, p.Phase)
				}
			}
			node := fitting[len(s.Pods)%len(fitting)]
			one := fmt.Sprintf("%v %v %d: %v on %d", s.Now, s.Pods[d.Pod].Requests, len(s.Pods), fitting, node)
			if s.Now < noon {
				before = append(before, one)
			} else {
				after = append(after, one)
			}
			return node
		})
		run(t, r, shadow.Options{Policies: []shadow.Policy{spy}})
		return before, after
	}
	r := synthetic(t, busy, 3)
	before, after := decisions(r)
	if len(before) < 500 || len(after) < 500 {
		t.Fatalf("%d and %d decisions before and after noon, want some hundreds", len(before), len(after))
	}
	changed := &shadow.Recording{Header: r.Header, Events: slices.Clone(r.Events)}
	templates := int32(0)
	for i := range changed.Events {
		e := &changed.Events[i]
		switch {
		case e.Kind == clustertrace.AddTemplate && e.At < noon:
			templates++
		case e.At < noon:
		case e.Kind == clustertrace.AddPod:
			e.Template = e.Template * 7 % templates
		case e.Kind == clustertrace.UpdateNode:
			cordoned := *e.Info
			cordoned.Unschedulable = true
			e.Info = &cordoned
		}
	}
	beforeToo, afterToo := decisions(changed)
	if !slices.Equal(before, beforeToo) {
		t.Error("decisions before noon depend on what comes after it")
	}
	if slices.Equal(after, afterToo) {
		t.Error("decisions after noon are the same: nothing was changed")
	}
}

// TestInterruptedRecording: a recorder that stops and resumes at once leads to the report of one that was never
// interrupted, and so does a second run of the same file.
func TestInterruptedRecording(t *testing.T) {
	r := synthetic(t, busy, 4)
	o := shadow.Options{Policies: []shadow.Policy{baseline("k8s/PodBalance-v0", "Greedy")}}
	report := func(r *shadow.Recording) string {
		text, err := json.Marshal(run(t, r, o))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	path := filepath.Join(t.TempDir(), "recording.jsonl.gz")
	w, err := clustertrace.Create(path, r.Header)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Events {
		e := r.Events[i]
		if i == len(r.Events)/2 {
			if err := w.Close(e.At); err != nil {
				t.Fatal(err)
			}
			if w, _, err = clustertrace.Append(path); err != nil {
				t.Fatal(err)
			}
			if err := w.Write(&clustertrace.Event{Kind: clustertrace.Gap, At: e.At}); err != nil {
				t.Fatal(err)
			}
		}
		if e.Kind == clustertrace.EndOfSegment {
			if err := w.Close(e.At); err != nil {
				t.Fatal(err)
			}
			break
		}
		if err := w.Write(&e); err != nil {
			t.Fatal(err)
		}
	}
	in, err := clustertrace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	resumed, err := shadow.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(resumed.Events) != len(r.Events)+2 { // end and gap
		t.Fatalf("%d events, want %d and two of the interruption", len(resumed.Events), len(r.Events))
	}
	want := report(r)
	if got := report(resumed); got != want {
		t.Errorf("report after an interruption:\n%s\nwant that of the undisturbed recording:\n%s", got, want)
	}
	if got := report(r); got != want {
		t.Error("a second run of the same recording gives another report")
	}
}

// TestPacksBetter: a policy that fills the fullest node first uses fewer nodes than the recorded scheduler, which
// prefers the emptiest of those that it draws.
func TestPacksBetter(t *testing.T) {
	r := run(t, synthetic(t, clustertrace.Synthetic{Nodes: 20, Pods: 2000, Span: 24 * time.Hour, Load: 0.4, GPUNodes: 0}, 1),
		shadow.Options{Policies: []shadow.Policy{baseline("k8s/PodBalance-v0", "MostAllocated")}})
	wantVerdict(t, r, "nodes_in_use", shadow.Better)
	wantVerdict(t, r, "imbalance", shadow.Worse)
}

// episode plays an episode by a baseline in the simulator, and returns it as a recording.
func episode(t *testing.T, env, name string, options map[string]any) *shadow.Recording {
	t.Helper()
	v, err := envs.Make(env, 1, envs.VecOptions{Options: options, Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	policy, err := agentsbaseline.New(v, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(5)
	b, err := v.Reset(t.Context(), envs.VecResetOptions{Seed: &seed})
	actions := make([]float32, 1)
	for err == nil && !b.Done(0) {
		if err = policy.Act(b, actions); err == nil {
			b, err = v.Step(t.Context(), actions)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	w, err := clustertrace.NewWriter(&text, clustertrace.Header{Start: start})
	if err != nil {
		t.Fatal(err)
	}
	s := v.Env(0).State()
	if err := errors.Join(clustertrace.WriteState(w, s), w.Close(s.Now.Truncate(time.Millisecond))); err != nil {
		t.Fatal(err)
	}
	return readAll(t, &text)
}

// TestEpisodesAreReproduced: an episode that the environment's own code has played is a recording; the same baseline
// then decides all of it alike, and there is no difference.
func TestEpisodesAreReproduced(t *testing.T) {
	for _, tc := range []struct {
		env, baseline string
		options       map[string]any
		waits         bool
	}{
		{env: "k8s/PodBalance-v0", baseline: "Greedy", options: map[string]any{"lifetime": 600, "steps": 800, "node_types": "mixed", "pods": "mixed"}},
		{env: "k8s/PodBalance-v0", baseline: "KubeDefault", options: map[string]any{"lifetime": 600, "steps": 800, "pods": "mixed"}},
		{env: "k8s/GPUPodScheduling-v0", baseline: "BestFit", options: map[string]any{"dynamics": "timed", "num_nodes": 16, "num_pods": 600, "load": 1.2}, waits: true},
	} {
		t.Run(tc.env+" "+tc.baseline, func(t *testing.T) {
			r := run(t, episode(t, tc.env, tc.baseline, tc.options), shadow.Options{
				Policies: []shadow.Policy{baseline(tc.env, tc.baseline)}, Block: 5 * time.Minute,
			})
			if r.Pods < 500 || r.Blocks < 6 {
				t.Fatalf("%d pods in %d blocks, want some hundreds in 6 or more", r.Pods, r.Blocks)
			}
			p := r.Policies[0]
			for i, d := range p.Differences {
				if d.Value != 0 || d.Low != 0 || d.High != 0 {
					t.Errorf("%s: difference %+v, want 0", r.Metrics[i].Name, d)
				}
			}
			if p.Agreement.Value != 100 || p.Asked < 500 {
				t.Errorf("agreement %v %% of %d, want all", p.Agreement.Value, p.Asked)
			}
			if waited := r.Recorded.Values[index(t, r, "pending_time")].Value > 0; waited != tc.waits {
				t.Errorf("pods waited: %v, want %v", waited, tc.waits)
			}
		})
	}
}

// TestOpenb: pods of a list of the published cluster come to some of its nodes, at a load at which they wait. FGD was
// published as better against fragmentation than kube-scheduler's default scores.
func TestOpenb(t *testing.T) {
	dir := envstest.Data(t, "openb", "openb_node_list_gpu_node.csv")
	const env = "k8s/GPUPodScheduling-v0"
	r := run(t, episode(t, env, "KubeDefault", map[string]any{
		"nodes": filepath.Join(dir, "openb_node_list_gpu_node.csv"), "pods": []string{filepath.Join(dir, "openb_pod_list_default.csv")},
		"dynamics": "timed", "num_nodes": 32, "num_pods": 3000, "load": 0.95, "max_duration": 14400,
	}), shadow.Options{Policies: []shadow.Policy{baseline(env, "FGD")}})
	for _, metric := range []string{"fragmentation", "pending_pods", "nodes_in_use"} {
		wantVerdict(t, r, metric, shadow.Better)
	}
}
