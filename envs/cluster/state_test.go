package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// apply applies legal ops or ends the test.
func apply(t testing.TB, s *cluster.State, ops ...cluster.Op) {
	t.Helper()
	for i := range ops {
		if err := s.Apply(&ops[i]); err != nil {
			t.Fatalf("Apply(%v) = %v, want nil", ops[i], err)
		}
	}
}

// parse returns the ops of lines in their text form.
func parse(t testing.TB, lines ...string) []cluster.Op {
	t.Helper()
	ops := make([]cluster.Op, len(lines))
	for i, l := range lines {
		if err := ops[i].UnmarshalText([]byte(l)); err != nil {
			t.Fatalf("UnmarshalText(%q) = %v", l, err)
		}
	}
	return ops
}

// example returns two nodes and three pods, of which two run.
func example(t testing.TB) *cluster.State {
	t.Helper()
	s := cluster.NewState()
	s.Intern(cluster.Meta{Name: "a"})
	s.Intern(cluster.Meta{Name: "b", GPUModel: "T4"})
	s.Intern(cluster.Meta{Name: "pod"})
	apply(t, s, parse(t,
		"AddNode meta=0 cpu=4 memory=8Gi",
		"AddNode meta=1 cpu=2 memory=4Gi gpus=2 milliGPU=1000 maxPods=1",
		"AddPod meta=2 cpu=1 memory=1Gi duration=9s",
		"AddPod meta=2 cpu=1 memory=1Gi gpus=1 milliGPU=250",
		"AddPod meta=2 cpu=8",
		"Bind pod=0 node=0",
		"Bind pod=1 node=1 devices=0b10")...)
	return s
}

func TestCloneIsIndependent(t *testing.T) {
	s := example(t)
	want := s.String()
	reused := example(t)
	reused.Intern(cluster.Meta{Name: "other"})
	s.CloneInto(reused)
	s.CloneInto(s)
	for name, c := range map[string]*cluster.State{"Clone": s.Clone(), "CloneInto": reused} {
		if d := cluster.Diff(s, c); d != "" {
			t.Errorf("%s differs (-want +got):\n%s", name, d)
		}
		// Both intern something new, under the same index.
		if i := c.Intern(cluster.Meta{Name: "c"}); i != 3 {
			t.Errorf("%s: Intern = %d, want 3", name, i)
		}
		apply(t, c, parse(t, "AddNode meta=3 cpu=9", "Bind pod=2 node=2", "Evict pod=1", "Cordon node=0", "SetUsage pod=0 cpu=3", "RemoveNode node=1")...)
		c.Now = time.Hour
		if got := s.String(); got != want {
			t.Errorf("%s: a change to the clone changed the original:\n%s\nwant\n%s", name, got, want)
		}
		if s.NumMetas() != 3 {
			t.Errorf("%s: the original sees the clone's metadata", name)
		}
	}
	c := s.Clone()
	apply(t, s, parse(t, "Delete pod=0", "RemoveNode node=0")...)
	if got := c.String(); got != want {
		t.Errorf("a change to the original changed the clone:\n%s\nwant\n%s", got, want)
	}
	// The name that s gave up is still taken in c.
	op := parse(t, "AddNode meta=0")[0]
	if err := c.Check(&op); !errors.Is(err, cluster.ErrConflict) {
		t.Errorf("Check(%v) = %v, want ErrConflict", op, err)
	}
}

func TestCloneConcurrently(t *testing.T) {
	s := example(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var c cluster.State
			for range 50 {
				s.CloneInto(&c)
				apply(t, &c, cluster.Op{Kind: cluster.Evict, Pod: 0})
			}
			c.Intern(cluster.Meta{Name: fmt.Sprint("own-", i)})
		})
	}
	wg.Wait()
	if d := cluster.Diff(example(t), s); d != "" {
		t.Errorf("clones changed the original (-want +got):\n%s", d)
	}
}

