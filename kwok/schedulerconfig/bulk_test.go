package schedulerconfig_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/kwok/schedulerconfig"
)

const (
	bulkPods    = 500
	bulkClients = 8 // that create pods side by side
)

// equalShares adds profiles to a configuration, so that each scheduler looks at all nodes, and at the share that
// default-scheduler looks at by itself, which falls from 50 % at 100 nodes to 42 % at 1,000 and 10 % at 5,000.
func equalShares(b *testing.B) func([]byte) []byte {
	return func(text []byte) []byte {
		b.Helper()
		var k configv1.KubeSchedulerConfiguration
		if err := yaml.Unmarshal(text, &k); err != nil {
			b.Fatal(err)
		}
		all := int32(100)
		for _, p := range slices.Clone(k.Profiles) {
			name := *p.SchedulerName + "-all"
			if p.PercentageOfNodesToScore == nil {
				p.PercentageOfNodesToScore = &all
			} else {
				name, p.PercentageOfNodesToScore = *p.SchedulerName+"-share", nil
			}
			p.SchedulerName = &name
			for i := range p.PluginConfig { // one profile alone listens
				var args schedulerconfig.Args
				if err := json.Unmarshal(p.PluginConfig[i].Args.Raw, &args); err != nil {
					b.Fatal(err)
				}
				args.Serve.Listen = ""
				raw, err := json.Marshal(args)
				if err != nil {
					b.Fatal(err)
				}
				p.PluginConfig = []configv1.PluginConfig{{Name: p.PluginConfig[i].Name, Args: runtime.RawExtension{Raw: raw}}}
			}
			k.Profiles = append(k.Profiles, p)
		}
		text, err := yaml.Marshal(k)
		if err != nil {
			b.Fatal(err)
		}
		return text
	}
}

// BenchmarkBulk measures pods a second from the creation of the first of 500 until all have nodes: an
// iteration lets default-scheduler and two profiles with the plugin place them in turn, in one
// kube-scheduler, and all three again with the share of nodes of the others. It reports medians, and ratios to
// default-scheduler's of the same share.
func BenchmarkBulk(b *testing.B) {
	w := startEdited(b, nil, equalShares(b), profile("greedy", live.Args{Baseline: "Greedy"}), profile("ppo", live.Args{Model: pretrained(b, "k8s-PodBalance-v0/ppo")}))
	schedulers := []string{"default-scheduler", "greedy-share", "ppo-share", "default-scheduler-all", "greedy", "ppo"}
	nodes := 0
	for _, size := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", size), func(b *testing.B) {
			for ; nodes < size; nodes++ {
				w.bulkNode(b, nodes)
			}
			b.ResetTimer()
			rates := map[string][]float64{}
			w.bulk(b, schedulers[0]) // the first pods find caches empty
			for range b.N {
				for _, name := range schedulers {
					rates[name] = append(rates[name], w.bulk(b, name))
				}
			}
			median := func(name string) float64 {
				slices.Sort(rates[name])
				return rates[name][len(rates[name])/2]
			}
			for i, name := range schedulers {
				b.ReportMetric(median(name), name+"_pods/s")
				b.ReportMetric(median(name)/median(schedulers[i/3*3]), name+"_ratio")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func (w *world) bulkNode(b *testing.B, i int) {
	b.Helper()
	have := amounts("64", "256Gi")
	have[corev1.ResourcePods] = resource.MustParse("110")
	name := fmt.Sprintf("bulk-%d", i)
	_, err := w.client.CoreV1().Nodes().Create(b.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Allocatable: have, Capacity: have},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

// bulk creates pods for a scheduler, returns how many of them a second got nodes, and deletes them.
func (w *world) bulk(b *testing.B, scheduler string) float64 {
	b.Helper()
	pods := w.client.CoreV1().Pods("default")
	create, ctx := errgroup.WithContext(b.Context())
	create.SetLimit(bulkClients)
	begin := time.Now()
	for i := range bulkPods {
		create.Go(func() error {
			_, err := pods.Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bulk-%d", i)},
				Spec: corev1.PodSpec{
					SchedulerName: scheduler, TerminationGracePeriodSeconds: new(int64),
					Containers: []corev1.Container{{Name: "main", Image: "kubernasium.io/simulated", Resources: corev1.ResourceRequirements{Requests: amounts("500m", "1Gi")}}},
				},
			}, metav1.CreateOptions{})
			return err
		})
	}
	if err := create.Wait(); err != nil {
		b.Fatal(err)
	}
	w.untilNone(b, "spec.nodeName=")
	rate := bulkPods / time.Since(begin).Seconds()
	if err := pods.DeleteCollection(b.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}); err != nil {
		b.Fatal(err)
	}
	w.untilNone(b, "")
	return rate
}

// untilNone waits until no pod matches the field selector.
func (w *world) untilNone(b *testing.B, fields string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for ; ; time.Sleep(20 * time.Millisecond) {
		left, err := w.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: fields, Limit: 1})
		if err != nil {
			b.Fatal(err)
		}
		if len(left.Items) == 0 {
			return
		}
	}
}
