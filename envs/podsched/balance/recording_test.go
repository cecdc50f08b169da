package balance_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/balance"
)

// TestRecordingPlayed follows HandTrace: times count from the first pod that comes, at 5 s.
func TestRecordingPlayed(t *testing.T) {
	path := envstest.TempFile(t, "hand.jsonl", balance.HandTrace)
	v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Options: map[string]any{"trace": path}, Autoreset: envs.Disabled})
	s := v.Env(0).State()
	look := func(b *envs.Batch, now time.Duration, mask []bool, cpu ...int64) {
		t.Helper()
		var have []int64
		for i := range s.Nodes {
			have = append(have, s.Nodes[i].Requested.MilliCPU)
		}
		if s.Now != now || !slices.Equal(b.Mask, mask) || !slices.Equal(have, cpu) {
			t.Errorf("at %v with mask %v and CPU %v, want %v, %v and %v", s.Now, b.Mask, have, now, mask, cpu)
		}
	}
	look(envstest.Reset(t, v, 0), 0, []bool{true, false}, 0, 1000) // p0 runs on b; p1 may run on a alone
	look(envstest.Step(t, v, 0), time.Second, []bool{true, true}, 1000, 1000)
	if d := s.NodeDevices(0)[0].Free; d != 500 {
		t.Errorf("the GPU has %d thousandths free, want 500", d)
	}
	// p1 ends at 10 s and p0 at 15 s, so that p3 fits the empty node a, but not b, where p2 is.
	look(envstest.Step(t, v, 1), 25*time.Second, []bool{true, false}, 0, 2000)
	b := envstest.Step(t, v, 0)
	if !b.Terminated[0] || envstest.Column(t, v, b, "placed") != 3 || envstest.Column(t, v, b, "failed") != 0 {
		t.Errorf("terminated %v, placed %v, failed %v, want an end with three placed", b.Terminated[0], envstest.Column(t, v, b, "placed"), envstest.Column(t, v, b, "failed"))
	}
}

// TestLongLife: a pod was bound 60 years before the recording and ends after 60 years, which is longer than the clock runs. It comes when
// the recording begins, and is placed like another one.
func TestLongLife(t *testing.T) {
	path := envstest.TempFile(t, "long.jsonl", `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"a","milli_cpu":4000,"memory_bytes":8589934592,"pods":10,"gpus":1,"milli_gpu":1000}}
{"k":"template","template":{"milli_cpu":1000,"gpus":1,"milli_gpu":500}}
{"k":"pod","name":"p0"}
{"k":"bind","ago":1893456000000}
{"k":"finish","t":1893456000000,"phase":"Succeeded"}
{"k":"end"}
`)
	v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Options: map[string]any{"trace": path}, Autoreset: envs.Disabled})
	envstest.Reset(t, v, 0)
	if b := envstest.Step(t, v, 0); !b.Terminated[0] || envstest.Column(t, v, b, "placed") != 1 {
		t.Errorf("terminated %v, placed %v, want an end with one placed", b.Terminated[0], envstest.Column(t, v, b, "placed"))
	}
}

