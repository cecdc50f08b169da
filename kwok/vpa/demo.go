package vpa

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/kwok/metricsapi"
	"github.com/kubernasium/kubernasium/kwok/poll"
)

const (
	demoContainer = "main"
	demoLabel     = "kubernasium.io/vpa-demo"
	demoNodeCPU   = 64_000
	demoNodeMem   = 256 << 30
	settleTimeout = 60 * time.Second // until the controller has its desired pods; an eviction takes a second
)

// DemoConfig configures [Demo].
type DemoConfig struct {
	Recommender      Config
	Upstream         UpstreamConfig // runs beside the recommender
	Namespace        string         // prefix of the name of the namespace, which Demo creates
	Deployment       string         // name of the Deployment and its autoscaler
	Replicas         int
	Requests, Limits cluster.Resources   // of the pod template; 0 is none
	Mode             string              // of the autoscaler's updatePolicy
	Usage            []cluster.Resources // of each pod, by step
	Start            time.Time           // time of the first step, as in the metrics
	Step             time.Duration       // length of a step, as in the metrics
}

// DemoPod has the requests and limits of a pod of the Deployment.
type DemoPod struct {
	Name     string            `json:"name"`
	Requests cluster.Resources `json:"requests"`
	Limits   cluster.Resources `json:"limits"`
}

// DemoStep describes a step and its results.
type DemoStep struct {
	Step   int                      `json:"step"`
	Usage  cluster.Resources        `json:"usage"`  // usage that the pods demanded
	Status *ContainerRecommendation `json:"status"` // status of the autoscaler after the step
	Pods   []DemoPod                `json:"pods"`   // pods after the step, by name
	Killed int                      `json:"ooms"`   // OOM kills
	Report Report                   `json:"report"`
}

// Demo plays usage on a Deployment with an autoscaler, in lock-step. In each step the pods use the given
// amounts, which metrics.k8s.io reports. Then the recommender recommends, upstream's updater runs one loop, and
// the controllers settle. Usage of CPU stops at the limit; memory above the limit kills the container. Demo
// calls done after each step, and deletes the objects at the end.
//
// It needs metrics.k8s.io ([metricsapi.Start]), the CRDs ([Install]), the controllers of Deployments and a
// scheduler. New pods get the recommended target only with c.Upstream.Admission and an API server that calls
// webhooks.
func Demo(ctx context.Context, c DemoConfig, done func(DemoStep)) (err error) {
	client, err := kubernetes.NewForConfig(c.Recommender.REST)
	if err != nil {
		return err
	}
	namespace, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: c.Namespace + "-"}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("vpa: create namespace: %w", err)
	}
	c.Namespace = namespace.Name
	c.Recommender.Namespace, c.Upstream.Namespace = c.Namespace, c.Namespace
	d := &demo{DemoConfig: c, born: map[string]int{}}
	if d.r, err = New(c.Recommender); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.clean(), d.r.Close()) }()
	if err := d.create(ctx); err != nil {
		return err
	}
	upstream, err := StartUpstream(ctx, c.Upstream)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, upstream.Close()) }()
	d.r.config.Upstream = upstream
	return d.play(ctx, done)
}

type demo struct {
	DemoConfig
	r    *Recommender
	born map[string]int // by pod: the step after which its container started; 0 for the first pods
}

func (d *demo) play(ctx context.Context, done func(DemoStep)) error {
	if _, err := d.settled(ctx); err != nil {
		return err
	}
	for i, usage := range d.Usage {
		step, err := d.step(ctx, i, usage)
		if err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		done(step)
	}
	return nil
}

// create creates the node, the Deployment and the autoscaler.
func (d *demo) create(ctx context.Context) error {
	size := amounts(cluster.Resources{MilliCPU: demoNodeCPU, MemoryBytes: demoNodeMem})
	size[corev1.ResourcePods] = *resource.NewQuantity(110, resource.DecimalSI)
	if _, err := d.r.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: d.node(), Labels: map[string]string{demoLabel: d.Namespace}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Allocatable: size, Capacity: size},
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("vpa: create node: %w", err)
	}
	replicas, labels := int32(d.Replicas), map[string]string{demoLabel: d.Deployment}
	if _, err := d.r.client.AppsV1().Deployments(d.Namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: d.Deployment},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{demoLabel: d.Namespace},
					Containers: []corev1.Container{{
						Name: demoContainer, Image: "kubernasium.io/simulated",
						Resources: corev1.ResourceRequirements{Requests: amounts(d.Requests), Limits: amounts(d.Limits)},
					}},
				},
			},
		},
	}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("vpa: create deployment: %w", err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&Autoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "VerticalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Name: d.Deployment, Namespace: d.Namespace},
		Spec: AutoscalerSpec{
			TargetRef:    &autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Deployment},
			UpdatePolicy: &UpdatePolicy{UpdateMode: &d.Mode, MinReplicas: new(int32(1))},
			Recommenders: []Selector{{Name: d.r.config.Name}},
		},
	})
	if err != nil {
		return err
	}
	delete(object, "status")
	if _, err := d.r.api.Resource(autoscalers).Namespace(d.Namespace).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("vpa: create autoscaler: %w", err)
	}
	return nil
}

