package clustertrace_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// sample is a recording written by hand: one node with two GPUs, one pod that runs from 1.5 s on and
// finishes after a minute, one that is bound to no node.
const sample = `{"format":"kubernasium.cluster-trace","version":1,"start":"2026-03-01T10:00:00Z"}
{"k":"node","node":{"name":"a","milli_cpu":8000,"memory_bytes":34359738368,"pods":110,"gpus":2,"milli_gpu":1000,"gpu_model":"T4","labels":{"zone":"z1"}}}
{"k":"template","t":1000,"template":{"namespace":"default","owner":"Job/train","milli_cpu":1000,"gpus":1,"milli_gpu":500}}
{"k":"pod","ago":250,"name":"train-x","uid":"u1"}
{"k":"bind","t":500,"gpus":[1]}
{"k":"run"}
{"k":"pod","t":100,"name":"train-y"}
{"k":"template","template":{"namespace":"default","owner":"Job/train","milli_cpu":2000,"gpus":1,"milli_gpu":500}}
{"k":"update_pod","p":1,"tpl":1}
{"k":"finish","t":60000,"phase":"Succeeded"}
{"k":"delete","t":5,"preempted":true}
{"k":"update_node","t":1,"node":{"name":"a","milli_cpu":8000,"memory_bytes":34359738368,"pods":110,"unschedulable":true}}
{"k":"end","t":1}
`

const second = time.Second

func TestLoad(t *testing.T) {
	got, err := clustertrace.Load(envstest.TempFile(t, "sample.jsonl", sample))
	if err != nil {
		t.Fatal(err)
	}
	// The times are the sums of the deltas in sample, added by hand.
	want := []clustertrace.PodLife{{
		Name: "train-x", UID: "u1", Node: 0, Devices: []int{1}, Phase: clustertrace.Succeeded,
		Created: 750 * time.Millisecond, Bound: 1500 * time.Millisecond, Started: 1500 * time.Millisecond,
		Finished: 61600 * time.Millisecond, Deleted: 61605 * time.Millisecond,
	}, {
		Name: "train-y", Node: -1, Updates: []clustertrace.Update{{At: 1600 * time.Millisecond, Template: 1}},
		Created: 1600 * time.Millisecond, Bound: clustertrace.Never, Started: clustertrace.Never, Finished: clustertrace.Never, Deleted: clustertrace.Never,
	}}
	if d := cmp.Diff(want, got.Pods); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	if got.End != 61607*time.Millisecond || len(got.Nodes) != 1 || len(got.Nodes[0].States) != 2 || !got.Nodes[0].Last().Unschedulable {
		t.Errorf("end %v, nodes %+v, want 61.607s and one node with two states, cordoned at last", got.End, got.Nodes)
	}
	if got.Templates[got.Pods[1].Last()].MilliCPU != 2000 {
		t.Errorf("after its update train-y requests %d, want 2000", got.Templates[got.Pods[1].Last()].MilliCPU)
	}
}

// events reads all events of a recording.
func events(t *testing.T, path string) ([]clustertrace.Event, *clustertrace.Reader) {
	t.Helper()
	r, err := clustertrace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []clustertrace.Event
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, r
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

func TestWriterRoundTrip(t *testing.T) {
	want, r := events(t, envstest.TempFile(t, "sample.jsonl", sample))
	for _, name := range []string{"t.jsonl", "t.jsonl.gz", "t.jsonl.zst"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			w, err := clustertrace.Create(path, r.Header)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range want[:len(want)-1] {
				if err := w.Write(&e); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(want[len(want)-1].At); err != nil {
				t.Fatal(err)
			}
			got, again := events(t, path)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
			if again.Header != r.Header {
				t.Errorf("header %+v, want %+v", again.Header, r.Header)
			}
			if _, err := clustertrace.Create(path, r.Header); !errors.Is(err, os.ErrExist) {
				t.Errorf("Create over a recording = %v, want %v", err, os.ErrExist)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if name == "t.jsonl" && string(text) != sample {
				t.Errorf("written:\n%s\nwant:\n%s", text, sample)
			}
		})
	}
}

// TestCut cuts a flushed recording at many lengths: what is readable is whole lines of it, and the error
// says that it is cut.
func TestCut(t *testing.T) {
	want, r := events(t, envstest.TempFile(t, "sample.jsonl", sample))
	for _, name := range []string{"t.jsonl", "t.jsonl.gz", "t.jsonl.zst"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			w, err := clustertrace.Create(path, r.Header)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want[:len(want)-1] {
				if err := errors.Join(w.Write(&want[i]), w.Flush()); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(want[len(want)-1].At); err != nil {
				t.Fatal(err)
			}
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			most := 0
			for n := 0; n < len(whole)-20; n += 7 {
				pods, err := cutAt(t, name, whole[:n])
				if err == nil || strings.Contains(err.Error(), "header") {
					continue
				}
				if !errors.Is(err, clustertrace.ErrCut) {
					t.Fatalf("cut after %d bytes: %v, want ErrCut", n, err)
				}
				most = max(most, pods)
			}
			if most != 2 {
				t.Errorf("at most %d pods of cut recordings are readable, want 2", most)
			}
		})
	}
}

