package kwok

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/clustertest"
	"github.com/kubernasium/kubernasium/kwok/kwoktest"
)

func TestMain(m *testing.M) { os.Exit(kwoktest.Main(m)) }

// open returns a cluster on the tests' control plane.
func open(t testing.TB) *Cluster {
	t.Helper()
	c, err := Open(Options{Kubeconfig: kwoktest.Shared(t).Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConformance plays what every backend must: thousands of ops, legal and not.
func TestConformance(t *testing.T) {
	kwoktest.Shared(t)
	episodes := 12
	if testing.Short() {
		episodes = 30 // of which a tenth is played
	}
	clustertest.Run(t, func(t *testing.T) cluster.Cluster { return open(t) }, clustertest.Episodes(episodes), clustertest.Ops(80))
}

// TestResize: what the API resizes in place stays the same pod; what it refuses becomes another,
// in the same place, and the State is the same.
func TestResize(t *testing.T) {
	c := open(t)
	defer c.Close()
	s := c.State()
	amount := func(cpu, memory int64) cluster.Resources {
		return cluster.Resources{MilliCPU: cpu, MemoryBytes: memory}
	}
	node, pod := s.Intern(cluster.Meta{Name: "node"}), s.Intern(cluster.Meta{Name: "pod"})
	ops := []cluster.Op{
		{Kind: cluster.AddNode, Meta: node, Resources: amount(4000, 4000), GPUs: 2, MilliGPU: 1000},
		{Kind: cluster.AddPod, Meta: pod, Resources: amount(500, 500), Limits: amount(1000, 0), GPUs: 1, MilliGPU: 500},
		{Kind: cluster.Bind, Devices: 0b10},
		{Kind: cluster.SetUsage, Resources: amount(300, 400)},
	}
	if err := c.Apply(ctx, ops); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name             string
		requests, limits cluster.Resources
		inPlace          bool
	}{
		{"more", amount(900, 600), amount(1200, 0), true},
		{"less", amount(100, 1), amount(200, 0), true},
		{"another limit", amount(100, 100), amount(200, 300), true},
		{"no limit", amount(100, 100), amount(200, 0), false},
		{"to Guaranteed", amount(200, 300), amount(200, 300), false},
		{"of Guaranteed", amount(300, 300), amount(300, 300), true},
		{"to BestEffort", amount(0, 0), amount(0, 0), false},
	} {
		before := c.podNames[0]
		if err := c.Apply(ctx, []cluster.Op{{Kind: cluster.Resize, Resources: tc.requests, Limits: tc.limits}}); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if inPlace := c.podNames[0] == before; inPlace != tc.inPlace {
			t.Errorf("%s: resized in place %v, want %v", tc.name, inPlace, tc.inPlace)
		}
		p, err := c.client.CoreV1().Pods(c.Namespace()).Get(ctx, c.podNames[0], metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := havePod(p)
		want := podRecord{
			Phase: corev1.PodRunning, Node: c.Namespace() + ".node", Requests: tc.requests, Limits: tc.limits, Usage: amount(300, 400),
			GPUs: 1, MilliGPU: 500, Devices: "1", Placement: "[] []",
		}
		if got != want {
			t.Errorf("%s: the pod is %+v, want %+v", tc.name, got, want)
		}
	}
}

// TestNames: names that are as long as Kubernetes takes for nodes, and metadata of all kinds.
func TestNames(t *testing.T) {
	c := open(t)
	defer c.Close()
	s := c.State()
	long := strings.Repeat("a.b-", 60) + "cd" // 242 bytes, the most that State takes
	m := cluster.Meta{
		Name: long, Labels: []cluster.Label{{Key: "kubernetes.io/hostname", Value: "x"}, {Key: "zone", Value: "a"}}, GPUModel: "A100",
		Taints:       []cluster.Taint{{Key: "gpu", Value: "yes", Effect: cluster.NoSchedule}},
		NodeSelector: []cluster.Label{{Key: "zone", Value: "a"}}, GPUModels: []string{"A100", "T4"},
		Tolerations: []cluster.Toleration{{Key: "gpu", Operator: cluster.TolerationExists}},
	}
	i := s.Intern(m)
	ops := []cluster.Op{
		{Kind: cluster.AddNode, Meta: i, Resources: cluster.Resources{MilliCPU: cluster.MaxAmount, MemoryBytes: cluster.MaxAmount}, MaxPods: math.MaxInt32, GPUs: 64, MilliGPU: 1},
		{Kind: cluster.AddPod, Meta: i, Resources: cluster.Resources{MilliCPU: cluster.MaxAmount, MemoryBytes: cluster.MaxAmount}, GPUs: 64, MilliGPU: 1},
		{Kind: cluster.Bind, Devices: math.MaxUint64},
	}
	if err := c.Apply(ctx, ops); err != nil {
		t.Fatal(err)
	}
}

// TestCloseRemoves: nothing of a cluster is left when it is closed.
func TestCloseRemoves(t *testing.T) {
	c := open(t)
	start(t, c, 4)
	client, namespace := c.client, c.Namespace()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labelEnvironment + "=" + namespace})
	if err != nil || len(nodes.Items) > 0 {
		t.Errorf("%d nodes are left, %v", len(nodes.Items), err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("namespace %s is still there, %v", namespace, err)
		}
	}
}
