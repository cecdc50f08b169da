package scheduler

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/kwok/kubeyaml"
)

// Simulated lets a policy decide in a simulation. It is shown each moment as the scheduler of a live
// cluster would show it.
type Simulated struct {
	seat     *seat
	set      *nodeSet
	pods     []*podInfo
	replicas map[string]int // pods of each controller
}

var _ gpushare.Decider = (*Simulated)(nil)

// Simulate returns the policy as the decider of a simulation of these nodes and pods, in the order in
// which the simulation has them. Close it when it is over.
func (p *Policy) Simulate(nodes []corev1.Node, pods []*corev1.Pod) (*Simulated, error) {
	all := make([]*corev1.Node, len(nodes))
	for i := range nodes {
		all[i] = &nodes[i]
	}
	s := &Simulated{set: newNodeSet(all), replicas: map[string]int{}}
	if len(s.set.nodes) != len(nodes) {
		return nil, fmt.Errorf("scheduler: %d of %d nodes can run pods, want all", len(s.set.nodes), len(nodes))
	}
	for i, pod := range pods {
		pod = pod.DeepCopy()
		pod.UID = types.UID(strconv.Itoa(i)) // two of a file may be equal
		info := readPod(pod)
		if info.unreadable != nil {
			return nil, fmt.Errorf("scheduler: pod %s/%s: %w", pod.Namespace, pod.Name, info.unreadable)
		}
		metaOf(s.set.state, info, info.gpus) // before the state is cloned
		s.pods = append(s.pods, info)
		s.replicas[controllerKey(pod)]++
	}
	var err error
	s.seat, err = p.open(len(nodes))
	return s, err
}

// controllerKey names the controller of a pod in its namespace; "" is none.
func controllerKey(p *corev1.Pod) string {
	if c := controller(p); c != "" {
		return p.Namespace + "/" + string(c)
	}
	return ""
}

// Decide implements [gpushare.Decider].
func (s *Simulated) Decide(ctx context.Context, q gpushare.Question) (node int32, devices uint64, err error) {
	m, err := s.moment(q)
	if err != nil {
		return 0, 0, err
	}
	if m.fitting() == 0 {
		return 0, 0, fmt.Errorf("scheduler: %s", m.reasons())
	}
	c, err := s.seat.choose(ctx, m)
	return c.node, c.devices, err
}

// moment returns the present moment of the simulation for a pod.
func (s *Simulated) moment(q gpushare.Question) (*moment, error) {
	pod := s.pods[q.Pod]
	m := newMoment(s.set, pod)
	terms, err := kubeyaml.ReadTerms(pod.Pod)
	if err != nil {
		return nil, err
	}
	m.terms, m.decision = terms, envs.Decision{Pod: -1, Replicas: 1, Racks: s.set.racks}
	if key := controllerKey(pod.Pod); key != "" {
		m.decision.Replicas = s.replicas[key]
	}
	for i, info := range s.pods {
		phase, node, devices := q.Sim.Pod(i)
		info.node, info.devices = "", 0
		if phase == gpushare.Placed {
			info.node = s.set.nodes[node].Name
			for _, d := range devices {
				info.devices |= 1 << d
			}
		}
		if err := m.add(info); err != nil {
			return nil, err
		}
	}
	given := make(map[string]bool, len(q.Fitting))
	for _, n := range q.Fitting {
		given[s.set.nodes[n].Name] = true
	}
	return m, m.close(given)
}

// Close gives back what the policy holds.
func (s *Simulated) Close() error { return s.seat.close() }
