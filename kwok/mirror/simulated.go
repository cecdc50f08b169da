package mirror

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// Simulated lets a policy that is made for a running cluster decide in a simulation.
type Simulated struct {
	policy   *live.Policy
	mirror   *Mirror
	nodes    []*corev1.Node
	pods     []*corev1.Pod
	on       [][]*corev1.Pod // by node
	version  []int64         // by node, incremented when its pods change
	node     []int32         // by pod: its node, or -1
	devices  []uint64        // by pod
	replicas map[types.UID]int
}

var (
	_ gpushare.Decider = (*Simulated)(nil)
	_ Source           = (*Simulated)(nil)
)

// Simulate returns the policy as the decider of a simulation of these nodes and pods, in the simulation's
// order. The caller closes the policy.
func Simulate(p *live.Policy, nodes []corev1.Node, pods []*corev1.Pod) (*Simulated, error) {
	s := &Simulated{
		policy: p, mirror: New(nil), on: make([][]*corev1.Pod, len(nodes)), version: make([]int64, len(nodes)),
		node: make([]int32, len(pods)), devices: make([]uint64, len(pods)), replicas: map[types.UID]int{},
	}
	for i := range nodes {
		if _, err := kubeyaml.Allocatable(&nodes[i]); err != nil {
			return nil, fmt.Errorf("mirror: node %s can run no pods: %w", nodes[i].Name, err)
		}
		s.nodes, s.version[i] = append(s.nodes, &nodes[i]), 1
	}
	for i, pod := range pods {
		pod = pod.DeepCopy()
		pod.UID = types.UID(strconv.Itoa(i)) // two objects in a file may have the same UID
		if info := readPod(pod); info.unreadable != nil {
			return nil, fmt.Errorf("mirror: pod %s/%s: %w", pod.Namespace, pod.Name, info.unreadable)
		}
		stated, _ := kubeyaml.DeviceAnnotation(pod, nil)
		delete(pod.Annotations, stated)                           // the simulation chooses its devices
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil { // names of controllers may repeat in other namespaces
			ref.UID = types.UID(pod.Namespace + "/" + string(ref.UID))
			s.replicas[ref.UID]++
		}
		s.pods, s.node[i] = append(s.pods, pod), -1
		s.mirror.AddPending(pod)
	}
	return s, nil
}

// Len implements [Source].
func (s *Simulated) Len() int { return len(s.nodes) }

// Node implements [Source].
func (s *Simulated) Node(i int) (*corev1.Node, int64) { return s.nodes[i], s.version[i] }

// Pods implements [Source].
func (s *Simulated) Pods(i int) iter.Seq[*corev1.Pod] { return slices.Values(s.on[i]) }

// Decide implements [gpushare.Decider].
func (s *Simulated) Decide(ctx context.Context, q gpushare.Question) (node int32, devices uint64, err error) {
	s.follow(q)
	if err := s.mirror.Sync(s); err != nil {
		return 0, 0, err
	}
	question := Question{Pod: s.pods[q.Pod], Replicas: 1}
	if ref := metav1.GetControllerOfNoCopy(question.Pod); ref != nil {
		question.Replicas = s.replicas[ref.UID]
	}
	for _, n := range q.Fitting {
		question.Open = append(question.Open, s.nodes[n].Name)
	}
	question.Now = question.Pod.CreationTimestamp.Time // a simulation has no clock
	name, devices, err := s.mirror.Ask(question, func(state *cluster.State, d envs.Decision) (int32, uint64, error) {
		c, err := s.policy.Choose(ctx, state, d)
		return c.Node, c.Devices, err
	})
	if err != nil {
		return 0, 0, err
	}
	return int32(slices.IndexFunc(s.nodes, func(n *corev1.Node) bool { return n.Name == name })), devices, nil
}

// follow updates the pods' nodes from the simulation.
func (s *Simulated) follow(q gpushare.Question) {
	for i, p := range s.pods {
		phase, at, list := q.Sim.Pod(i)
		node, devices := int32(-1), uint64(0)
		if phase == gpushare.Placed {
			node = int32(at)
			for _, d := range list {
				devices |= 1 << d
			}
		}
		was := s.node[i]
		if was == node && s.devices[i] == devices {
			continue
		}
		if was >= 0 {
			s.on[was] = slices.DeleteFunc(s.on[was], func(o *corev1.Pod) bool { return o == p })
			s.version[was]++
			s.mirror.AddPending(p)
		}
		if node >= 0 {
			s.on[node] = append(s.on[node], p)
			s.version[node]++
			s.mirror.Reserve(p.UID, devices)
		}
		s.node[i], s.devices[i] = node, devices
	}
}
