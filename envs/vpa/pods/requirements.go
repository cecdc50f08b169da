package pods

import (
	"fmt"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Change requirements of upstream's eviction requirements.
const (
	TargetHigher = "TargetHigherThanRequests"
	TargetLower  = "TargetLowerThanRequests"
)

// Requirement is an eviction requirement: for at least one of its resources, the target must be higher than the
// request, or lower.
type Requirement struct{ cpu, memory, higher bool }

// ParseRequirements reads requirements of the form cpu+memory:TargetHigherThanRequests.
func ParseRequirements(texts []string) ([]Requirement, error) {
	var all []Requirement
	for _, text := range texts {
		resources, change, _ := strings.Cut(text, ":")
		one := Requirement{higher: change == TargetHigher}
		ok := one.higher || change == TargetLower
		for name := range strings.SplitSeq(resources, "+") {
			switch name {
			case "cpu":
				one.cpu = true
			case "memory":
				one.memory = true
			default:
				ok = false
			}
		}
		if !ok {
			return nil, fmt.Errorf("%w: eviction_requirements has %q, want cpu, memory or cpu+memory, a colon, and %s or %s",
				envs.ErrInvalidOption, text, TargetHigher, TargetLower)
		}
		all = append(all, one)
	}
	return all, nil
}

// holds reports whether a pod with these requests may be changed to the target.
func (r Requirement) holds(requests, target cluster.Resources) bool {
	if !r.higher {
		requests, target = target, requests
	}
	return r.cpu && target.MilliCPU > requests.MilliCPU || r.memory && target.MemoryBytes > requests.MemoryBytes
}
