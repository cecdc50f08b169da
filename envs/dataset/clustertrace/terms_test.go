package clustertrace_test

import (
	"testing"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// TestRefusal compares with the rules of the Kubernetes documentation, "Assigning Pods to Nodes" and "Taints
// and Tolerations", worked by hand. Package kwok compares with upstream's code.
func TestRefusal(t *testing.T) {
	type (
		node = clustertrace.Node
		tpl  = clustertrace.Template
	)
	requires := func(key, op string, values ...string) tpl {
		return tpl{Required: []clustertrace.Term{{Labels: []clustertrace.Requirement{{Key: key, Operator: op, Values: values}}}}}
	}
	labelled := node{Name: "a", Labels: map[string]string{"disk": "ssd", "cores": "16"}}
	tainted := node{Name: "a", Taints: []clustertrace.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}}
	cases := []struct {
		name string
		tpl  tpl
		node node
		want string
	}{
		{"nothing asked", tpl{}, labelled, ""},
		{"selector", tpl{NodeSelector: map[string]string{"disk": "ssd"}}, labelled, ""},
		{"other selector", tpl{NodeSelector: map[string]string{"disk": "hdd"}}, labelled, "node selector not matched"},
		{"cordoned", tpl{}, node{Unschedulable: true}, "node unschedulable"},
		{"cordoned, tolerated", tpl{Tolerations: []clustertrace.Toleration{{Operator: "Exists"}}}, node{Unschedulable: true}, ""},
		{"not ready", tpl{}, node{NotReady: true}, "node not ready"},
		{"taint", tpl{}, tainted, "untolerated taint gpu"},
		{"taint, tolerated", tpl{Tolerations: []clustertrace.Toleration{{Key: "gpu", Value: "yes"}}}, tainted, ""},
		{"taint, other value", tpl{Tolerations: []clustertrace.Toleration{{Key: "gpu", Value: "no"}}}, tainted, "untolerated taint gpu"},
		{"preferred not", tpl{}, node{Taints: []clustertrace.Taint{{Key: "gpu", Effect: "PreferNoSchedule"}}}, ""},
		{"In", requires("disk", "In", "ssd", "nvme"), labelled, ""},
		{"In, other", requires("disk", "In", "nvme"), labelled, "required node affinity not matched"},
		{"NotIn", requires("disk", "NotIn", "ssd"), labelled, "required node affinity not matched"},
		{"NotIn, no label", requires("zone", "NotIn", "z1"), labelled, ""},
		{"Exists", requires("disk", "Exists"), labelled, ""},
		{"DoesNotExist", requires("disk", "DoesNotExist"), labelled, "required node affinity not matched"},
		{"Gt", requires("cores", "Gt", "15"), labelled, ""},
		{"Gt, equal", requires("cores", "Gt", "16"), labelled, "required node affinity not matched"},
		{"Lt", requires("cores", "Lt", "17"), labelled, ""},
		{"Lt, no number", requires("disk", "Lt", "17"), labelled, "required node affinity not matched"},
		{"empty term", tpl{Required: []clustertrace.Term{{}}}, labelled, "required node affinity not matched"},
		{"field", tpl{Required: []clustertrace.Term{{Fields: []clustertrace.Requirement{{Key: "metadata.name", Operator: "In", Values: []string{"a"}}}}}}, labelled, ""},
		{"GPU model", tpl{GPUModels: []string{"T4"}}, node{GPUModel: "A100"}, "other GPU model"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.tpl.Refusal(&c.node); got != c.want {
				t.Errorf("Refusal = %q, want %q", got, c.want)
			}
			for _, o := range cases {
				if o.tpl.Admits(&c.node) != c.tpl.Admits(&c.node) && o.tpl.PlacementKey() == c.tpl.PlacementKey() {
					t.Errorf("the templates of %q and %q are treated differently, and have one PlacementKey: %s", c.name, o.name, o.tpl.PlacementKey())
				}
			}
		})
	}
}
