package podsched

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/trainer/clitest"
	"github.com/kubernasium/kubernasium/trainer/play"
)

// TestPooled: the command plays the episodes that compare plays, in which no policy without a look ahead waits less than pods in the pools.
func TestPooled(t *testing.T) {
	options := []string{"--env-kwargs", "num_pods:400", "--episodes", "5"}
	pooled := clitest.Decode[pooledResult](t, mustExecute(t, append([]string{"podsched", "pooled", "--json"}, options...)...))
	args := append([]string{"compare", "--json", "--env", "k8s/GPUPodScheduling-v2", "--env-kwargs", "dynamics:timed", "--baseline", "WeightedFGD"}, options...)
	played := clitest.Decode[play.Comparison](t, mustExecute(t, args...))
	if pooled.Seed != played.Seed || pooled.EnvKwargs["split"] != "heldout" {
		t.Errorf("%+v, want the held-out episodes from %d on", pooled, played.Seed)
	}
	if pooled.WaitingS <= 0 || len(played.Rows) != 1 || played.Rows[0].Mean <= pooled.WaitingS {
		t.Errorf("pods wait %v s in the pools and %+v with WeightedFGD, want more than 0, and less than with WeightedFGD", pooled.WaitingS, played.Rows)
	}
	for want, args := range map[string][]string{
		"want timed":     {"--env-kwargs", "dynamics:time_free"},
		"unknown option": {"--env", "classic/CartPole-v1"},
		"sealed block":   {"--seed", "3000000000"},
		"at least 1":     {"--episodes", "0"},
	} {
		if _, _, err := execute(t, t.Context(), append([]string{"podsched", "pooled"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", args, err, want)
		}
	}
}

// recordingOf writes a recording of a node with a T4 and one with an A100, on which come the pods of further lines. Template 0 wants
// the T4, template 1 half of any GPU, and template 2 two GPUs.
func recordingOf(t *testing.T, lines string) string {
	t.Helper()
	return envstest.TempFile(t, "recording.jsonl", `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"a","milli_cpu":8000,"memory_bytes":8589934592,"pods":110,"gpus":1,"milli_gpu":1000,"gpu_model":"T4"}}
{"k":"node","node":{"name":"b","milli_cpu":8000,"memory_bytes":8589934592,"pods":110,"gpus":1,"milli_gpu":1000,"gpu_model":"A100"}}
{"k":"template","template":{"milli_cpu":100,"gpus":1,"milli_gpu":1000,"gpu_models":["T4"]}}
{"k":"template","template":{"milli_cpu":100,"gpus":1,"milli_gpu":500}}
{"k":"template","template":{"milli_cpu":100,"gpus":2,"milli_gpu":1000}}
`+lines+`{"k":"end","t":1000}
`)
}

// TestPooledBesideRunning: the last of five pods is held out. It comes after 10 s and waits until the first one, which runs on
// the only T4, ends after 20 s. Only its wait counts, as in the environment.
func TestPooledBesideRunning(t *testing.T) {
	path := recordingOf(t, `{"k":"pod","name":"p0"}
{"k":"bind","gpus":[0]}
{"k":"pod","tpl":1,"name":"p1"}
{"k":"pod","tpl":1,"name":"p2"}
{"k":"pod","tpl":1,"name":"p3"}
{"k":"pod","t":10000,"name":"p4"}
{"k":"finish","t":10000,"phase":"Succeeded"}
{"k":"bind","p":4,"gpus":[0]}
{"k":"finish","t":10000,"p":4,"phase":"Succeeded"}
`)
	got := clitest.Decode[pooledResult](t, mustExecute(t, "podsched", "pooled", "--json", "--env-kwargs", "trace:"+path, "--episodes", "1"))
	if got.WaitingS != 10 {
		t.Errorf("pods wait %v s, want 10", got.WaitingS)
	}
}

// TestNoDecision: of five pods the last one is held out, and wants two GPUs of a node that has one. Its episodes begin without a decision.
func TestNoDecision(t *testing.T) {
	path := recordingOf(t, `{"k":"pod","tpl":1,"name":"p0"}
{"k":"pod","tpl":1,"name":"p1"}
{"k":"pod","tpl":1,"name":"p2"}
{"k":"pod","tpl":1,"name":"p3"}
{"k":"pod","t":1000,"tpl":2,"name":"p4"}
`)
	got := clitest.Decode[pooledResult](t, mustExecute(t, "podsched", "pooled", "--json", "--env-kwargs", "trace:"+path, "--episodes", "2"))
	if got.WaitingS != 0 {
		t.Errorf("no pod is placed, and pods wait %v s", got.WaitingS)
	}
	args := []string{"podsched", "advantage", "--out", filepath.Join(t.TempDir(), "model.safetensors"), "--env-kwargs", "trace:" + path, "--env-kwargs", "split:heldout", "--episodes", "2"}
	for _, dynamics := range []string{"time_free", "timed"} {
		_, _, err := execute(t, t.Context(), append(args, "--env-kwargs", "dynamics:"+dynamics)...)
		if err == nil || !strings.Contains(err.Error(), "no decision to learn from") {
			t.Errorf("dynamics %s: error %v, want that there is no decision to learn from", dynamics, err)
		}
	}
}
