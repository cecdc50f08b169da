package metricsapi_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
)

var ctx = context.Background()

func TestMain(m *testing.M) { os.Exit(kwoktest.Main(m)) }

// start serves metrics on the shared control plane, and returns a client of theirs.
func start(t *testing.T) (kwok.Options, *metricsv1beta1.MetricsV1beta1Client) {
	t.Helper()
	o := kwok.Options{Kubeconfig: kwoktest.Shared(t).Kubeconfig}
	rc, err := kwok.RESTConfig(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := metricsapi.Start(ctx, metricsapi.Config{REST: rc})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	metrics, err := metricsv1beta1.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	return o, metrics
}

// TestMetricsFollowEpisode plays the twin of vertical pod autoscaling: after each step, a client of
// metrics.k8s.io sees the usage of that step, through the API server.
func TestMetricsFollowEpisode(t *testing.T) {
	o, metrics := start(t)
	spec, err := envs.Lookup("k8s/VerticalPodAutoscalerKwok-v0")
	if err != nil {
		t.Fatal(err)
	}
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Autoreset: envs.Disabled, Options: map[string]any{
		"kubeconfig": o.Kubeconfig, "workload": "step", "steps": 4, "mode": "InPlaceOrRecreate", "history_h": 1, "pods": 3, "pod_spread": 0.3, "startup_s": 0,
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := v.Reset(ctx, envs.VecResetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; !b.Done(0); step++ {
		if b, err = v.Step(ctx, []float32{0.1, 0.2, 0.3, 0.2, 0.1, 0.2, 0.3, 0.2}); err != nil {
			t.Fatal(err)
		}
		list, err := metrics.PodMetricses("").List(ctx, metav1.ListOptions{LabelSelector: "kubernasium.io/environment"})
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, m := range list.Items {
			u := m.Containers[0].Usage
			got = append(got, fmt.Sprint(u.Cpu().MilliValue(), " ", u.Memory().Value()))
			if at := time.Unix(0, 0).Add(time.Duration(step-1) * time.Minute); !m.Timestamp.Time.Equal(at) || m.Window.Duration != time.Minute || len(m.Containers) != 1 {
				t.Errorf("step %d: %d containers at %v over %v, want one at %v over 1 min", step, len(m.Containers), m.Timestamp, m.Window, at)
			}
		}
		var sum cluster.Resources
		for _, p := range v.Env(0).State().Pods {
			if p.Phase == cluster.Running {
				want = append(want, fmt.Sprint(p.Usage.MilliCPU, " ", p.Usage.MemoryBytes))
				sum.MilliCPU, sum.MemoryBytes = sum.MilliCPU+p.Usage.MilliCPU, sum.MemoryBytes+p.Usage.MemoryBytes
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 3 {
			t.Errorf("step %d: usage of %d pods (-episode +metrics)\n%s", step, len(got), diff)
		}
		one, err := metrics.PodMetricses(list.Items[0].Namespace).Get(ctx, list.Items[0].Name, metav1.GetOptions{})
		if err != nil || one.Containers[0].Usage.Cpu().Cmp(*list.Items[0].Containers[0].Usage.Cpu()) != 0 {
			t.Errorf("step %d: pod %s alone: %+v, %v", step, list.Items[0].Name, one, err)
		}
		nodes, err := metrics.NodeMetricses().List(ctx, metav1.ListOptions{LabelSelector: "kubernasium.io/environment"})
		if err != nil || len(nodes.Items) != 1 {
			t.Fatalf("step %d: %d nodes, %v; want 1", step, len(nodes.Items), err)
		}
		if u := nodes.Items[0].Usage; u.Cpu().MilliValue() != sum.MilliCPU || u.Memory().Value() != sum.MemoryBytes {
			t.Errorf("step %d: the node uses %v, want %+v", step, u, sum)
		}
	}
}

// TestDiscovery: what kubectl top asks before it lists.
func TestDiscovery(t *testing.T) {
	o, metrics := start(t)
	client, err := kwok.Connect(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range list.APIResources {
		names = append(names, fmt.Sprint(r.Name, " ", r.Kind, " ", r.Namespaced))
	}
	if want := []string{"nodes NodeMetrics false", "pods PodMetrics true"}; !slices.Equal(names, want) {
		t.Errorf("resources %q, want %q", names, want)
	}
	if _, err := metrics.PodMetricses("default").Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("metrics of a pod that is not there: %v, want not found", err)
	}
	if _, err := metrics.NodeMetricses().Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("metrics of a node that is not there: %v, want not found", err)
	}
	if _, err := metrics.PodMetricses("default").List(ctx, metav1.ListOptions{LabelSelector: "a==b=c"}); err == nil || !strings.Contains(err.Error(), "expected") {
		t.Errorf("a selector that is none: %v", err)
	}
}
