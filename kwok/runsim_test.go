package kwok

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// TestRunSim lets the real kube-scheduler place the workload.
func TestRunSim(t *testing.T) {
	server := Options{Kubeconfig: kwoktest.Start(t).Kubeconfig}
	c := SimConfig{
		Server: server, Namespace: "default", Nodes: 3, CPULoad: 0.2, MemoryLoad: 0.2, PodLoad: 0.2, Resets: 2,
		SchedulerName: "default-scheduler", Patience: 2 * time.Minute, Seed: 1,
	}
	var loads []Load
	all, err := RunSim(ctx, c, func(_ SimDeployment, l Load) { loads = append(loads, l) })
	if err != nil {
		t.Fatal(err)
	}
	// 0.2 of 3 × 64 CPU is 38.4 pods of 1 CPU; 0.2 of 3 × 110 pods is 66.
	pods, reset := 0, 0
	for i, d := range all {
		if d.Reset != reset {
			pods, reset = 0, d.Reset
		}
		if d.Replicas < 5 || d.Replicas > 15 {
			t.Errorf("deployment %s has %d replicas, want 5 to 15", d.Name, d.Replicas)
		}
		pods += d.Replicas
		if want := float64(pods) / 192; math.Abs(loads[i].CPU-want) > 1e-9 {
			t.Errorf("after %s the CPU's load is %v, want %v", d.Name, loads[i].CPU, want)
		}
		if filled, last := pods >= 39, i == len(all)-1 || all[i+1].Reset != d.Reset; filled != last {
			t.Errorf("after %s with %d pods the cluster was emptied: %v, want %v", d.Name, pods, last, filled)
		}
	}
	if reset != 1 {
		t.Errorf("the cluster was filled %d times, want 2", reset+1)
	}
	client, err := Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	left, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d pods are left, %v", len(left.Items), err)
	}
	c.SchedulerName, c.Patience = "nobody", time.Second
	if _, err := RunSim(ctx, c, nil); err == nil {
		t.Error("RunSim for a scheduler that does not run: no error")
	}
	if err := Clean(ctx, server, "default", true); err != nil {
		t.Fatal(err)
	}
}
