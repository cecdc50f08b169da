package schedulerconfig_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/agents/live"
)

const (
	bulkPods    = 500
	bulkClients = 8 // that create pods side by side
)

// BenchmarkBulk measures pods a second from the creation of the first of 500 until all have nodes: an
// iteration lets default-scheduler and two profiles with the plugin place them in turn, in one
// kube-scheduler. It reports medians, and their ratios to default-scheduler's.
func BenchmarkBulk(b *testing.B) {
	w := start(b, profile("greedy", live.Args{Baseline: "Greedy"}), profile("ppo", live.Args{Model: pretrained(b, "k8s-PodBalance-v0/ppo")}))
	schedulers := []string{"default-scheduler", "greedy", "ppo"}
	nodes := 0
	for _, size := range []int{100, 1000} {
		for ; nodes < size; nodes++ {
			w.bulkNode(b, nodes)
		}
		b.Run(fmt.Sprintf("nodes=%d", size), func(b *testing.B) {
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
			for _, name := range schedulers {
				b.ReportMetric(median(name), name+"_pods/s")
				b.ReportMetric(median(name)/median(schedulers[0]), name+"_ratio")
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