// node is the name of the demo's node, which runs only its pods.
func (d *demo) node() string { return d.Namespace + "-node" }

// clean deletes the namespace and all that create has created.
func (d *demo) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	var errs []error
	background := metav1.DeletePropagationBackground
	for _, err := range []error{
		d.r.api.Resource(autoscalers).Namespace(d.Namespace).Delete(ctx, d.Deployment, metav1.DeleteOptions{}),
		d.r.client.AppsV1().Deployments(d.Namespace).Delete(ctx, d.Deployment, metav1.DeleteOptions{PropagationPolicy: &background}),
		d.r.client.CoreV1().Namespaces().Delete(ctx, d.Namespace, metav1.DeleteOptions{}),
		d.r.client.CoreV1().Nodes().Delete(ctx, d.node(), metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// settled waits until all pods of the Deployment run, and their status shows the resources of their spec.
func (d *demo) settled(ctx context.Context) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		list, err := d.r.client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: demoLabel + "=" + d.Deployment})
		if err != nil {
			return nil, err
		}
		ready := 0
		for i := range list.Items {
			if atRest(&list.Items[i]) {
				ready++
			}
		}
		if ready == d.Replicas && len(list.Items) == d.Replicas {
			slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
			return list.Items, nil
		}
		if poll.Sleep(ctx, pollInterval) != nil {
			return nil, fmt.Errorf("vpa: %d of %d pods of deployment %s/%s are ready, and %d are there: %w", ready, d.Replicas, d.Namespace, d.Deployment, len(list.Items), ctx.Err())
		}
	}
}

// atRest reports whether a pod runs with the resources of its spec.
func atRest(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning || len(p.Status.ContainerStatuses) != 1 {
		return false
	}
	s := &p.Status.ContainerStatuses[0]
	return s.Ready && s.Resources != nil && equality.Semantic.DeepEqual(*s.Resources, p.Spec.Containers[0].Resources)
}

// step sets the pods' usage, and lets the recommender act.
func (d *demo) step(ctx context.Context, i int, usage cluster.Resources) (DemoStep, error) {
	s := DemoStep{Step: i, Usage: usage}
	pods, err := d.settled(ctx)
	if err != nil {
		return s, err
	}
	at := d.Start.Add(time.Duration(i+1) * d.Step)
	for k := range pods {
		if _, ok := d.born[pods[k].Name]; !ok {
			d.born[pods[k].Name] = max(i-1, 0)
		}
		ran := time.Duration(max(i-1-d.born[pods[k].Name], 0)) * d.Step // until it is killed at the start of the step
		killed, err := d.use(ctx, &pods[k], usage, at, ran)
		if err != nil {
			return s, err
		}
		if killed {
			s.Killed++
			d.born[pods[k].Name] = i - 1
		}
	}
	if s.Report, err = d.r.Step(ctx); err != nil {
		return s, err
	}
	if pods, err = d.settled(ctx); err != nil {
		return s, err
	}
	for k := range pods {
		res := &pods[k].Spec.Containers[0].Resources
		s.Pods = append(s.Pods, DemoPod{pods[k].Name, listed(res.Requests), listed(res.Limits)})
	}
	object, err := d.r.api.Resource(autoscalers).Namespace(d.Namespace).Get(ctx, d.Deployment, metav1.GetOptions{})
	if err != nil {
		return s, err
	}
	var a Autoscaler
	if err := fromObject(object, &a); err != nil {
		return s, err
	}
	if p := a.Status.Recommendation; p != nil && len(p.ContainerRecommendations) == 1 {
		s.Status = &p.ContainerRecommendations[0]
	}
	return s, nil
}

// use sets a pod's usage from a time on, within its limits, and reports whether that killed its container,
// which had run for ran.
func (d *demo) use(ctx context.Context, p *corev1.Pod, usage cluster.Resources, at time.Time, ran time.Duration) (killed bool, err error) {
	limits := listed(p.Spec.Containers[0].Resources.Limits)
	if limits.MilliCPU > 0 {
		usage.MilliCPU = min(usage.MilliCPU, limits.MilliCPU)
	}
	if limits.MemoryBytes > 0 && usage.MemoryBytes > limits.MemoryBytes {
		usage.MemoryBytes, killed = limits.MemoryBytes, true
	}
	if err := metricsapi.SetUsage(ctx, d.r.client, p.Namespace, p.Name, usage.MilliCPU, usage.MemoryBytes, at); err != nil || !killed {
		return killed, err
	}
	return true, Kill(ctx, d.r.client, p.Namespace, p.Name, ran)
}

// amounts returns the resources that are not 0.
func amounts(r cluster.Resources) corev1.ResourceList {
	l := corev1.ResourceList{}
	if r.MilliCPU > 0 {
		l[corev1.ResourceCPU] = *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI)
	}
	if r.MemoryBytes > 0 {
		l[corev1.ResourceMemory] = *resource.NewQuantity(r.MemoryBytes, resource.BinarySI)
	}
	return l
}
