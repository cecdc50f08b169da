package gpu

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/gpuworkload"
)

// handTrace has a node with a T4 and one without GPU; pods come at 5, 6 and 30 s.
const handTrace = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"a","milli_cpu":4000,"memory_bytes":8589934592,"pods":10,"gpus":1,"milli_gpu":1000,"gpu_model":"T4"}}
{"k":"node","node":{"name":"b","milli_cpu":4000,"memory_bytes":8589934592,"pods":10}}
{"k":"template","template":{"milli_cpu":1000,"memory_bytes":1073741825,"gpus":1,"milli_gpu":500,"gpu_models":["T4"]}}
{"k":"pod","t":5000,"name":"p1"}
{"k":"bind","t":100,"gpus":[0]}
{"k":"run","t":900}
{"k":"pod","name":"p2"}
{"k":"finish","t":9000,"phase":"Succeeded"}
{"k":"pod","t":15000,"name":"p3"}
{"k":"end","t":10000}
`

// TestRecordingPlayed: times count from the first pod played, and durations from a pod's start.
func TestRecordingPlayed(t *testing.T) {
	path := write(t, "hand.jsonl", handTrace)
	_, task := open(t, map[string]any{"trace": path, "dynamics": "timed", "num_pods": 3})
	src, in := task.src, &task.in
	if n := src.Nodes; len(n) != 2 || n[0].Model != "T4" || n[0].MaxPods != 10 || n[1].GPUs != 0 || n[1].MemoryMiB != 8192 {
		t.Errorf("nodes %+v, want a with a T4 and b without", n)
	}
	src.Draw(t.Context(), 0, in)
	// Of three pods the last fifth is none, so that training sees all. The first ran from 6 s to 15 s.
	if a := in.Arrivals; len(a) != 3 || a[1].At != time.Second || a[2].At != 25*time.Second || a[0].Duration != 9*time.Second || a[1].Duration != 0 {
		t.Errorf("arrivals %+v, want pods at 0, 1 and 25 s, the first for 9 s", a)
	}
	if c := src.Catalogue.Classes[in.Arrivals[0].Class]; c.MemoryMiB != 1025 || c.Models != "T4" || c.MilliGPU != 500 {
		t.Errorf("class %+v, want 1025 MiB, rounded up, and half a T4", c)
	}
	envstest.CheckInvalid(t, "k8s/GPUPodScheduling-v0", map[string]any{"trace": path, "nodes": path}, "say what trace says")
}

// runTrace has a node with two T4. Before the recording began, p0 got half a GPU of it, p1 a whole one of which nobody says which,
// and p2 one more that is not there; p3 ended before the first pod comes, at 5 s.
const runTrace = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"a","milli_cpu":8000,"memory_bytes":8589934592,"pods":10,"gpus":2,"milli_gpu":1000,"gpu_model":"T4"}}
{"k":"template","template":{"milli_cpu":1000,"memory_bytes":1073741825,"gpus":1,"milli_gpu":500}}
{"k":"template","template":{"milli_cpu":1000,"memory_bytes":1073741824,"gpus":1,"milli_gpu":1000}}
{"k":"pod","name":"p0","ago":60000}
{"k":"bind","ago":50000,"gpus":[1]}
{"k":"run","ago":50000}
{"k":"pod","name":"p1","tpl":1,"ago":40000}
{"k":"bind","p":1,"ago":40000}
{"k":"run","p":1,"ago":40000}
{"k":"pod","name":"p2","tpl":1,"ago":30000}
{"k":"bind","p":2,"ago":30000}
{"k":"run","p":2,"ago":30000}
{"k":"pod","name":"p3","ago":20000}
{"k":"bind","p":3,"ago":20000,"gpus":[1]}
{"k":"run","p":3,"ago":20000}
{"k":"finish","t":4000,"p":3,"phase":"Succeeded"}
{"k":"pod","t":1000,"name":"p4","tpl":1}
{"k":"finish","t":10000,"phase":"Succeeded"}
{"k":"end","t":10000}
`

