package kwok

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/poll"
)

// Sizes of the workload of [RunSim], which are the earlier project's. Package podsched/balance has the same
// workload as an environment.
const (
	simReplicasMin, simReplicasMax = 5, 15
	simMilliCPU                    = 1000
	simMemoryBytes                 = 2 << 30
	simNodeMilliCPU                = 64_000
	simNodeMemoryBytes             = 256 << 30
	simNodePods                    = 110
	simPoll                        = 50 * time.Millisecond
)

// labelRunSim labels the deployments, pods and nodes of RunSim.
const labelRunSim = "kubernasium.io/runsim"

// SimConfig holds the arguments of [RunSim].
type SimConfig struct {
	Server        Options
	Namespace     string
	Nodes         int     // nodes to create beside existing ones, unless earlier ones of RunSim exist
	CPULoad       float64 // requested fraction of the nodes' CPU at which the cluster counts as full
	MemoryLoad    float64 // likewise of memory
	PodLoad       float64 // likewise of pods
	Resets        int     // number of times that the cluster is filled and emptied
	Interval      time.Duration
	SchedulerName string
	Patience      time.Duration // how long pods may be pending
	Seed          uint64
}

// SimDeployment is a deployment that RunSim made.
type SimDeployment struct {
	Reset    int       `json:"reset"`
	Name     string    `json:"name"`
	Replicas int       `json:"pod_count"`
	Created  time.Time `json:"created"`
	Placed   float64   `json:"placed_s"` // from its creation until all its pods are bound
}

// RunSim deploys a workload for a scheduler that runs elsewhere. It creates deployments of 5 to 15 equal pods,
// each when no pod is pending, until CPU, memory or pods reach a load. Then it deletes them, and starts again.
// It calls done after each deployment.
func RunSim(ctx context.Context, c SimConfig, done func(SimDeployment, Load)) ([]SimDeployment, error) {
	s, err := connectSim(ctx, c)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0))
	var all []SimDeployment
	for reset := range c.Resets {
		for i := 0; ; i++ {
			d := SimDeployment{Reset: reset, Name: fmt.Sprintf("sim-%d-%d", reset, i), Replicas: simReplicasMin + rng.IntN(simReplicasMax-simReplicasMin+1), Created: time.Now()}
			if err := s.deploy(ctx, d, cluster.Resources{MilliCPU: simMilliCPU, MemoryBytes: simMemoryBytes}, nil); err != nil {
				return all, err
			}
			if err := s.placed(ctx, d); err != nil {
				return all, err
			}
			d.Placed = time.Since(d.Created).Seconds()
			usage, err := Usage(ctx, s.client)
			if err != nil {
				return all, err
			}
			load := Total(usage)
			all = append(all, d)
			done(d, load)
			if load.CPU >= c.CPULoad || load.Memory >= c.MemoryLoad || load.Pods >= c.PodLoad {
				break
			}
			if err := poll.Sleep(ctx, c.Interval); err != nil {
				return all, err
			}
		}
		if err := clean(ctx, s.client, c.Namespace, false); err != nil {
			return all, err
		}
	}
	return all, nil
}

// simulation is the state of a call of RunSim.
type simulation struct {
	SimConfig
	client kubernetes.Interface
}

func connectSim(ctx context.Context, c SimConfig) (*simulation, error) {
	client, err := Connect(ctx, c.Server)
	if err != nil {
		return nil, err
	}
	s := &simulation{c, client}
	for i := range c.Nodes {
		amounts := amounts(cluster.Resources{MilliCPU: simNodeMilliCPU, MemoryBytes: simNodeMemoryBytes})
		amounts[corev1.ResourcePods] = *resource.NewQuantity(simNodePods, resource.DecimalSI)
		name := fmt.Sprintf("worker-%d", i)
		_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{nodeAnnotation: "fake"},
				Labels: map[string]string{labelRunSim: "", corev1.LabelHostname: name},
			},
			Status: corev1.NodeStatus{Allocatable: amounts, Capacity: amounts},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, wrapAPI("create node "+name, err)
		}
	}
	return s, nil
}

// deploy creates a deployment of pods of one size, which may run only on nodes with the given labels.
func (s *simulation) deploy(ctx context.Context, d SimDeployment, requests cluster.Resources, only map[string]string) error {
	labels, replicas, grace := map[string]string{labelRunSim: d.Name}, int32(d.Replicas), int64(0)
	size := amounts(requests)
	_, err := s.client.AppsV1().Deployments(s.Namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					SchedulerName: s.SchedulerName, NodeSelector: only, TerminationGracePeriodSeconds: &grace,
					Containers: []corev1.Container{{Name: container, Image: "kubernasium.io/simulated", Resources: corev1.ResourceRequirements{Requests: size, Limits: size}}},
				},
			},
		},
	}, metav1.CreateOptions{})
	return wrapAPI("create deployment "+d.Name, err)
}

// placed waits until all pods of the deployment are bound.
func (s *simulation) placed(ctx context.Context, d SimDeployment) error {
	return until(ctx, s.Patience, func() (bool, string, error) {
		pods, err := s.client.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labelRunSim + "=" + d.Name})
		if err != nil {
			return false, "", wrapAPI("list pods", err)
		}
		bound := 0
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName != "" {
				bound++
			}
		}
		return bound == d.Replicas, fmt.Sprintf("%d of the %d pods of deployment %s have a node; does the scheduler %s run?", bound, d.Replicas, d.Name, s.SchedulerName), nil
	})
}

// Clean deletes RunSim's deployments and pods in a namespace, or all deployments and pods there if all is set,
// and waits until they are gone.
func Clean(ctx context.Context, o Options, namespace string, all bool) error {
	client, err := Connect(ctx, o)
	if err != nil {
		return err
	}
	return clean(ctx, client, namespace, all)
}

func clean(ctx context.Context, client kubernetes.Interface, namespace string, all bool) error {
	which := metav1.ListOptions{LabelSelector: labelRunSim}
	if all {
		which.LabelSelector = ""
	}
	if err := client.AppsV1().Deployments(namespace).DeleteCollection(ctx, background(), which); err != nil {
		return wrapAPI("delete deployments", err)
	}
	if err := client.AppsV1().ReplicaSets(namespace).DeleteCollection(ctx, background(), which); err != nil {
		return wrapAPI("delete replica sets", err)
	}
	return until(ctx, patience, func() (bool, string, error) {
		if err := client.CoreV1().Pods(namespace).DeleteCollection(ctx, noGracePeriod(), which); err != nil {
			return false, "", wrapAPI("delete pods", err)
		}
		pods, err := client.CoreV1().Pods(namespace).List(ctx, which)
		if err != nil {
			return false, "", wrapAPI("list pods", err)
		}
		return len(pods.Items) == 0, fmt.Sprintf("%d pods of namespace %s are still there", len(pods.Items), namespace), nil
	})
}

func background() metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
}

// until polls met until it returns true or an error. After patience it returns an error that names what met
// reports missing.
func until(ctx context.Context, patience time.Duration, met func() (ok bool, missing string, err error)) error {
	for begin := time.Now(); ; {
		ok, missing, err := met()
		if ok || err != nil {
			return err
		}
		if time.Since(begin) > patience {
			return fmt.Errorf("kwok: after %v %s", patience, missing)
		}
		if err := poll.Sleep(ctx, simPoll); err != nil {
			return err
		}
	}
}
