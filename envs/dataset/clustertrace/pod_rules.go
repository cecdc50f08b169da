package clustertrace

import (
	"encoding/json"
	"fmt"
	"slices"
)

// PodRules are a template's rules about other pods, read from the JSON of the Kubernetes API.
type PodRules struct {
	Affinity      []PodTerm // required affinity: a pod that all terms select shares each term's domain
	AntiAffinity  []PodTerm // required anti-affinity: no pod that a term selects shares its domain
	DoNotSchedule []Skew    // topology spread with DoNotSchedule

	Preferred      []WeightedTerm // preferred affinity, and with negative weights anti-affinity
	ScheduleAnyway []Skew         // topology spread with ScheduleAnyway

	Unknown bool // a term selects namespaces by their labels, which recordings lack; it is left out
}

// WeightedTerm holds a term and the score that each pod it selects adds to the nodes of its domain.
type WeightedTerm struct {
	PodTerm
	Weight int64
}

// PodTerm selects pods, and names the label of nodes that distinguishes domains.
type PodTerm struct {
	Topology string
	selector *Selector
	spaces   []string // nil is every namespace
}

// Skew is a topology spread constraint.
type Skew struct {
	MaxSkew     int32
	MinDomains  int32 // at least 1
	Topology    string
	HonorNodes  bool // do not count nodes that the pod's node selector or affinity excludes
	HonorTaints bool // do not count nodes with taints that the pod does not tolerate
	selector    *Selector
	space       string
}

// Selector selects labels as metav1.LabelSelector does; nil selects nothing.
type Selector struct {
	MatchLabels      map[string]string `json:"matchLabels"`
	MatchExpressions []Requirement     `json:"matchExpressions"`
}