// TestRecordingRuns: an episode begins with the pods that ran then, each for the rest of its time. p4 needs a whole GPU, of which
// p1 has the first for ever, and waits 10 s for p0's end.
func TestRecordingRuns(t *testing.T) {
	v, task := open(t, map[string]any{"trace": write(t, "run.jsonl", runTrace), "dynamics": "timed", "num_pods": 1})
	reset(t, v, 0)
	in := &task.in
	want := []gpuworkload.Placement{{Devices: 2}, {Devices: 1}}
	if diff := cmp.Diff(want, in.Running); diff != "" || len(in.Arrivals) != 3 || in.Arrivals[0].Duration != 10*time.Second || in.Arrivals[1].Duration != 0 {
		t.Fatalf("arrivals %+v, running (-want +got):\n%s", in.Arrivals, diff)
	}
	s := v.Env(0).State()
	if s.Now != 10*time.Second || s.Pods[0].Phase != cluster.Succeeded || s.Pods[1].Phase != cluster.Running || s.NodeDevices(0)[0].Free != 0 || s.NodeDevices(0)[1].Free != 1000 {
		t.Errorf("at %v: pods %+v, devices %+v, want p1 alone at 10 s, on the first GPU", s.Now, s.Pods, s.NodeDevices(0))
	}
	checkWorld(t, task, s)
	b := step(t, v, 0)
	if !b.Terminated[0] || envstest.Column(t, v, b, "placed") != 1 || envstest.Column(t, v, b, "failed") != 0 {
		t.Errorf("terminated %v with %v placed and %v failed, want p4 alone placed", b.Terminated[0], envstest.Column(t, v, b, "placed"), envstest.Column(t, v, b, "failed"))
	}
	// Without times, the pods that were there may come, too: of five pods four are for training, from p0 on.
	_, free := open(t, map[string]any{"trace": write(t, "free.jsonl", runTrace)})
	begins := map[int32]bool{}
	for seed := range uint64(20) {
		free.src.Draw(t.Context(), seed, &free.in)
		begins[free.in.Arrivals[0].Class] = true
		if len(free.in.Running) > 0 {
			t.Errorf("seed %d: %d pods run in time-free dynamics", seed, len(free.in.Running))
		}
	}
	if len(begins) != 2 {
		t.Errorf("episodes begin with classes %v, want both", begins)
	}
}

