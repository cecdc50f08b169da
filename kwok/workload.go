package kwok

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gonum.org/v1/gonum/stat"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Workload is a set of nodes, and of deployments that arrive one after another.
type Workload struct {
	Nodes       []WorkloadNode
	Deployments []WorkloadDeployment
}

// WorkloadNode is a node of a Workload.
type WorkloadNode struct {
	Name        string
	Allocatable cluster.Resources
	MaxPods     int32 // 0 is no limit
	Labels      []cluster.Label
}

// WorkloadDeployment is a deployment of equal pods without GPUs.
type WorkloadDeployment struct {
	Name     string
	Replicas int
	Requests cluster.Resources
}

// Placements counts the pods of each deployment on each node, by their indices in a Workload.
type Placements [][]int

// WorkloadOf returns the workload of an episode and its placements. Consecutive pods with the same name form a
// deployment. Pods that are no longer bound do not count.
func WorkloadOf(s *cluster.State) (*Workload, Placements) {
	w, placed := &Workload{}, Placements{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		w.Nodes = append(w.Nodes, WorkloadNode{s.NodeName(int32(i)), n.Allocatable, n.MaxPods, s.Meta(n.Meta).Labels})
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		name := s.Meta(p.Meta).Name
		last := len(w.Deployments) - 1
		if last < 0 || w.Deployments[last].Name != name {
			w.Deployments = append(w.Deployments, WorkloadDeployment{Name: name, Requests: p.Requests})
			placed = append(placed, make([]int, len(s.Nodes)))
			last++
		}
		w.Deployments[last].Replicas++
		if p.Phase == cluster.Running {
			placed[last][p.Node]++
		}
	}
	return w, placed
}

// Pods returns the number of placed pods.
func (p Placements) Pods() (pods int) {
	for _, nodes := range p {
		for _, n := range nodes {
			pods += n
		}
	}
	return pods
}

// Imbalance returns two measures of the balance between nodes: the population standard deviation, over nodes,
// of the number of pods; and the mean of the standard deviations of the requested shares of CPU and of memory,
// in percent. The latter is the cost of the objective balance of k8s/PodBalance-v0.
func (w *Workload) Imbalance(p Placements) (sdPods, percent float64) {
	pods, cpu, memory := make([]float64, len(w.Nodes)), make([]float64, len(w.Nodes)), make([]float64, len(w.Nodes))
	for d, nodes := range p {
		for i, n := range nodes {
			pods[i] += float64(n)
			cpu[i] += float64(n) * float64(w.Deployments[d].Requests.MilliCPU) / float64(w.Nodes[i].Allocatable.MilliCPU)
			memory[i] += float64(n) * float64(w.Deployments[d].Requests.MemoryBytes) / float64(w.Nodes[i].Allocatable.MemoryBytes)
		}
	}
	return stat.PopStdDev(pods, nil), 100 * (stat.PopStdDev(cpu, nil) + stat.PopStdDev(memory, nil)) / 2
}

// labelWorkload labels the nodes and pods of a Workload with their namespace.
const labelWorkload = "kubernasium.io/workload"

// Deploy creates the nodes, and then one deployment after another, each when every pod of the previous one is
// bound. A scheduler that runs elsewhere places the pods on these nodes. At the end Deploy deletes all objects.
// A pod that is not bound after patience is an error. Before the first deployment, Deploy calls each of seen,
// so that watchers know the nodes.
func (w *Workload) Deploy(ctx context.Context, client kubernetes.Interface, scheduler string, patience time.Duration, seen ...func(ctx context.Context, nodes []string) error) (p Placements, err error) {
	ns, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "workload-"}}, metav1.CreateOptions{})
	if err != nil {
		return nil, wrapAPI("create namespace", err)
	}
	defer func() { err = errors.Join(err, w.clean(client, ns.Name)) }()
	s := &simulation{SimConfig{Namespace: ns.Name, SchedulerName: scheduler, Patience: patience}, client}
	for i := range w.Nodes {
		if err := createNode(ctx, client, ns.Name, &w.Nodes[i]); err != nil {
			return nil, err
		}
	}
	if err := w.ready(ctx, client, ns.Name, patience, seen); err != nil {
		return nil, err
	}
	only := map[string]string{labelWorkload: ns.Name}
	for i, d := range w.Deployments {
		sim := SimDeployment{Name: fmt.Sprintf("%s-%d", d.Name, i), Replicas: d.Replicas}
		if err := s.deploy(ctx, sim, d.Requests, only); err != nil {
			return nil, err
		}
		if err := s.placed(ctx, sim); err != nil {
			return nil, err
		}
		nodes, err := w.nodesOf(ctx, client, ns.Name, sim.Name)
		if err != nil {
			return nil, err
		}
		p = append(p, nodes)
	}
	return p, nil
}

