package filters

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Pod is what of a pod matters to the filters. The object must not be changed after it was read.
type Pod struct {
	*corev1.Pod
	affinity, apart []term // required affinity and anti-affinity
	spread          []constraint
	ports           []port
	claims          []claim
	others          map[corev1.ResourceName]int64 // requests beside CPU, memory and GPUs
}

// term is a required term of inter-pod affinity.
type term struct {
	selector   labels.Selector
	namespaces []string
	spaces     labels.Selector // namespaces by their labels
	key        string          // of the nodes' label
}

// constraint is a topology spread constraint DoNotSchedule.
type constraint struct {
	selector     labels.Selector
	key          string
	maxSkew      int
	minDomains   int
	honor        bool // only nodes count that the pod's node affinity and selector match
	honorsTaints bool // only nodes count whose taints it tolerates
}

// port is a host port.
type port struct {
	ip       string // "" is every address
	protocol corev1.Protocol
	number   int32
}

func (p port) conflicts(q port) bool {
	return p.number == q.number && p.protocol == q.protocol && (p.ip == q.ip || p.ip == "" || q.ip == "")
}

// claim is a claim of a volume by its name in the pod's namespace.
type claim struct {
	name      string
	ephemeral bool // made for the pod
}

// Read reads a pod. It returns an error where a selector is not valid, which the API server lets
// nobody write.
func Read(p *corev1.Pod) (*Pod, error) {
	out := &Pod{Pod: p, ports: hostPorts(p), claims: claims(p), others: others(p)}
	var err error
	if a := p.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			out.affinity, err = readTerms(p, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		if err == nil && a.PodAntiAffinity != nil {
			out.apart, err = readTerms(p, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	if err == nil {
		out.spread, err = readSpread(p)
	}
	if err != nil {
		return nil, fmt.Errorf("filters: pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return out, nil
}

// Social reports whether other pods decide where this one may run: another that goes or changes its labels may
// open a node to it.
func (p *Pod) Social() bool { return len(p.affinity)+len(p.apart)+len(p.spread) > 0 }

// HelpedBy reports whether q, placed somewhere, may open a node to the pod: one that it wants to be near, or one
// of those that it spreads with. Namespaces are not looked at.
func (p *Pod) HelpedBy(q *corev1.Pod) bool {
	of := labels.Set(q.Labels)
	return slices.ContainsFunc(p.affinity, func(t term) bool { return t.selector.Matches(of) }) ||
		slices.ContainsFunc(p.spread, func(c constraint) bool { return c.selector.Matches(of) })
}

func readTerms(p *corev1.Pod, of []corev1.PodAffinityTerm) ([]term, error) {
	terms := make([]term, len(of))
	for i := range of {
		t := term{key: of[i].TopologyKey, namespaces: of[i].Namespaces}
		if len(of[i].Namespaces) == 0 && of[i].NamespaceSelector == nil {
			t.namespaces = []string{p.Namespace}
		}
		var err error
		if t.selector, err = metav1.LabelSelectorAsSelector(of[i].LabelSelector); err != nil {
			return nil, err
		}
		if t.spaces, err = metav1.LabelSelectorAsSelector(of[i].NamespaceSelector); err != nil {
			return nil, err
		}
		terms[i] = t
	}
	return terms, nil
}

// matches reports whether the term selects a pod, in a namespace whose labels are looked up if need be.
func (t *term) matches(p *corev1.Pod, labelsOf func(namespace string) labels.Set) bool {
	return t.selector.Matches(labels.Set(p.Labels)) &&
		(slices.Contains(t.namespaces, p.Namespace) || t.spaces.Empty() || selects(t.spaces) && t.spaces.Matches(labelsOf(p.Namespace)))
}

// selects reports whether a selector has a chance to match, so that nothing need be looked up otherwise.
func selects(s labels.Selector) bool {
	_, ok := s.Requirements()
	return ok
}

func readSpread(p *corev1.Pod) ([]constraint, error) {
	var all []constraint
	for i := range p.Spec.TopologySpreadConstraints {
		of := &p.Spec.TopologySpreadConstraints[i]
		if of.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		c := constraint{key: of.TopologyKey, maxSkew: int(of.MaxSkew), minDomains: 1, honor: true}
		var err error
		if c.selector, err = metav1.LabelSelectorAsSelector(of.LabelSelector); err != nil {
			return nil, err
		}
		if selects(c.selector) {
			for _, key := range of.MatchLabelKeys {
				if value, ok := p.Labels[key]; ok {
					own, _ := labels.SelectorFromSet(labels.Set{key: value}).Requirements()
					c.selector = c.selector.Add(own...)
				}
			}
		}
		if of.MinDomains != nil {
			c.minDomains = int(*of.MinDomains)
		}
		if of.NodeAffinityPolicy != nil {
			c.honor = *of.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
		}
		if of.NodeTaintsPolicy != nil {
			c.honorsTaints = *of.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
		}
		all = append(all, c)
	}
	return all, nil
}

// hostPorts returns the host ports of the containers that run as long as the pod: those, and init
// containers that are restarted.
func hostPorts(p *corev1.Pod) []port {
	var ports []port
	add := func(c *corev1.Container) {
		for _, of := range c.Ports {
			if of.HostPort <= 0 {
				continue
			}
			q := port{ip: of.HostIP, protocol: of.Protocol, number: of.HostPort}
			if q.ip == "0.0.0.0" {
				q.ip = ""
			}
			if q.protocol == "" {
				q.protocol = corev1.ProtocolTCP
			}
			ports = append(ports, q)
		}
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	return ports
}

func claims(p *corev1.Pod) []claim {
	var all []claim
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			all = append(all, claim{name: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			all = append(all, claim{name: ephemeral.VolumeClaimName(p, v), ephemeral: true})
		}
	}
	return all
}

// gpus is the resource that clusters of package envs have as devices.
const gpus corev1.ResourceName = "nvidia.com/gpu"

// others returns what the pod requests of resources that are no part of a cluster.State.
func others(p *corev1.Pod) map[corev1.ResourceName]int64 {
	known := func(name corev1.ResourceName) bool {
		return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == gpus
	}
	some := len(p.Spec.Overhead) > 0
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				some = some || !known(name)
			}
		}
	}
	if p.Spec.Resources != nil {
		some = some || len(p.Spec.Resources.Requests) > 0
	}
	if !some { // as nearly always, and adding up costs
		return nil
	}
	var all map[corev1.ResourceName]int64
	for name, amount := range resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}) {
		if value := amount.Value(); value > 0 && !known(name) {
			if all == nil {
				all = map[corev1.ResourceName]int64{}
			}
			all[name] = value
		}
	}
	return all
}