// cutAt loads the recording text and continues it.
func cutAt(t *testing.T, name string, text []byte) (pods int, err error) {
	t.Helper()
	path := envstest.TempFile(t, name, string(text))
	trace, err := clustertrace.Load(path)
	if trace == nil {
		return 0, err
	}
	w, again, fail := clustertrace.Append(path)
	if fail != nil {
		t.Fatalf("Append after %d bytes: %v", len(text), fail)
	}
	if d := cmp.Diff(trace, again); d != "" {
		t.Fatalf("Append (-Load +Append):\n%s", d)
	}
	if fail := errors.Join(w.Write(&clustertrace.Event{Kind: clustertrace.Gap, At: trace.End + second}), w.Close(0)); fail != nil {
		t.Fatal(fail)
	}
	whole, fail := clustertrace.Load(path)
	if fail != nil {
		t.Fatalf("after Append: %v", fail)
	}
	trace.Gaps, trace.End = append(trace.Gaps, clustertrace.Span{From: trace.End, To: trace.End + second}), trace.End+second
	if d := cmp.Diff(trace, whole); d != "" {
		t.Fatalf("continued (-want +got):\n%s", d)
	}
	return len(trace.Pods), err
}

func TestAppendToComplete(t *testing.T) {
	for _, name := range []string{"t.jsonl", "t.jsonl.gz", "t.jsonl.zst"} {
		path := filepath.Join(t.TempDir(), name)
		w, err := clustertrace.Create(path, clustertrace.Header{Start: time.Unix(0, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(&clustertrace.Event{Kind: clustertrace.AddNode, Info: &clustertrace.Node{Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		spec := &clustertrace.Template{MilliCPU: 1}
		first, err := w.Template(0, spec)
		if err := errors.Join(err, w.Close(second)); err != nil {
			t.Fatal(err)
		}
		w, _, err = clustertrace.Append(path)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := w.Template(2*second, &clustertrace.Template{MilliCPU: 1}); again != first || err != nil || w.Events() != 0 {
			t.Errorf("%s: Template = %d, %v after %d events, want %d, nil after 0", name, again, err, w.Events(), first)
		}
		if err := errors.Join(w.Write(&clustertrace.Event{Kind: clustertrace.Gap, At: 3 * second}),
			w.Write(&clustertrace.Event{Kind: clustertrace.RemoveNode, At: 3 * second}), w.Close(0)); err != nil {
			t.Fatal(err)
		}
		got, err := clustertrace.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]clustertrace.Span{{From: second, To: 3 * second}}, got.Gaps); d != "" || got.Nodes[0].Removed != 3*second {
			t.Errorf("%s: gaps (-want +got):\n%s\nremoved at %v, want 3s", name, d, got.Nodes[0].Removed)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	head := strings.SplitAfter(sample, "\n")[0]
	node := `{"k":"node","node":{"name":"a","pods":1}}` + "\n"
	tpl := `{"k":"template","template":{}}` + "\n"
	pod := `{"k":"pod","name":"p"}` + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"no header", node, ":1: the first line is no header"},
		{"version", `{"format":"kubernasium.cluster-trace","version":2,"start":"x"}` + "\n", ":1: version 2, want 1"},
		{"unknown field", head + `{"k":"gap","x":1}` + "\n", `:2: unknown field "x"`},
		{"unknown kind", head + `{"k":"evict"}` + "\n", ":2: evict: unknown kind"},
		{"two values", head + `{"k":"gap"}{"k":"gap"}` + "\n", ":2: jsontext: invalid character '{' after top-level value"},
		{"back in time", head + `{"k":"gap","t":-1}` + "\n", ":2: t -1"},
		{"pod without template", head + pod, ":2: pod: template number 0, and there are 0 so far"},
		{"pod twice", head + tpl + pod + pod, ":4: pod: pod /p is there as number 0"},
		{"bind to no node", head + tpl + pod + `{"k":"bind"}` + "\n", ":4: bind: node number 0, and there are 0"},
		{"bind twice", head + node + tpl + pod + `{"k":"bind"}` + "\n" + `{"k":"bind"}` + "\n", ":6: bind: pod 0 (/p) is bound already"},
		{"run unbound", head + tpl + pod + `{"k":"run"}` + "\n", ":4: run: pod 0 (/p) is not bound"},
		{"bind finished", head + node + tpl + pod + `{"k":"finish","phase":"Failed"}` + "\n" + `{"k":"bind"}` + "\n", ":6: bind: pod 0 (/p) has finished"},
		{"phase", head + tpl + pod + `{"k":"finish","phase":"Running"}` + "\n", `:4: finish: phase "Running"`},
		{"delete twice", head + tpl + pod + `{"k":"delete"}` + "\n" + `{"k":"delete"}` + "\n", ":5: delete: pod 0 (/p) was deleted"},
		{"devices", head + node + tpl + pod + `{"k":"bind","gpus":[1,1]}` + "\n", ":5: bind: gpus are [1 1]"},
		{"node twice", head + node + node, ":3: node: node a is there as number 0"},
		{"removed node", head + node + `{"k":"remove_node"}` + "\n" + `{"k":"remove_node"}` + "\n", ":4: remove_node: node 0 (a) was removed"},
		{"renamed node", head + node + `{"k":"update_node","node":{"name":"b"}}` + "\n", ":3: update_node: node 0 is a, and cannot become b"},
		{"amount", head + `{"k":"node","node":{"name":"a","milli_cpu":-1}}` + "\n", ":2: node: node a: -1 milli-CPU"},
		{"shared GPUs", head + `{"k":"template","template":{"gpus":2,"milli_gpu":500}}` + "\n", ":2: template: 500 thousandths of each of 2 GPUs"},
		{"operator", head + `{"k":"template","template":{"required":[{"labels":[{"key":"a","operator":"In"}]}]}}` + "\n", `:2: template: requirement on "a" with operator "In"`},
		{"after the end", head + `{"k":"end"}` + "\n" + node, ":3: node after the end"},
		{"kind of a field", head + `{"k":"bind","t":"x"}` + "\n", `:2: field "/t": JSON string: a value of another kind`},
		{"fraction", head + `{"k":"bind","t":0.5}` + "\n", `:2: field "/t": JSON number: invalid syntax`},
		{"long line", head + strings.Repeat(" ", 1<<20) + "\n", ":2: line longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := clustertrace.Load(envstest.TempFile(t, "t.jsonl", c.text+`{"k":"end"}`+"\n"))
			if err == nil || !strings.Contains(err.Error(), "t.jsonl"+c.want) || errors.Is(err, clustertrace.ErrCut) {
				t.Errorf("Load = %v, want an error with %q", err, c.want)
			}
		})
	}
}

// TestWriterRefuses checks that an event that cannot be is not written, and the next is.
func TestWriterRefuses(t *testing.T) {
	var text strings.Builder
	w, err := clustertrace.NewWriter(&text, clustertrace.Header{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&clustertrace.Event{Kind: clustertrace.DeletePod}); err == nil {
		t.Error("deleted a pod that there is not")
	}
	if err := w.Close(0); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("{\"format\":%q,\"version\":1,\"start\":\"0001-01-01T00:00:00Z\"}\n{\"k\":\"end\"}\n", clustertrace.Format); text.String() != want {
		t.Errorf("written:\n%s\nwant:\n%s", text.String(), want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 4, 0})
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := clustertrace.NewReader("fuzz", strings.NewReader(string(data)))
		if err != nil {
			return
		}
		defer r.Close()
		trace, err := clustertrace.Read(r)
		if err != nil {
			return
		}
		for i := range trace.Pods {
			p := &trace.Pods[i]
			if p.Node >= 0 {
				_ = trace.Templates[p.Last()].Refusal(trace.Nodes[p.Node].Last())
			}
		}
	})
}
