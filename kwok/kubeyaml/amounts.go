package kubeyaml

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/kubescore"
)

// Names of GPU resources, annotations and labels in objects.
const (
	nvidiaGPU     = "nvidia.com/gpu"
	nvidiaProduct = "nvidia.com/gpu.product"
	openbCount    = "alibabacloud.com/gpu-count"
	openbMilli    = "alibabacloud.com/gpu-milli"
	openbModel    = "alibabacloud.com/gpu-card-model"
	openbIndex    = "alibabacloud.com/gpu-index"

	// Names that package kwok writes.
	ownCount   = "kubernasium.io/gpus"
	ownMilli   = "kubernasium.io/milli-gpu"
	ownModel   = "kubernasium.io/gpu-model"
	ownDevices = "kubernasium.io/devices"
)

// defaultMaxPods is kubelet's default.
const defaultMaxPods = 110

// Capacity is a node's capacity for pods.
type Capacity struct {
	cluster.Resources
	MaxPods int // maximum number of pods; 0 is none
	GPUs    int // devices, each of 1000 thousandths
	Model   string
}

// Allocatable reads a node's capacity from status.allocatable, or else from status.capacity.
func Allocatable(n *corev1.Node) (Capacity, error) {
	have := n.Status.Allocatable
	if len(have) == 0 {
		have = n.Status.Capacity
	}
	c := Capacity{Resources: cluster.Resources{MilliCPU: have.Cpu().MilliValue(), MemoryBytes: have.Memory().Value()}, MaxPods: int(have.Pods().Value())}
	if c.MilliCPU <= 0 || c.MemoryBytes <= 0 {
		return c, errors.New("status.allocatable has no cpu or no memory")
	}
	if _, ok := have[corev1.ResourcePods]; !ok {
		c.MaxPods = defaultMaxPods
	}
	count, err := devicesOf(n, have)
	if err != nil {
		return c, err
	}
	if count < 0 || count > cluster.MaxDevices {
		return c, fmt.Errorf("%d GPUs, want 0 to %d", count, cluster.MaxDevices)
	}
	if c.GPUs = int(count); c.GPUs > 0 {
		c.Model = cmp.Or(n.Labels[openbModel], n.Annotations[openbModel], n.Annotations[ownModel], n.Labels[nvidiaProduct], "GPU")
	}
	return c, nil
}

// devicesOf returns the number of a node's GPUs.
func devicesOf(n *corev1.Node, have corev1.ResourceList) (int64, error) {
	if text, ok := n.Annotations[ownCount]; ok {
		count, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("annotation %s is %q, want a number of GPUs", ownCount, text)
		}
		return count, nil
	}
	count, shared := have[openbCount]
	if !shared {
		count = have[nvidiaGPU]
	}
	return count.Value(), nil
}

// Requests returns the CPU and memory that a pod's containers request, and the amounts that the score of
// NodeResourcesFit counts, which has defaults for containers without requests. For a container that is being
// resized it takes the maximum of the desired, allocated and actual requests, as kube-scheduler does.
func Requests(p *corev1.Pod) (stated, counted cluster.Resources) {
	amounts := func(missing corev1.ResourceList) cluster.Resources {
		r := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{NonMissingContainerRequests: missing, UseStatusResources: true})
		return cluster.Resources{MilliCPU: r.Cpu().MilliValue(), MemoryBytes: r.Memory().Value()}
	}
	return amounts(nil), amounts(corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(kubescore.DefaultMilliCPURequest, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(kubescore.DefaultMemoryRequestBytes, resource.BinarySI),
	})
}

// GPUs returns the number of GPUs that a pod requests, the thousandths of each, and the accepted
// models, joined by "|"; "" accepts any.
func GPUs(p *corev1.Pod) (gpus, milli int32, models string, err error) {
	for _, names := range []struct{ milli, count, models, join string }{
		{ownMilli, ownCount, ownModel, ","}, {openbMilli, openbCount, openbModel, "|"},
	} {
		if _, ok := p.Annotations[names.milli]; !ok {
			continue
		}
		each, err := strconv.Atoi(p.Annotations[names.milli])
		if err != nil {
			return 0, 0, "", fmt.Errorf("annotation %s is %q, want thousandths of a GPU", names.milli, p.Annotations[names.milli])
		}
		count, err := strconv.Atoi(cmp.Or(p.Annotations[names.count], "1"))
		if err != nil || count < 0 || count > cluster.MaxDevices {
			return 0, 0, "", fmt.Errorf("annotation %s is %q, want 0 to %d", names.count, p.Annotations[names.count], cluster.MaxDevices)
		}
		if count == 0 || each <= 0 {
			return 0, 0, "", nil
		}
		return int32(count), int32(min(each, 2*wholeGPU)), strings.ReplaceAll(p.Annotations[names.models], names.join, "|"), nil
	}
	want := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})[nvidiaGPU]
	switch count := want.Value(); {
	case count < 0 || count > cluster.MaxDevices:
		return 0, 0, "", fmt.Errorf("requests %d of %s, want 0 to %d", count, nvidiaGPU, cluster.MaxDevices)
	case count > 0:
		return int32(count), wholeGPU, p.Annotations[openbModel], nil
	}
	return 0, 0, "", nil
}

// Devices returns the node's devices that a bound pod has, or nil if the pod does not state them.
func Devices(p *corev1.Pod) ([]int, error) {
	for _, names := range []struct{ key, join string }{{ownDevices, ","}, {openbIndex, "-"}} {
		text := p.Annotations[names.key]
		if text == "" {
			continue
		}
		var list []int
		for one := range strings.SplitSeq(text, names.join) {
			d, err := strconv.Atoi(one)
			if err != nil || d < 0 || d >= cluster.MaxDevices {
				return nil, fmt.Errorf("annotation %s is %q, want indices joined by %q", names.key, text, names.join)
			}
			list = append(list, d)
		}
		return list, nil
	}
	return nil, nil
}

// DeviceAnnotation returns the annotation with which a binding states the pod's devices, in the notation of the
// pod's request.
func DeviceAnnotation(p *corev1.Pod, devices []int) (key, value string) {
	key, join := ownDevices, ","
	if _, ok := p.Annotations[openbMilli]; ok {
		key, join = openbIndex, "-"
	}
	list := make([]string, len(devices))
	for i, d := range devices {
		list[i] = strconv.Itoa(d)
	}
	return key, strings.Join(list, join)
}
