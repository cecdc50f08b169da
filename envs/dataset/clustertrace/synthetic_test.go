package clustertrace_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// synthesize writes a synthetic recording.
func synthesize(tb testing.TB, path string, law clustertrace.Synthetic) *clustertrace.Writer {
	tb.Helper()
	w, err := clustertrace.Create(path, clustertrace.Header{Start: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Source: "synthetic"})
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(clustertrace.Synthesize(w, law, rand.New(rand.NewPCG(1, 0))), w.Close(law.Span)); err != nil {
		tb.Fatal(err)
	}
	return w
}

// TestSynthesize adds up the requests on each node after every event: no node ever runs more than it has,
// no pod is where it may not be, and the load is near the law's.
func TestSynthesize(t *testing.T) {
	law := clustertrace.Synthetic{Nodes: 60, Pods: 6000, Span: 24 * time.Hour, Load: 0.6, GPUNodes: 0.2}
	path := filepath.Join(t.TempDir(), "day.jsonl.zst")
	synthesize(t, path, law)
	r, err := clustertrace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	type free struct {
		cpu, memory int64
		gpu         [8]int32
	}
	type pod struct {
		tpl     *clustertrace.Template
		node    int32
		devices []int
		freed   bool
	}
	var (
		nodes []clustertrace.Node
		left  []free
		pods  []pod
		last  time.Duration
		kinds = map[clustertrace.Kind]int{}

		capacity, used, cpuTime, gpus, usedGPUs, gpuTime float64 // of nodes without GPUs, and of GPUs
	)
	take := func(p *pod, sign int64) {
		f := &left[p.node]
		f.cpu, f.memory = f.cpu-sign*p.tpl.MilliCPU, f.memory-sign*p.tpl.MemoryBytes
		for _, d := range p.devices {
			f.gpu[d] -= int32(sign) * p.tpl.MilliGPU
			usedGPUs += float64(sign) * float64(p.tpl.MilliGPU) / 1000
		}
		if nodes[p.node].GPUs == 0 {
			used += float64(sign * p.tpl.MilliCPU)
		}
		if f.cpu < 0 || f.memory < 0 || min(f.gpu[0], f.gpu[1], f.gpu[7]) < 0 {
			t.Fatalf("node %d has %+v left", p.node, *f)
		}
	}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds[e.Kind]++
		cpuTime += used * float64(e.At-last)
		gpuTime += usedGPUs * float64(e.At-last)
		last = e.At
		switch e.Kind {
		case clustertrace.AddNode:
			nodes = append(nodes, *e.Info)
			f := free{cpu: e.Info.MilliCPU, memory: e.Info.MemoryBytes}
			for d := range e.Info.GPUs {
				f.gpu[d] = 1000
			}
			if gpus += float64(e.Info.GPUs); e.Info.GPUs == 0 {
				capacity += float64(e.Info.MilliCPU)
			}
			left = append(left, f)
		case clustertrace.UpdateNode:
			nodes[e.Node] = *e.Info
		case clustertrace.AddPod:
			pods = append(pods, pod{tpl: r.Templates()[e.Template], node: -1})
		case clustertrace.BindPod:
			p := &pods[e.Pod]
			if why := p.tpl.Refusal(&nodes[e.Node]); why != "" || len(e.Devices) != int(p.tpl.GPUs) {
				t.Fatalf("pod %d on node %d with GPUs %v: %s", e.Pod, e.Node, e.Devices, why)
			}
			p.node, p.devices = e.Node, e.Devices
			take(p, 1)
		case clustertrace.UpdatePod:
			if p := &pods[e.Pod]; p.node >= 0 {
				take(p, -1)
				p.tpl = r.Templates()[e.Template]
				take(p, 1)
			}
		case clustertrace.FinishPod, clustertrace.DeletePod:
			if p := &pods[e.Pod]; p.node >= 0 && !p.freed {
				take(p, -1)
				p.freed = true
			}
		}
	}
	if n := len(pods); n < law.Pods*98/100 || n > law.Pods*102/100 || len(nodes) != law.Nodes {
		t.Errorf("%d pods and %d nodes, want about %d and %d", n, len(nodes), law.Pods, law.Nodes)
	}
	for _, k := range []clustertrace.Kind{clustertrace.UpdateNode, clustertrace.UpdatePod, clustertrace.FinishPod, clustertrace.DeletePod} {
		if kinds[k] == 0 {
			t.Errorf("no event of kind %s", k)
		}
	}
	// The law's load is a mean over the span; jobs that outlast it, and the ramp at its beginning, take some away.
	if cpu, gpu := cpuTime/(capacity*float64(law.Span)), gpuTime/(gpus*float64(law.Span)); cpu < 0.45 || cpu > 0.7 || gpu < 0.4 || gpu > 0.7 {
		t.Errorf("load %.2f of CPU and %.2f of GPUs, want about %.2f", cpu, gpu, law.Load)
	}
}

// TestSynthesizeOnlyGPUs: where every node has GPUs, all pods want some, and request about the load of them: sums of the
// requests of bound pods over their times.
func TestSynthesizeOnlyGPUs(t *testing.T) {
	law := clustertrace.Synthetic{Nodes: 12, Pods: 3000, Span: 24 * time.Hour, Load: 0.6, GPUNodes: 1}
	path := filepath.Join(t.TempDir(), "day.jsonl")
	synthesize(t, path, law)
	trace, err := clustertrace.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(trace.Pods); n != law.Pods {
		t.Errorf("%d pods, want %d", n, law.Pods)
	}
	used, unbound := 0.0, 0
	for i := range trace.Pods {
		p := &trace.Pods[i]
		spec := trace.Templates[p.Template]
		if spec.GPUs == 0 {
			t.Fatalf("pod %s wants no GPU", p.Name)
		}
		if p.Bound == clustertrace.Never {
			unbound++
			continue
		}
		used += float64(spec.GPUs*spec.MilliGPU) / 1000 * float64(min(p.Freed(), law.Span)-p.Bound)
	}
	// As in TestSynthesize, jobs that outlast the span take some of the load away.
	if load := used / (12 * 8 * float64(law.Span)); load < 0.45 || load > 0.65 || unbound > 30 {
		t.Errorf("load %.2f of the GPUs and %d pods never bound, want about %.2f and hardly any", load, unbound, law.Load)
	}
}

// day is a day of a large cluster.
var day = clustertrace.Synthetic{Nodes: 1000, Pods: 100_000, Span: 24 * time.Hour, Load: 0.6, GPUNodes: 0.2}

func BenchmarkSynthesizeDay(b *testing.B) {
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "day.jsonl.zst")
		w := synthesize(b, path, day)
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/1e6, "MB")
		b.ReportMetric(float64(w.Bytes())/1e6, "MB-plain")
		b.ReportMetric(float64(w.Events()), "events")
		os.Remove(path)
	}
}

func BenchmarkLoadDay(b *testing.B) {
	path := filepath.Join(b.TempDir(), "day.jsonl.zst")
	synthesize(b, path, day)
	b.ReportAllocs()
	for b.Loop() {
		t, err := clustertrace.Load(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(t.Pods)), "pods")
	}
}
