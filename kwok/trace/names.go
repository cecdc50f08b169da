package trace

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// names replaces names and labels by a hash of text and salt, the same in every place. Without a salt it
// changes nothing.
type names struct{ salt []byte }

// hashLength is the number of hexadecimal digits of a hash. Among a million names, two collide with a
// probability below 10⁻⁵.
const hashLength = 14

// hash returns a DNS-1123 label for s.
func (n names) hash(s string) string {
	if n.salt == nil || s == "" {
		return s
	}
	mac := hmac.New(sha256.New, n.salt)
	mac.Write([]byte(s)) // a hash returns no error
	return "a" + hex.EncodeToString(mac.Sum(nil))[:hashLength]
}

// public lists the domains of keys that reveal nothing about a cluster's owner.
var public = []string{"kubernetes.io", "k8s.io", "nvidia.com", "alibabacloud.com", "kubernasium.io"}

// key hides the key of a label, taint or resource, unless a public domain defines it.
func (n names) key(s string) string {
	domain, _, ok := strings.Cut(s, "/")
	if ok && slices.ContainsFunc(public, func(p string) bool { return domain == p || strings.HasSuffix(domain, "."+p) }) {
		return s
	}
	return n.hash(s)
}

// value hides the value of a label. It keeps numbers, because requirements compare them.
func (n names) value(s string) string {
	if _, err := strconv.ParseInt(s, 10, 64); err == nil {
		return s
	}
	return n.hash(s)
}

// scheduler hides the name of a scheduler, and class that of a priority class, unless Kubernetes defines it.
func (n names) scheduler(s string) string {
	if s == corev1.DefaultSchedulerName {
		return ""
	}
	return n.hash(s)
}

func (n names) class(s string) string {
	if strings.HasPrefix(s, "system-") {
		return s
	}
	return n.hash(s)
}

// owner hides the name in Kind/name.
func (n names) owner(o *metav1.OwnerReference) string {
	if o == nil {
		return ""
	}
	return o.Kind + "/" + n.hash(o.Name)
}

// uid shortens a UID, which is random, to 8 digits. They distinguish pods of the same name.
func (n names) uid(s string) string {
	if s = n.hash(s); n.salt != nil {
		return s[1:9]
	}
	return s[:min(8, len(s))]
}

func (n names) labels(all map[string]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	out := make(map[string]string, len(all))
	for k, v := range all {
		out[n.key(k)] = n.value(v)
	}
	return out
}

func (n names) resources(all map[string]int64) map[string]int64 {
	if len(all) == 0 {
		return nil
	}
	out := make(map[string]int64, len(all))
	for k, v := range all {
		if !strings.Contains(k, "/") { // ephemeral-storage, hugepages-2Mi
			out[k] = v
		} else {
			out[n.key(k)] = v
		}
	}
	return out
}

func mapped(all []string, f func(string) string) []string {
	var out []string
	for _, s := range all {
		out = append(out, f(s))
	}
	return out
}

// requirement converts a requirement on the labels of nodes, or with field on their names.
func (n names) requirement(r *corev1.NodeSelectorRequirement, field bool) clustertrace.Requirement {
	out := clustertrace.Requirement{Key: n.key(r.Key), Operator: string(r.Operator), Values: mapped(r.Values, n.value)}
	if field {
		out.Key, out.Values = r.Key, mapped(r.Values, n.hash)
	}
	return out
}

func (n names) term(t *corev1.NodeSelectorTerm) clustertrace.Term {
	var out clustertrace.Term
	for i := range t.MatchExpressions {
		out.Labels = append(out.Labels, n.requirement(&t.MatchExpressions[i], false))
	}
	for i := range t.MatchFields {
		out.Fields = append(out.Fields, n.requirement(&t.MatchFields[i], true))
	}
	return out
}

func (n names) terms(s *corev1.NodeSelector) []clustertrace.Term {
	if s == nil {
		return nil
	}
	out := []clustertrace.Term{}
	for i := range s.NodeSelectorTerms {
		out = append(out, n.term(&s.NodeSelectorTerms[i]))
	}
	return out
}

// selector hides the labels of s in place.
func (n names) selector(s *metav1.LabelSelector) {
	if s == nil || n.salt == nil {
		return
	}
	s.MatchLabels = n.labels(s.MatchLabels)
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		e.Key, e.Values = n.key(e.Key), mapped(e.Values, n.value)
	}
}

// affinityTerms hides names and labels of the terms in place.
func (n names) affinityTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	var all []*corev1.PodAffinityTerm
	for i := range required {
		all = append(all, &required[i])
	}
	for i := range preferred {
		all = append(all, &preferred[i].PodAffinityTerm)
	}
	for _, t := range all {
		n.selector(t.LabelSelector)
		n.selector(t.NamespaceSelector)
		t.Namespaces, t.TopologyKey = mapped(t.Namespaces, n.hash), n.key(t.TopologyKey)
		t.MatchLabelKeys, t.MismatchLabelKeys = mapped(t.MatchLabelKeys, n.key), mapped(t.MismatchLabelKeys, n.key)
	}
}

// podLabels are labels that differ between the pods of a controller. With them every pod would need its own
// template.
var podLabels = []string{"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index"}

// templateLabels returns the labels of a pod except podLabels.
func (n names) templateLabels(all map[string]string) map[string]string {
	shared := maps.Clone(all)
	for _, k := range podLabels {
		delete(shared, k)
	}
	return n.labels(shared)
}