func TestEqualAndDiff(t *testing.T) {
	s := example(t)
	for name, change := range map[string]func(c *cluster.State){
		"now":    func(c *cluster.State) { c.Now++ },
		"node":   func(c *cluster.State) { apply(t, c, cluster.Op{Kind: cluster.Cordon}) },
		"pod":    func(c *cluster.State) { apply(t, c, cluster.Op{Kind: cluster.Delete, Pod: 2}) },
		"device": func(c *cluster.State) { c.Devices[0].Free-- },
		"more":   func(c *cluster.State) { apply(t, c, cluster.Op{Kind: cluster.AddPod, Meta: 2}) },
	} {
		c := s.Clone()
		if d := cluster.Diff(s, c); d != "" || !s.Equal(c) {
			t.Errorf("%s: Diff of a clone = %q, want none", name, d)
		}
		change(c)
		if s.Equal(c) || c.Equal(s) || cluster.Diff(s, c) == "" {
			t.Errorf("%s: Equal = true after a change", name)
		}
	}
	other := cluster.NewState()
	for _, m := range []cluster.Meta{{Name: "a", Labels: []cluster.Label{{Key: "k"}}}, s.Meta(1), s.Meta(2)} {
		other.Intern(m)
	}
	c := s.Clone()
	c.Reset()
	for _, st := range []*cluster.State{c, other} {
		apply(t, st, parse(t, "AddNode meta=0 cpu=1")...)
	}
	want := "- meta 0 {Name:a Labels:[] Taints:[] GPUModel: NodeSelector:[] Tolerations:[] GPUModels:[]}\n" +
		"+ meta 0 {Name:a Labels:[{Key:k Value:}] Taints:[] GPUModel: NodeSelector:[] Tolerations:[] GPUModels:[]}\n"
	if d := cmp.Diff(want, cluster.Diff(c, other)); d != "" {
		t.Errorf("Diff of metadata (-want +got):\n%s", d)
	}
}

func TestNames(t *testing.T) {
	s := example(t)
	if got, want := s.NodeName(1)+" "+s.PodName(2), "b pod-2"; got != want {
		t.Errorf("names = %q, want %q", got, want)
	}
}

func TestInternCopies(t *testing.T) {
	s := cluster.NewState()
	labels := []cluster.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}
	i := s.Intern(cluster.Meta{Name: "n", Labels: labels})
	labels[0].Value = "changed"
	want := cluster.Meta{Name: "n", Labels: []cluster.Label{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}}
	if d := cmp.Diff(want, s.Meta(i)); d != "" {
		t.Errorf("Meta(%d) (-want +got):\n%s", i, d)
	}
}

// TestManyClasses checks permissions where the table of them has to grow: pod i wants the
// label of node i, and so fits it alone.
func TestManyClasses(t *testing.T) {
	s := cluster.NewState()
	const n = 70
	for i := range n {
		label := []cluster.Label{{Key: "i", Value: fmt.Sprint(i)}}
		apply(t, s,
			cluster.Op{Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: fmt.Sprint("n", i), Labels: label})},
			cluster.Op{Kind: cluster.AddPod, Meta: s.Intern(cluster.Meta{Name: "p", NodeSelector: label})})
	}
	mask := make([]bool, n+1)
	for p := range int32(n) {
		s.FitMask(p, mask)
		for i, got := range mask {
			if want := i == int(p); got != want {
				t.Errorf("FitMask(%d)[%d] = %v, want %v", p, i, got, want)
			}
		}
	}
	if s.FitMask(n, mask); mask[0] {
		t.Error("FitMask of a pod that is not there has a true")
	}
}

func TestComplete(t *testing.T) {
	s := example(t)
	s.Now = 9 * time.Second
	if at, ok := s.Pods[0].EndsAt(); at != 9*time.Second || !ok {
		t.Errorf("EndsAt = %v, %v, want 9s, true", at, ok)
	}
	if err := s.Complete(0); err != nil {
		t.Fatalf("Complete(0) = %v, want nil", err)
	}
	if p := s.Pods[0]; p.Phase != cluster.Succeeded || p.Ended != 9*time.Second || s.Nodes[0].NumPods != 0 {
		t.Errorf("after Complete(0) the pod is %+v", p)
	}
	for pod, want := range map[int32]error{-1: cluster.ErrNotFound, 0: cluster.ErrConflict, 2: cluster.ErrConflict, 3: cluster.ErrNotFound} {
		if err := s.Complete(pod); !errors.Is(err, want) {
			t.Errorf("Complete(%d) = %v, want %v", pod, err, want)
		}
	}
	for pod := range int32(3) {
		if at, ok := s.Pods[pod].EndsAt(); ok {
			t.Errorf("EndsAt of pod %d = %v, true, want false", pod, at)
		}
	}
}