// unlikeNodes are two nodes of one size, to which the tests add a difference to b.
const unlikeNodes = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"a","milli_cpu":4000,"memory_bytes":8589934592,"pods":10}}
{"k":"node","node":{"name":"b","milli_cpu":4000,"memory_bytes":8589934592,`

// TestExactOfUnlikeNodes compares Exact with the best of all sequences of actions on a recording, whose nodes have one size but
// take different pods.
func TestExactOfUnlikeNodes(t *testing.T) {
	for name, rest := range map[string]string{
		"selector": `"pods":10,"labels":{"zone":"z2"}}}
{"k":"template","template":{"owner":"Job/x","milli_cpu":1000,"memory_bytes":1073741824,"node_selector":{"zone":"z2"}}}
`,
		"pods": `"pods":1}}
{"k":"template","template":{"owner":"Job/x","milli_cpu":3000,"memory_bytes":1073741824}}
`,
		"GPUs": `"pods":10,"gpus":1,"milli_gpu":1000,"gpu_model":"T4"}}
{"k":"template","template":{"owner":"Job/x","milli_cpu":1000,"memory_bytes":1073741824,"gpus":1,"milli_gpu":500}}
`,
	} {
		text := unlikeNodes + rest + `{"k":"template","template":{"owner":"Job/y","milli_cpu":1000,"memory_bytes":1073741824}}
{"k":"pod","t":1000,"name":"p0"}
{"k":"pod","t":1000,"tpl":1,"name":"p1"}
{"k":"pod","t":1000,"tpl":1,"name":"p2"}
{"k":"pod","t":1000,"tpl":1,"name":"p3"}
{"k":"end","t":10000}
`
		t.Run(name, func(t *testing.T) {
			v := open(t, 1, map[string]any{"trace": envstest.TempFile(t, "unlike.jsonl", text), "steps": 4})
			best := math.Inf(-1)
			for code := range 16 {
				b := reset(t, v, 0)
				for c := code; !b.Done(0); c /= 2 {
					b = step(t, v, float32(c%2))
				}
				best = max(best, b.EpisodeReturn[0])
			}
			if got := envstest.Play(t, v, envstest.Policy(t, v, "Exact"), 0).EpisodeReturn[0]; math.Abs(got-best) > 1e-9 {
				t.Errorf("Exact returns %v, want the optimum, %v", got, best)
			}
		})
	}
}

// TestRecordingWindow: with steps the seed draws where the episode begins, and steps is its number of decisions.
func TestRecordingWindow(t *testing.T) {
	v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Options: map[string]any{"trace": syntheticTrace(t), "steps": 20}, Autoreset: envs.Disabled})
	running := map[int]bool{}
	for seed := range uint64(6) {
		b := envstest.Play(t, v, envstest.Policy(t, v, "LeastAllocated"), seed)
		if n := envstest.Column(t, v, b, "placed"); n > 20 || n < 10 {
			t.Errorf("seed %d: %v pods placed in 20 steps", seed, n)
		}
		envstest.Reset(t, v, seed)
		n := 0
		for _, p := range v.Env(0).State().Pods {
			if p.Phase == cluster.Running {
				n++
			}
		}
		running[n] = true
	}
	if len(running) < 3 {
		t.Errorf("episodes begin with %v running pods, want different ones", running)
	}
}

// syntheticTrace writes a small synthetic recording.
func syntheticTrace(tb testing.TB) string {
	return writeSynthetic(tb, clustertrace.Synthetic{Nodes: 8, Pods: 150, Span: time.Hour, Load: 0.6, GPUNodes: 0.25})
}

func writeSynthetic(tb testing.TB, law clustertrace.Synthetic) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "synthetic.jsonl.zst")
	w, err := clustertrace.Create(path, clustertrace.Header{})
	if err == nil {
		err = errors.Join(clustertrace.Synthesize(w, law, rand.New(rand.NewPCG(1, 0))), w.Close(law.Span))
	}
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// TestRecordingContract plays windows: a whole recording is the same for all seeds.
func TestRecordingContract(t *testing.T) {
	path := syntheticTrace(t)
	for name, opts := range map[string]map[string]any{
		"windows, graph": {"trace": path, "steps": 40, "edges": "rack", "objective": "spread"},
		"usage":          {"trace": path, "steps": 40, "usage_min": 0.3, "measure": "usage"},
	} {
		t.Run(name, func(t *testing.T) { envcheck.Run(t, spec(t), envcheck.Options{Options: opts}) })
	}
}

func TestInvalidRecordings(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"{}\n", "the first line is no header"},
		{balance.HandTrace[:160], "no node is there for half of the recording"},
	} {
		_, err := spec(t).Open(map[string]any{"trace": envstest.TempFile(t, "bad.jsonl", tc.text)})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Open = %v, want an error with %q", err, tc.want)
		}
	}
	envstest.CheckInvalid(t, "k8s/PodBalance-v0", map[string]any{"trace": "x", "lifetime": 3.0, "steps": 3}, "say what trace says")
}

// BenchmarkReplayDay plays a day of 1,000 nodes and 100,000 pods, from the file to the last pod.
func BenchmarkReplayDay(b *testing.B) {
	path := writeSynthetic(b, clustertrace.Synthetic{Nodes: 1000, Pods: 100_000, Span: 24 * time.Hour, Load: 0.6, GPUNodes: 0.2})
	for _, policy := range []string{"LeastAllocated", "KubeDefault"} {
		b.Run(policy, func(b *testing.B) {
			for b.Loop() {
				v := envstest.Open(b, "k8s/PodBalance-v0", 1, envs.VecOptions{Options: map[string]any{"trace": path}, Autoreset: envs.Disabled})
				last := envstest.Play(b, v, envstest.Policy(b, v, policy), 0)
				b.ReportMetric(envstest.Column(b, v, last, "placed"), "placed")
				b.ReportMetric(envstest.Column(b, v, last, "failed"), "failed")
			}
		})
	}
}
