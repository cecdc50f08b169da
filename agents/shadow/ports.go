package shadow

import (
	"slices"
	"strings"

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

// conflict reports whether two host ports, as protocol/address:port, exclude one another: they are the same port of the
// same protocol, and of the same address, or one of them is of every address.
//
// Source: HostPortInfo.CheckConflict of kube-scheduler.
func conflict(a, b string) bool {
	protocolA, addressA, portA := splitHostPort(a)
	protocolB, addressB, portB := splitHostPort(b)
	return protocolA == protocolB && portA == portB && (addressA == addressB || addressA == everyAddress || addressB == everyAddress)
}

const everyAddress = "0.0.0.0"

// splitHostPort splits protocol/address:port; without an address it is of every address.
func splitHostPort(text string) (protocol, address, port string) {
	protocol, rest, _ := strings.Cut(text, "/")
	colon := strings.LastIndexByte(rest, ':')
	if colon <= 0 {
		return protocol, everyAddress, rest[colon+1:]
	}
	return protocol, rest[:colon], rest[colon+1:]
}