// TestErrorTexts checks that an error names what was wrong, what was given and what would be
// right.
func TestErrorTexts(t *testing.T) {
	s := example(t)
	for text, words := range map[string]string{
		"Bind pod=2 node=0":                "pod-2 8 CPU a 3 CPU 7Gi",
		"Bind pod=0 node=0":                "pod-0 Running Pending",
		"Bind pod=2 node=5":                "node 5 less 2",
		"AddNode meta=1":                   "name b node 1",
		"AddPod meta=9":                    "9 3",
		"AddPod gpus=1 milliGPU=2000":      "2000 1 to 1000",
		"Resize pod=0 cpu=2 limits.cpu=1":  "1 CPU 2 CPU",
		"Resize pod=0 cpu=5":               "pod-0 5 CPU a 4 CPU",
		"SetUsage pod=1 cpu=-1m":           "-1 9007199254740992",
		"SetUsage pod=2":                   "pod-2 Pending Running",
		"Resize pod=1 memory=5Gi cpu=100m": "pod-1 5Gi b 4Gi",
	} {
		op := parse(t, text)[0]
		err := (&cluster.OpError{Index: 7, Op: op, Err: s.Check(&op)}).Error()
		for _, w := range append(strings.Fields(words), "op 7 ("+text[:len("Bind")]) {
			if !strings.Contains(err, w) {
				t.Errorf("error of %s = %q, want it to name %q", text, err, w)
			}
		}
	}
}

func TestStateAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are not counted under -race; run without it")
	}
	s := example(t)
	ops := parse(t,
		"AddNode meta=0 cpu=4 memory=8Gi", "AddNode meta=1 cpu=4 gpus=8 milliGPU=1000",
		"AddPod meta=2 cpu=1 memory=1Gi", "AddPod meta=2 cpu=1 gpus=2 milliGPU=300", "AddPod meta=2",
		"Bind pod=0 node=0", "Bind pod=1 node=1 devices=0b11", "SetUsage pod=0 cpu=1", "Resize pod=0 cpu=2",
		"Cordon node=0", "Uncordon node=0", "Evict pod=0", "Delete pod=2", "RemoveNode node=1")
	meta := s.Meta(1)
	clone := s.Clone()
	mask := make([]bool, 2)
	if n := testing.AllocsPerRun(100, func() {
		s.Reset()
		s.Intern(meta)
		for i := range ops {
			if err := s.Apply(&ops[i]); err != nil {
				t.Fatal(err)
			}
			if len(s.Pods) == 3 {
				s.Fits(1, 1)
				s.FitMask(0, mask)
				s.PickDevices(1, 1)
			}
		}
		s.CloneInto(clone)
	}); n != 0 {
		t.Errorf("allocations of an episode = %v, want 0", n)
	}
}

// benchState returns 81 nodes of 8 GPUs and a pod that fits each and requests the given number of GPUs.
func benchState(b *testing.B, gpus uint8) *cluster.State {
	b.Helper()
	s := cluster.NewState()
	for i := range 81 {
		op := cluster.Op{Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: fmt.Sprint("n", i)}), MaxPods: 110,
			Resources: cluster.Resources{MilliCPU: 96000, MemoryBytes: 384 << 30}, GPUs: 8, MilliGPU: 1000}
		apply(b, s, op)
	}
	pod := cluster.Op{Kind: cluster.AddPod, Meta: s.Intern(cluster.Meta{Name: "p"}), Resources: cluster.Resources{MilliCPU: 500, MemoryBytes: 1 << 30}, GPUs: gpus}
	if gpus > 0 {
		pod.MilliGPU = 1000
	}
	apply(b, s, pod)
	return s
}

func BenchmarkFits81(b *testing.B) {
	s := benchState(b, 0)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for i := range int32(81) {
			if s.Fits(0, i) {
				n++
			}
		}
		if n != 81 {
			b.Fatal(n)
		}
	}
}

func BenchmarkFitMask81(b *testing.B) {
	for _, gpus := range []uint8{0, 2} {
		b.Run(fmt.Sprintf("gpus=%d", gpus), func(b *testing.B) {
			s := benchState(b, gpus)
			mask := make([]bool, 81)
			b.ReportAllocs()
			for b.Loop() {
				s.FitMask(0, mask)
			}
		})
	}
}

func BenchmarkCloneInto81(b *testing.B) {
	s := benchState(b, 0)
	for range 200 {
		apply(b, s, cluster.Op{Kind: cluster.AddPod, Meta: s.Pods[0].Meta})
	}
	dst := s.Clone()
	b.ReportAllocs()
	for b.Loop() {
		s.CloneInto(dst)
	}
}

func BenchmarkIntern(b *testing.B) {
	s := cluster.NewState()
	m := cluster.Meta{Name: "node-17", Labels: []cluster.Label{{Key: "zone", Value: "a"}}}
	s.Intern(m)
	b.ReportAllocs()
	for b.Loop() {
		s.Intern(m)
	}
}
