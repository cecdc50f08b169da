package shadow

import (
	"slices"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// portsTaken reports whether running pods of a node have host ports that conflict with those of a template.
func (n *node) portsTaken(t *clustertrace.Template) bool {
	if len(t.HostPorts) == 0 {
		return false
	}
	for used, pods := range n.ports {
		if pods > 0 && slices.ContainsFunc(t.HostPorts, func(port string) bool { return conflict(port, used) }) {
			return true
		}
	}
	return false
}

// conflict reports whether two host ports exclude one another. Those of another program's recording, which cannot be
// read, must be equal.
func conflict(a, b string) bool {
	p, errA := clustertrace.ParseHostPort(a)
	q, errB := clustertrace.ParseHostPort(b)
	return a == b || errA == nil && errB == nil && p.Conflicts(q)
}
