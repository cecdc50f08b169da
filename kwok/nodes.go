package kwok

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/kwok/poll"
)

const (
	createNodesAtOnce = 16
	nodesPoll         = 50 * time.Millisecond
	gpuResource       = corev1.ResourceName("nvidia.com/gpu")
)

// Nodes describes simulated nodes of one size.
type Nodes struct {
	Count       int
	CPU, Memory resource.Quantity // allocatable and capacity
	Pods        int64
	GPUs        int64 // nvidia.com/gpu
}

// node returns the i-th node, from 1.
func (n Nodes) node(i int) *corev1.Node {
	size := corev1.ResourceList{
		corev1.ResourceCPU: n.CPU, corev1.ResourceMemory: n.Memory, corev1.ResourcePods: *resource.NewQuantity(n.Pods, resource.DecimalSI),
	}
	if n.GPUs > 0 {
		size[gpuResource] = *resource.NewQuantity(n.GPUs, resource.DecimalSI)
	}
	name := fmt.Sprintf("node-%d", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{nodeAnnotation: "fake"},
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
		},
		Status: corev1.NodeStatus{Allocatable: size, Capacity: size},
	}
}

// CreateNodes creates node-1 to node-N. Existing nodes, of a kept state, stay as they are. With wait it returns
// when all nodes are ready.
func CreateNodes(ctx context.Context, client kubernetes.Interface, n Nodes, wait bool) error {
	group, ctxAll := errgroup.WithContext(ctx)
	group.SetLimit(createNodesAtOnce)
	for i := 1; i <= n.Count; i++ {
		group.Go(func() error {
			node := n.node(i)
			if _, err := client.CoreV1().Nodes().Create(ctxAll, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return wrapAPI("create node "+node.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil || !wait || n.Count == 0 {
		return err
	}
	for {
		ready, err := n.ready(ctx, client)
		if err != nil || ready == n.Count {
			return err
		}
		if poll.Sleep(ctx, nodesPoll) != nil {
			return fmt.Errorf("kwok: %d of %d nodes are ready: %w", ready, n.Count, context.Cause(ctx))
		}
	}
}

// ready counts the nodes that are ready.
func (n Nodes) ready(ctx context.Context, client kubernetes.Interface) (count int, err error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return 0, wrapAPI("list nodes", err)
	}
	wanted := map[string]bool{}
	for i := 1; i <= n.Count; i++ {
		wanted[fmt.Sprintf("node-%d", i)] = true
	}
	for i := range list.Items {
		if wanted[list.Items[i].Name] && haveNode(&list.Items[i]).Ready {
			count++
		}
	}
	return count, nil
}
