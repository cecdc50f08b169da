package clustertrace

import (
	"fmt"
	"strconv"
	"strings"
)

// HostPort is a port of its node that a pod occupies.
type HostPort struct {
	Protocol string // TCP, UDP or SCTP
	Address  string // of the node; empty: every address
	Port     uint16
}

// ParseHostPort reads an element of [Template.HostPorts], as [HostPort.String] writes it.
func ParseHostPort(text string) (p HostPort, err error) {
	protocol, rest, _ := strings.Cut(text, "/")
	colon := strings.LastIndexByte(rest, ':')
	port, err := strconv.ParseUint(rest[colon+1:], 10, 16)
	if err != nil {
		return p, fmt.Errorf("host port %q, want protocol/address:port", text)
	}
	return HostPort{protocol, rest[:max(colon, 0)], uint16(port)}, nil
}

// String returns protocol/address:port.
func (p HostPort) String() string { return fmt.Sprintf("%s/%s:%d", p.Protocol, p.Address, p.Port) }

// Conflicts reports whether two pods with these host ports exclude one another on a node: they are the same port of the
// same protocol, and of the same address, or one of them is of every address.
//
// Source: HostPortInfo.CheckConflict of kube-scheduler.
func (p HostPort) Conflicts(q HostPort) bool {
	return p.Protocol == q.Protocol && p.Port == q.Port && (p.Address == q.Address || p.everywhere() || q.everywhere())
}

func (p HostPort) everywhere() bool { return p.Address == "" || p.Address == "0.0.0.0" }
