package plugin

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/kwok/mirror"
)

func sized(cpu, memory int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory<<20, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI),
	}
}

func benchPod(i int) *corev1.Pod {
	have := sized(int64(100+i%7*50), int64(256+i%5*128))
	delete(have, corev1.ResourcePods)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("p", i))},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: have}}}},
	}
}

// BenchmarkDecision measures a decision from kube-scheduler's snapshot to the scores: one node has changed
// since the last, as after a binding.
func BenchmarkDecision(b *testing.B) {
	model, err := filepath.Abs("../../../models/pretrained/k8s-PodBalance-v0/ppo.safetensors")
	if err != nil {
		b.Fatal(err)
	}
	for _, policy := range []struct {
		name string
		args live.Args
	}{{"ppo", live.Args{Model: model}}, {"Greedy", live.Args{Baseline: "Greedy"}}, {"FGD", live.Args{Baseline: "FGD", Env: "k8s/GPUPodScheduling-v0"}}} {
		for _, size := range []struct{ nodes, pods int }{{100, 1000}, {1000, 10000}, {5000, 30000}} {
			b.Run(fmt.Sprintf("%s/nodes=%d/pods=%d", policy.name, size.nodes, size.pods), func(b *testing.B) {
				p := &Plugin{mirror: mirror.New(nil)}
				if p.policy, err = live.Open(policy.args, size.nodes); err != nil {
					b.Fatal(err)
				}
				var infos []fwk.NodeInfo
				var names []string
				for i := range size.nodes {
					n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}, Status: corev1.NodeStatus{Allocatable: sized(32000, 131072)}}
					n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("4")
					info := framework.NewNodeInfo()
					info.SetNode(n)
					infos, names = append(infos, info), append(names, n.Name)
				}
				add := func(i int) {
					info, err := framework.NewPodInfo(benchPod(i))
					if err != nil {
						b.Fatal(err)
					}
					infos[i%size.nodes].AddPodInfo(info)
				}
				for i := range size.pods {
					add(i)
				}
				if err := p.mirror.Sync(snapshot{infos: infos, groups: &p.groups}); err != nil {
					b.Fatal(err)
				}
				asked := benchPod(-1)
				next := size.pods
				for b.Loop() {
					add(next)
					next++
					if err := p.mirror.Sync(snapshot{infos: infos, groups: &p.groups}); err != nil {
						b.Fatal(err)
					}
					if _, err := p.choose(b.Context(), mirror.Question{Pod: asked, Open: names, Replicas: 1, Now: time.Unix(0, 0)}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