func createNode(ctx context.Context, client kubernetes.Interface, namespace string, n *WorkloadNode) error {
	amounts := amounts(n.Allocatable)
	amounts[corev1.ResourcePods] = *resource.NewQuantity(podLimit(n.MaxPods), resource.DecimalSI)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "." + n.Name, Annotations: map[string]string{nodeAnnotation: "fake"}, Labels: map[string]string{labelWorkload: namespace}},
		Status:     corev1.NodeStatus{Allocatable: amounts, Capacity: amounts},
	}
	for _, l := range n.Labels {
		node.Labels[l.Key] = l.Value
	}
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return wrapAPI("create node "+node.Name, err)
}

// ready waits until all nodes are ready, and then for each of seen.
func (w *Workload) ready(ctx context.Context, client kubernetes.Interface, namespace string, most time.Duration, seen []func(context.Context, []string) error) error {
	err := until(ctx, patience, func() (bool, string, error) {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labelWorkload + "=" + namespace})
		if err != nil {
			return false, "", wrapAPI("list nodes", err)
		}
		ready := 0
		for i := range nodes.Items {
			if haveNode(&nodes.Items[i]).Ready {
				ready++
			}
		}
		return ready == len(w.Nodes), fmt.Sprintf("%d of %d nodes are ready", ready, len(w.Nodes)), nil
	})
	if err != nil {
		return err
	}
	names := make([]string, len(w.Nodes))
	for i := range w.Nodes {
		names[i] = namespace + "." + w.Nodes[i].Name
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for _, f := range seen {
		if err := f(ctx, names); err != nil {
			return err
		}
	}
	return nil
}

// nodesOf counts the pods of a deployment on each node.
func (w *Workload) nodesOf(ctx context.Context, client kubernetes.Interface, namespace, deployment string) ([]int, error) {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labelRunSim + "=" + deployment})
	if err != nil {
		return nil, wrapAPI("list pods", err)
	}
	index, counts := map[string]int{}, make([]int, len(w.Nodes))
	for i := range w.Nodes {
		index[namespace+"."+w.Nodes[i].Name] = i
	}
	for i := range pods.Items {
		node, ok := index[pods.Items[i].Spec.NodeName]
		if !ok {
			return nil, fmt.Errorf("kwok: pod %s is on node %q, want one of %v", pods.Items[i].Name, pods.Items[i].Spec.NodeName, slices.Sorted(maps.Keys(index)))
		}
		counts[node]++
	}
	return counts, nil
}

// clean deletes everything that Deploy created.
func (w *Workload) clean(client kubernetes.Interface, namespace string) error {
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	err := clean(ctx, client, namespace, true)
	nodes := client.CoreV1().Nodes().DeleteCollection(ctx, noGracePeriod(), metav1.ListOptions{LabelSelector: labelWorkload + "=" + namespace})
	gone := client.CoreV1().Namespaces().Delete(ctx, namespace, noGracePeriod())
	if apierrors.IsNotFound(gone) {
		gone = nil
	}
	return errors.Join(err, wrapAPI("delete nodes", nodes), wrapAPI("delete namespace "+namespace, gone))
}
