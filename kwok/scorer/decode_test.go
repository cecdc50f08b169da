//go:build unix

package scorer

import (
	"bytes"
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/tools/cputime"
)

// TestDecode reads a pod and nodes in either order, and skips the rest.
func TestDecode(t *testing.T) {
	const pod = `"pod": {"metadata": {"name": "p", "uid": "u"}}`
	const nodes = `"nodes": [{"metadata": {"name": "a", "labels": {"zone": "x,{["}}, "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}]}}, {"metadata": {"name": "b"}}]`
	const free = `"free": {"a": {"gpu_m": [1, 2, {"deep": []}]}}, "other": "}"`
	for _, text := range []string{
		"{" + pod + ", " + nodes + `, "reserve": true, ` + free + "}",
		"{" + free + `, "reserve": true, ` + nodes + ", " + pod + "}",
	} {
		q, err := Decode(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if q.Pod.Name != "p" || q.Pod.UID != "u" || !q.Reserve || len(q.Nodes) != 2 || q.Free != nil {
			t.Fatalf("%s: %+v", text, q)
		}
		if a := q.Nodes[0]; a.Name != "a" || a.Labels["zone"] != "x,{[" || !a.Spec.Unschedulable || a.Spec.Taints[0].Key != "k" || q.Nodes[1].Name != "b" {
			t.Errorf("nodes %+v", q.Nodes)
		}
	}
	for _, text := range []string{"", "[]", "{", `{"nodes": {}}`, `{"nodes": [1]}`, `{"pod": []}`, `{"free": [}`, `{"reserve": 1}`} {
		if q, err := Decode(strings.NewReader(text)); err == nil {
			t.Errorf("%q gives %+v, want an error", text, q)
		}
	}
}

// TestDecodeIsBounded: no body of 32 MB costs more than 500 MB, whether it is read or refused. BenchmarkDecode measures
// the time, at most 2 s of a core; what takes ten is far from linear. 5,000 nodes of 6 KB are read.
func TestDecodeIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("bodies of 32 MB; run without -short")
	}
	for name, make := range bodies(t, 32<<20) {
		body := make()
		debug.FreeOSMemory()
		before, begin := held(), cputime.Used()
		q, err := Decode(bytes.NewReader(body))
		took := cputime.Used() - begin
		cost := (held() - before) >> 20
		t.Logf("%-18s %3d MB: %4d ms, %3d MiB more; %.80v", name, len(body)>>20, took.Milliseconds(), cost, err)
		if took > 10*time.Second || cost > 500 {
			t.Errorf("%s: %v and %d MiB, want at most 10 s and 500 MiB", name, took, cost)
		}
		if whole := name == "5,000 whole nodes"; whole && (err != nil || len(q.Nodes) != 5000) {
			t.Errorf("%s: %v", name, err)
		}
		runtime.KeepAlive(q)
	}
}

// BenchmarkDecode reads or refuses bodies of 32 MB.
func BenchmarkDecode(b *testing.B) {
	for name, make := range bodies(b, 32<<20) {
		b.Run(name, func(b *testing.B) {
			body := make()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				_, _ = Decode(bytes.NewReader(body)) // many of them are refused
			}
		})
	}
}

// bodies are requests of about size bytes that cost more than others.
func bodies(t testing.TB, size int) map[string]func() []byte {
	fill := func(head, unit, tail string) func() []byte {
		return func() []byte {
			return []byte(head + strings.Repeat(unit+",", (size-len(head)-len(tail))/(len(unit)+1)-1) + unit + tail)
		}
	}
	return map[string]func() []byte{
		"nodes":             fill(`{"nodes":[`, "{}", "]}"),
		"containers":        fill(`{"pod":{"spec":{"containers":[`, "{}", "]}}}"),
		"conditions":        fill(`{"nodes":[{"status":{"conditions":[`, "{}", "]}}]}"),
		"pods":              fill(`{`, `"pod":{"spec":{"containers":[{},{},{},{},{},{},{},{}]}}`, "}"),
		"nodes of images":   fill(`{"nodes":[`, `{"status":{"images":[`+strings.Repeat("{},", 19_000)+`{}]}}`, "]}"),
		"free":              fill(`{"free":{`, `"a":{}`, "}}"),
		"unknown":           fill(`{"x":[`, "[]", "]}"),
		"deep":              func() []byte { return []byte(`{"x":` + strings.Repeat("[", size-8)) },
		"string":            func() []byte { return []byte(`{"pod":"` + strings.Repeat("x", size-10) + `"}`) },
		"key":               func() []byte { return []byte(`{"` + strings.Repeat("x", size-10) + `":1}`) },
		"labels of a node":  fill(`{"nodes":[{"metadata":{"labels":{`, `"a":"b"`, "}}}]}"),
		"5,000 whole nodes": func() []byte { return cluster(t, 5000) },
	}
}

// held returns the bytes of heap that the process has of the operating system. Garbage counts.
func held() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapSys - m.HeapReleased)
}

// cluster is a request with nodes as kubelets report them, with 50 images each.
func cluster(t testing.TB, n int) []byte {
	t.Helper()
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"kubernetes.io/hostname": "node"}}}
	for range 50 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{"registry.example/team/program@sha256:" + strings.Repeat("0", 60)}, SizeBytes: 1})
	}
	q := Request{Pod: &corev1.Pod{}}
	for range n {
		q.Nodes = append(q.Nodes, node)
	}
	body, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"pod":{"metadata":{"name":"p"}},"nodes":[{}],"free":{"a":{}},"reserve":true}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := Decode(bytes.NewReader(body))
		if err != nil {
			return
		}
		var want Request // encoding/json reads whatever Decode does
		if err := json.Unmarshal(body, &want); err == nil && len(want.Nodes) != len(q.Nodes) {
			t.Errorf("%d nodes of %s, want %d", len(q.Nodes), body, len(want.Nodes))
		}
	})
}
