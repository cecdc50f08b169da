package kubeyaml

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// crowded returns a cluster on which not all pods fit: nodes with and without GPUs, single pods that share GPUs or want
// whole ones in each of their forms, and workloads.
func crowded(rng *rand.Rand) string {
	var b strings.Builder
	for n := range 6 {
		gpus := []string{"", ", alibabacloud.com/gpu-count: 2", ", nvidia.com/gpu: 4"}[n%3]
		fmt.Fprintf(&b, "kind: Node\nmetadata: {name: n%d, labels: {zone: z%d}}\nstatus: {allocatable: {cpu: 16, memory: 64Gi, pods: 30%s}}\n---\n", n, n%2, gpus)
	}
	for p := range 40 {
		annotations, limits := "", ""
		switch rng.IntN(4) {
		case 0:
			annotations = fmt.Sprintf("alibabacloud.com/gpu-count: '1', alibabacloud.com/gpu-milli: '%d'", 100*(1+rng.IntN(9)))
		case 1:
			limits = fmt.Sprintf("nvidia.com/gpu: %d", 1+rng.IntN(2))
		case 2:
			annotations = "kubernasium.io/gpus: '1', kubernasium.io/milli-gpu: '300'"
		}
		fmt.Fprintf(&b, "kind: Pod\nmetadata: {name: p%d, annotations: {%s}}\nspec: {priority: %d, containers: [{name: c, resources: {requests: {cpu: %d, memory: 1Gi}, limits: {%s}}}]}\n---\n",
			p, annotations, rng.IntN(2), 1+rng.IntN(4), limits)
	}
	b.WriteString(workload("Deployment", "web", "replicas: 9,") + workload("DaemonSet", "agent", "") + workload("StatefulSet", "db", "replicas: 3,"))
	return b.String()
}

// begin starts a simulation.
func begin(t *testing.T, text, config string) (*Objects, *Workload, *gpushare.Simulation) {
	t.Helper()
	c, err := parseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	o := objectsOf(t, text)
	w, err := o.Workload()
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := c.Profiles(w)
	if err != nil {
		t.Fatal(err)
	}
	s, err := gpushare.NewSimulation(w.Nodes, w.Pods, profiles, gpushare.SimulationOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o, w, s
}

// finish plays so many decisions at most.
func finish(t *testing.T, s *gpushare.Simulation, decisions int) {
	t.Helper()
	for range decisions {
		if err := s.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// nodeOfPods returns each pod's phase, node and devices.
func nodeOfPods(w *Workload, s *gpushare.Simulation) map[string]string {
	all := map[string]string{}
	for i, p := range w.Pods {
		phase, node, devices := s.Pod(i)
		all[p.Name] = fmt.Sprint(phase, " ", node, " ", devices)
	}
	return all
}

// TestSnapshotRoundTrip: a snapshot at any moment is a cluster from which the simulation continues to the placements, and
// to the use of the cluster, of the one that was not interrupted.
func TestSnapshotRoundTrip(t *testing.T) {
	configs := map[string]string{
		"FGD": read(t, "scheduler.yaml"), "Simon's": strings.Replace(read(t, "simon.yaml"), "gpuSelMethod: FGDScore", "gpuSelMethod: worst", 1), "kube-scheduler's": profile(`{multiPoint: {enabled: [{name: GpuShare}]}}`),
	}
	text := crowded(rand.New(rand.NewPCG(7, 0)))
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			_, w, whole := begin(t, text, config)
			decisions := whole.Pending()
			finish(t, whole, decisions)
			if u := whole.Usage(); u.Pods == decisions || u.Pods < decisions/2 {
				t.Fatalf("%d of %d pods are placed, want some to fail for this test", u.Pods, decisions)
			}
			for _, at := range []int{0, 1, decisions / 3, decisions / 2, decisions - 1, decisions} {
				o, w2, s := begin(t, text, config)
				finish(t, s, at)
				var b bytes.Buffer
				if err := WriteSnapshot(&b, o, w2, s); err != nil {
					t.Fatal(err)
				}
				_, again, s2 := begin(t, b.String(), config)
				if d := cmp.Diff(s.Usage(), s2.Usage()); d != "" {
					t.Fatalf("after %d decisions (-simulated +read):\n%s", at, d)
				}
				finish(t, s2, s2.Pending())
				if d := cmp.Diff(nodeOfPods(w, whole), nodeOfPods(again, s2)); d != "" {
					t.Fatalf("from the snapshot after %d decisions on (-uninterrupted +resumed):\n%s", at, d)
				}
				if d := cmp.Diff(whole.Usage(), s2.Usage()); d != "" {
					t.Fatalf("at the end (-uninterrupted +resumed):\n%s", d)
				}
			}
		})
	}
}

// TestSnapshotAfterDescheduling: what was evicted stands in the snapshot without node and devices, and what found a new
// place with those.
func TestSnapshotAfterDescheduling(t *testing.T) {
	text := crowded(rand.New(rand.NewPCG(8, 0)))
	o, w, s := begin(t, text, read(t, "simon.yaml"))
	finish(t, s, s.Pending())
	snapshot := func() *Objects {
		var b bytes.Buffer
		if err := WriteSnapshot(&b, o, w, s); err != nil {
			t.Fatal(err)
		}
		return objectsOf(t, b.String())
	}
	bound := func(o *Objects) (n int) {
		for _, p := range o.Pods {
			devices, err := Devices(&p)
			if gpus, _, _, _ := GPUs(&p); err != nil || p.Spec.NodeName == "" && devices != nil || p.Spec.NodeName != "" && len(devices) != int(gpus) {
				t.Errorf("pod %s on node %q has devices %v, %v", p.Name, p.Spec.NodeName, devices, err)
			}
			if p.Spec.NodeName != "" {
				n++
			}
		}
		return n
	}
	var between *Objects
	d, err := s.Deschedule(context.Background(), gpushare.DescheduleOptions{Policy: gpushare.FragMultiPod, Ratio: 0.5, Evicted: func() error {
		between = snapshot()
		return nil
	}})
	if err != nil || len(d.Moves) == 0 {
		t.Fatalf("%d evictions, %v; want some", len(d.Moves), err)
	}
	if got, want := bound(between), d.Before.Pods-len(d.Moves); got != want {
		t.Errorf("%d pods are bound after %d evictions, want %d", got, len(d.Moves), want)
	}
	if got := bound(snapshot()); got != d.End.Pods {
		t.Errorf("%d pods are bound in the end, want %d", got, d.End.Pods)
	}
}