// Matches reports whether labels meet all of the selector's requirements.
func (s *Selector) Matches(labels map[string]string) bool {
	if s == nil {
		return false
	}
	for key, value := range s.MatchLabels {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return !slices.ContainsFunc(s.MatchExpressions, func(r Requirement) bool {
		value, ok := labels[r.Key]
		return !r.holds(value, ok)
	})
}

func (s *Selector) check() error {
	if s == nil {
		return nil
	}
	for i := range s.MatchExpressions {
		r := &s.MatchExpressions[i]
		if r.Operator == "Gt" || r.Operator == "Lt" {
			return fmt.Errorf("requirement on %q with operator %s, want In, NotIn, Exists or DoesNotExist", r.Key, r.Operator)
		}
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

// Selects reports whether the term selects pods of a template.
func (p *PodTerm) Selects(t *Template) bool {
	return (p.spaces == nil || slices.Contains(p.spaces, t.Namespace)) && p.selector.Matches(t.Labels)
}

// Counts reports whether pods of a template count on the nodes.
func (s *Skew) Counts(t *Template) bool {
	// An empty selector counts no pod, as countPodsMatchSelector of kube-scheduler does.
	return t.Namespace == s.space && s.selector != nil && len(s.selector.MatchLabels)+len(s.selector.MatchExpressions) > 0 && s.selector.Matches(t.Labels)
}

// Adds returns 1 if a pod of a template counts in its own constraint, otherwise 0.
func (s *Skew) Adds(t *Template) int {
	if s.selector.Matches(t.Labels) {
		return 1
	}
	return 0
}

// apiTerm is corev1.PodAffinityTerm. The API server has merged matchLabelKeys into the selector.
type apiTerm struct {
	LabelSelector     *Selector `json:"labelSelector"`
	Namespaces        []string  `json:"namespaces"`
	NamespaceSelector *Selector `json:"namespaceSelector"`
	TopologyKey       string    `json:"topologyKey"`
}

// apiAffinity is corev1.PodAffinity, or PodAntiAffinity.
type apiAffinity struct {
	Required  []apiTerm     `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	Preferred []apiWeighted `json:"preferredDuringSchedulingIgnoredDuringExecution"`
}

// apiWeighted is corev1.WeightedPodAffinityTerm.
type apiWeighted struct {
	Weight int64   `json:"weight"`
	Term   apiTerm `json:"podAffinityTerm"`
}

// apiSpread is corev1.TopologySpreadConstraint.
type apiSpread struct {
	MaxSkew            int32     `json:"maxSkew"`
	TopologyKey        string    `json:"topologyKey"`
	WhenUnsatisfiable  string    `json:"whenUnsatisfiable"`
	LabelSelector      *Selector `json:"labelSelector"`
	MinDomains         *int32    `json:"minDomains"`
	NodeAffinityPolicy string    `json:"nodeAffinityPolicy"`
	NodeTaintsPolicy   string    `json:"nodeTaintsPolicy"`
	MatchLabelKeys     []string  `json:"matchLabelKeys"`
}

// PodRules reads the template's rules about other pods. It returns nil if there are none.
//
// Source: plugins InterPodAffinity and PodTopologySpread of kube-scheduler.
func (t *Template) PodRules() (*PodRules, error) {
	b := &PodRules{}
	for _, part := range []struct {
		name string
		text json.RawMessage
		out  *[]PodTerm
		sign int64
	}{{"pod_affinity", t.PodAffinity, &b.Affinity, 1}, {"pod_anti_affinity", t.PodAntiAffinity, &b.AntiAffinity, -1}} {
		if part.text == nil {
			continue
		}
		var a apiAffinity
		if err := json.Unmarshal(part.text, &a); err != nil {
			return nil, fmt.Errorf("clustertrace: %s: %w", part.name, err)
		}
		for i := range a.Required {
			term, ok, err := b.term(t, &a.Required[i])
			if err != nil {
				return nil, fmt.Errorf("clustertrace: %s: %w", part.name, err)
			}
			if ok {
				*part.out = append(*part.out, term)
			}
		}
		for i := range a.Preferred {
			term, ok, err := b.term(t, &a.Preferred[i].Term)
			if err != nil {
				return nil, fmt.Errorf("clustertrace: %s: %w", part.name, err)
			}
			if ok {
				b.Preferred = append(b.Preferred, WeightedTerm{term, part.sign * a.Preferred[i].Weight})
			}
		}
	}
	if err := b.addSpread(t); err != nil {
		return nil, fmt.Errorf("clustertrace: topology_spread: %w", err)
	}
	if !b.Prefers() && !b.Unknown && !b.Required() {
		return nil, nil
	}
	return b, nil
}

// Required reports whether some rule excludes nodes.
func (b *PodRules) Required() bool {
	return b != nil && len(b.Affinity)+len(b.AntiAffinity)+len(b.DoNotSchedule) > 0
}

// Prefers reports whether some rule scores nodes.
func (b *PodRules) Prefers() bool { return b != nil && len(b.Preferred)+len(b.ScheduleAnyway) > 0 }

// term reads a term of template t; ok is false for one that cannot be read.
func (b *PodRules) term(t *Template, a *apiTerm) (term PodTerm, ok bool, err error) {
	if err := a.LabelSelector.check(); err != nil {
		return term, false, err
	}
	term = PodTerm{Topology: a.TopologyKey, selector: a.LabelSelector, spaces: a.Namespaces}
	switch s := a.NamespaceSelector; {
	case s == nil && len(a.Namespaces) == 0:
		term.spaces = []string{t.Namespace}
	case s == nil:
	case len(s.MatchLabels)+len(s.MatchExpressions) == 0:
		term.spaces = nil
	default:
		b.Unknown = true
		return term, false, nil
	}
	return term, true, nil
}

func (b *PodRules) addSpread(t *Template) error {
	var all []apiSpread
	if t.Spread == nil {
		return nil
	}
	if err := json.Unmarshal(t.Spread, &all); err != nil {
		return err
	}
	for i := range all {
		c := &all[i]
		if err := c.LabelSelector.check(); err != nil {
			return err
		}
		s := Skew{
			MaxSkew: c.MaxSkew, MinDomains: 1, Topology: c.TopologyKey, HonorNodes: c.NodeAffinityPolicy != "Ignore",
			HonorTaints: c.NodeTaintsPolicy == "Honor", selector: c.LabelSelector, space: t.Namespace,
		}
		if c.MinDomains != nil {
			s.MinDomains = *c.MinDomains
		}
		if s.selector != nil {
			for _, key := range c.MatchLabelKeys {
				if value, ok := t.Labels[key]; ok {
					s.selector.MatchExpressions = append(s.selector.MatchExpressions, Requirement{key, "In", []string{value}})
				}
			}
		}
		if c.WhenUnsatisfiable == "DoNotSchedule" {
			b.DoNotSchedule = append(b.DoNotSchedule, s)
		} else {
			b.ScheduleAnyway = append(b.ScheduleAnyway, s)
		}
	}
	return nil
}
