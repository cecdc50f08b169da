package scheduler

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

// TestGPUs: a list of pods that share GPUs, which wait when the scheduler comes, is placed as the
// baseline places it in the simulator: on the same nodes and devices, and as many of them.
func TestGPUs(t *testing.T) {
	const id, rule = "k8s/GPUPodScheduling-v0", "WeightedFGD"
	opts := map[string]any{"num_nodes": 5, "load_end": 1.1}
	v, err := envs.Make(id, 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	seed := uint64(3)
	p, err := baseline.New(v, rule, seed)
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatal(err)
	}
	for action := make([]float32, 1); !b.Done(0); {
		if err := p.Act(b, action); err != nil {
			t.Fatal(err)
		}
		if b, err = v.Step(ctx, action); err != nil {
			t.Fatal(err)
		}
	}
	s := v.Env(0).State()
	w := newWorld(t, kwoktest.Shared(t))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		w.node(fmt.Sprintf("n%d", i), fmt.Sprintf("%dm", n.Allocatable.MilliCPU), strconv.FormatInt(n.Allocatable.MemoryBytes, 10), int64(n.MaxPods), func(node *corev1.Node) {
			node.Labels["alibabacloud.com/gpu-card-model"] = s.Meta(n.Meta).GPUModel
			node.Annotations["kubernasium.io/gpus"] = strconv.Itoa(int(n.NumDevices))
		})
	}
	c := w.config(byBaseline(t, id, rule, opts))
	for i := range s.Pods {
		pod := &s.Pods[i]
		w.create(w.pod(podName(i), c.Name, fmt.Sprintf("%dm", pod.Requests.MilliCPU), strconv.FormatInt(pod.Requests.MemoryBytes, 10), func(p *corev1.Pod) {
			if pod.GPUs > 0 {
				p.Annotations = map[string]string{
					"alibabacloud.com/gpu-count": strconv.Itoa(int(pod.GPUs)), "alibabacloud.com/gpu-milli": strconv.Itoa(int(pod.MilliGPU)),
					"alibabacloud.com/gpu-card-model": strings.Join(s.Meta(pod.Meta).GPUModels, "|"),
				}
			}
		}))
	}
	placed, sharing := 0, 0
	scheduler, _ := w.run(c)
	for i := range s.Pods {
		want, devices := "", ""
		if pod := &s.Pods[i]; pod.Phase == cluster.Running {
			want = fmt.Sprintf("n%d", pod.Node)
			devices = indices(pod.Devices)
			placed++
			if pod.MilliGPU > 0 && pod.MilliGPU < 1000 {
				sharing++
			}
			w.placed(podName(i))
		}
		got, err := w.client.CoreV1().Pods(w.namespace).Get(ctx, podName(i), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if node, has := strings.TrimPrefix(got.Spec.NodeName, w.namespace+"."), got.Annotations["alibabacloud.com/gpu-index"]; node != want || has != devices {
			t.Errorf("pod %d of %d milli-GPU is on %q with devices %q, want %q and %q as in the simulator", i, s.Pods[i].MilliGPU, node, has, want, devices)
		}
	}
	w.attempted(scheduler, resultScheduled, float64(placed))
	if placed == len(s.Pods) || placed < 20 || sharing < 5 {
		t.Errorf("%d pods of %d are placed, want some that are not; %d share a GPU", placed, len(s.Pods), sharing)
	}
	if n := counter(t, scheduler, "kubernasium_scheduler_fallbacks_total"); n != 0 {
		t.Errorf("%v decisions fell back", n)
	}
	t.Logf("%d of %d pods placed, %d of them share a GPU", placed, len(s.Pods), sharing)
}

func podName(i int) string { return fmt.Sprintf("p%04d", i) }

// indices writes devices as the openb trace's annotation does: 0-1-2.
func indices(devices uint64) string {
	var list []string
	for d := range 64 {
		if devices>>d&1 != 0 {
			list = append(list, strconv.Itoa(d))
		}
	}
	return strings.Join(list, "-")
}