// stuckTrace has a node with a T4, of which p0 has a half for ever. p1 wants a whole one; p2, with a half, fits.
const stuckTrace = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"a","milli_cpu":8000,"memory_bytes":8589934592,"pods":10,"gpus":1,"milli_gpu":1000,"gpu_model":"T4"}}
{"k":"template","template":{"milli_cpu":1000,"memory_bytes":1073741824,"gpus":1,"milli_gpu":500}}
{"k":"template","template":{"milli_cpu":1000,"memory_bytes":1073741824,"gpus":1,"milli_gpu":1000}}
{"k":"pod","name":"p0","ago":40000}
{"k":"bind","ago":40000,"gpus":[0]}
{"k":"run","ago":40000}
{"k":"pod","t":1000,"name":"p1","tpl":1}
{"k":"pod","t":1000,"name":"p2"}
{"k":"end","t":10000}
`

// TestRecordingStuck: nothing ends, so that p1 is given up when p2 is placed.
func TestRecordingStuck(t *testing.T) {
	v, task := open(t, map[string]any{"trace": write(t, "stuck.jsonl", stuckTrace), "dynamics": "timed", "num_pods": 2})
	reset(t, v, 0)
	if s := v.Env(0).State(); s.Now != time.Second || task.current != 2 {
		t.Fatalf("at %v pod %d is to place, want p2 at 1 s", s.Now, task.current)
	}
	b := step(t, v, 0)
	if !b.Terminated[0] || envstest.Column(t, v, b, "placed") != 1 || envstest.Column(t, v, b, "failed") != 1 || envstest.Column(t, v, b, "waiting") != 0 {
		t.Errorf("terminated %v with info %v, want an end with one placed, one failed and none waiting", b.Terminated[0], b.Info)
	}
	checkWorld(t, task, v.Env(0).State())
}

// TestRecordingOutlivesClock: p1 was bound 63 years before it came and ends 63 years after, so that from 10 s on, when p0 frees the only
// GPU, it runs beyond the end of the clock. The other three of the first five pods never get the GPU and fail; the sixth is held out.
func TestRecordingOutlivesClock(t *testing.T) {
	path := write(t, "long.jsonl", `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"a","milli_cpu":4000,"memory_bytes":8589934592,"pods":10,"gpus":1,"milli_gpu":1000}}
{"k":"template","template":{"milli_cpu":100,"gpus":1,"milli_gpu":1000}}
{"k":"pod","name":"p0"}
{"k":"bind"}
{"k":"pod","name":"p1"}
{"k":"finish","t":10000,"phase":"Succeeded"}
{"k":"bind","p":1,"ago":2000000000000}
{"k":"pod","t":1000,"name":"p2"}
{"k":"pod","name":"p3"}
{"k":"pod","name":"p4"}
{"k":"pod","name":"p5"}
{"k":"finish","t":2000000000000,"p":1,"phase":"Succeeded"}
{"k":"end"}
`)
	v, _ := open(t, map[string]any{"trace": path, "dynamics": "timed"})
	b := envstest.Reset(t, v, 0)
	for !b.Terminated[0] {
		b = envstest.Step(t, v, 0)
	}
	if placed, failed := envstest.Column(t, v, b, "placed"), envstest.Column(t, v, b, "failed"); placed != 2 || failed != 3 {
		t.Errorf("%v pods placed and %v failed, want 2 and 3", placed, failed)
	}
}

// TestRecordedOutlook: of five pods the last one, held out, wants no GPU. Version 1 knows nothing of it.
func TestRecordedOutlook(t *testing.T) {
	pod, last, _ := strings.Cut(handTrace, `{"k":"pod","t":5000,"name":"p1"}`)
	_, last, _ = strings.Cut(last, `{"k":"end"`)
	for i := range 4 {
		pod += fmt.Sprintf("{\"k\":\"pod\",\"t\":1000,\"name\":\"p%d\"}\n", i)
	}
	pod += `{"k":"template","template":{"milli_cpu":1000,"memory_bytes":1073741825}}` + "\n"
	path := write(t, "five.jsonl", pod+`{"k":"pod","t":1000,"name":"p4","tpl":1}`+"\n"+`{"k":"end"`+last)
	for id, want := range map[string]float64{"k8s/GPUPodScheduling-v0": 0.2, "k8s/GPUPodScheduling-v1": 0} {
		v := envstest.Open(t, id, 1, envs.VecOptions{Options: map[string]any{"trace": path}})
		reset(t, v, 0)
		if got := v.Env(0).Task().(*Task).in.Outlook.Kinds[0]; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: of the pods to come %v want no GPU, want %v", id, got, want)
		}
	}
}

func TestRecordingContract(t *testing.T) {
	law := clustertrace.Synthetic{Nodes: 10, Pods: 300, Span: time.Hour, Load: 0.6, GPUNodes: 0.4}
	path := filepath.Join(t.TempDir(), "day.jsonl.gz")
	w, err := clustertrace.Create(path, clustertrace.Header{})
	if err == nil {
		err = errors.Join(clustertrace.Synthesize(w, law, rand.New(rand.NewPCG(1, 0))), w.Close(law.Span))
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]map[string]any{
		"time-free": {"trace": path},
		"timed":     {"trace": path, "dynamics": "timed", "num_pods": 60, "reward": "waiting"},
		"held out":  {"trace": path, "dynamics": "timed", "num_pods": 20, "split": "heldout"},
	} {
		t.Run(name, func(t *testing.T) {
			envcheck.Run(t, envstest.Spec(t, "k8s/GPUPodScheduling-v0"), envcheck.Options{Options: opts})
		})
	}
	v, task := open(t, map[string]any{"trace": path, "dynamics": "timed", "num_pods": 60})
	for b := reset(t, v, 3); !b.Done(0); b = step(t, v, float32(firstTrue(b))) {
		checkWorld(t, task, v.Env(0).State())
	}
}

func firstTrue(b *envs.Batch) int {
	for i, ok := range b.Mask {
		if ok {
			return i
		}
	}
	return 0
}
