package clustertrace

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Refusal returns why a pod of template t may not be on node n, regardless of free resources, or "": the node is
// cordoned or not ready, is of another GPU model, has a taint that t does not tolerate, or does not match t's node
// selector or required node affinity. It ignores inter-pod affinity and topology spread.
//
// Source: plugins NodeUnschedulable, TaintToleration and NodeAffinity of kube-scheduler.
func (t *Template) Refusal(n *Node) string {
	reason, taint := t.refusal(n)
	return reason + taint
}

// Admits reports whether a pod of template t may run on n, that is, whether [Template.Refusal] gives no reason.
func (t *Template) Admits(n *Node) bool {
	reason, _ := t.refusal(n)
	return reason == ""
}

// PlacementKey returns the JSON of the fields that [Template.Admits] reads. Templates with equal keys may run on the
// same nodes.
func (t *Template) PlacementKey() string {
	text, err := json.Marshal(struct {
		Selector    map[string]string
		Tolerations []Toleration
		Required    []Term
		GPUModels   []string
	}{t.NodeSelector, t.Tolerations, t.Required, t.GPUModels})
	if err != nil {
		panic(err) // all of its types have a JSON form
	}
	return string(text)
}

// refusal returns the reason, and the key of the taint that it names.
func (t *Template) refusal(n *Node) (reason, taint string) {
	if n.Unschedulable && !t.tolerates(cluster.Taint{Key: "node.kubernetes.io/unschedulable", Effect: cluster.NoSchedule}) {
		return "node unschedulable", ""
	}
	if n.NotReady && !t.tolerates(cluster.Taint{Key: "node.kubernetes.io/not-ready", Effect: cluster.NoSchedule}) {
		return "node not ready", ""
	}
	if key := t.repelled(n); key != "" {
		return "untolerated taint ", key
	}
	for key, value := range t.NodeSelector {
		if have, ok := n.Labels[key]; !ok || have != value {
			return "node selector not matched", ""
		}
	}
	if t.Required != nil && !MatchesAny(t.Required, n) {
		return "required node affinity not matched", ""
	}
	if len(t.GPUModels) > 0 && !slices.Contains(t.GPUModels, n.GPUModel) {
		return "other GPU model", ""
	}
	return "", ""
}

// Tolerates reports whether a pod of template t tolerates all taints of n that keep pods away.
func (t *Template) Tolerates(n *Node) bool { return t.repelled(n) == "" }

// repelled returns the key of the first taint that keeps pods of the template away, or "".
func (t *Template) repelled(n *Node) string {
	for _, taint := range n.Taints {
		one := cluster.Taint{Key: taint.Key, Value: taint.Value, Effect: cluster.TaintEffect(taint.Effect)}
		if one.Effect != cluster.PreferNoSchedule && !t.tolerates(one) {
			return taint.Key
		}
	}
	return ""
}

// Discouraged counts the taints of n with effect PreferNoSchedule that pods of template t do not tolerate.
//
// Source: the Score of plugin TaintToleration of kube-scheduler.
func (t *Template) Discouraged(n *Node) (taints int64) {
	for _, taint := range n.Taints {
		one := cluster.Taint{Key: taint.Key, Value: taint.Value, Effect: cluster.TaintEffect(taint.Effect)}
		if one.Effect == cluster.PreferNoSchedule && !t.tolerates(one) {
			taints++
		}
	}
	return taints
}

func (t *Template) tolerates(taint cluster.Taint) bool {
	return slices.ContainsFunc(t.Tolerations, func(tol Toleration) bool {
		same := cluster.Toleration{Key: tol.Key, Operator: cluster.TolerationOperator(tol.Operator), Value: tol.Value, Effect: cluster.TaintEffect(tol.Effect)}
		return same.Tolerates(&taint)
	})
}

// MatchesAny reports whether one of the terms matches n.
func MatchesAny(terms []Term, n *Node) bool {
	return slices.ContainsFunc(terms, func(t Term) bool { return t.Matches(n) })
}

// Matches reports whether n meets all of the term's requirements; an empty term matches nothing.
//
// Source: k8s.io/component-helpers, scheduling/corev1/nodeaffinity.
func (t *Term) Matches(n *Node) bool {
	for i := range t.Labels {
		value, ok := n.Labels[t.Labels[i].Key]
		if !t.Labels[i].holds(value, ok) {
			return false
		}
	}
	for i := range t.Fields {
		if !t.Fields[i].holds(n.Name, true) {
			return false
		}
	}
	return len(t.Labels)+len(t.Fields) > 0
}

func (r *Requirement) holds(value string, ok bool) bool {
	switch r.Operator {
	case "In":
		return ok && slices.Contains(r.Values, value)
	case "NotIn":
		return !ok || !slices.Contains(r.Values, value)
	case "Exists":
		return ok
	case "DoesNotExist":
		return !ok
	}
	have, err := strconv.ParseInt(value, 10, 64)
	want, bad := strconv.ParseInt(r.Values[0], 10, 64)
	if !ok || err != nil || bad != nil {
		return false
	}
	if r.Operator == "Gt" {
		return have > want
	}
	return have < want
}

func checkTerms(terms []Term) error {
	for _, t := range terms {
		for _, r := range slices.Concat(t.Labels, t.Fields) {
			if err := r.check(); err != nil {
				return err
			}
		}
		for _, r := range t.Fields {
			if r.Key != "metadata.name" || r.Operator != "In" && r.Operator != "NotIn" {
				return fmt.Errorf("requirement on field %s with operator %s, want In or NotIn of metadata.name", r.Key, r.Operator)
			}
		}
	}
	return nil
}

func (r *Requirement) check() error {
	ok := false
	switch r.Operator {
	case "In", "NotIn":
		ok = len(r.Values) > 0
	case "Exists", "DoesNotExist":
		ok = len(r.Values) == 0
	case "Gt", "Lt":
		ok = len(r.Values) == 1
	}
	if !ok || r.Key == "" {
		return fmt.Errorf("requirement on %q with operator %q and values %q, want In or NotIn with values, Exists or DoesNotExist without, Gt or Lt with one", r.Key, r.Operator, r.Values)
	}
	return nil
}
