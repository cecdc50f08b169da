//go:build linux

// Package local runs bulk-synchronous jobs as processes of this machine: stress-ng under CPU limits.
package local

import (
	"errors"
	"fmt"
)

// Limits restricts groups of processes to shares of the CPU.
type Limits interface {
	// String names the method.
	String() string
	// Group creates a group with a share in millicores.
	Group(name string, milliCPU int64) (Group, error)
	Close() error
}

// Group is a group of processes with a share of the CPU.
type Group interface {
	Add(pid int) error // a process that leads its process group; its children join the group
	Set(milliCPU int64) error
	Kill() error // all processes
	Close() error
}

// OpenLimits returns the best method that this machine supports: cgroup v2, cgroup v1, or CPU affinity with a
// duty cycle, which needs no privileges.
func OpenLimits() (Limits, error) {
	var errs []error
	for _, version := range []int{2, 1} {
		l, err := OpenCgroups(version)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	l, err := NewDuty()
	if err != nil {
		return nil, fmt.Errorf("no way to limit CPU: %w", errors.Join(append(errs, err)...))
	}
	return l, nil
}
