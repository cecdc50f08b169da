package vpa

import (
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// resizeState is the state of a resize in place, as in the pod's conditions.
type resizeState uint8

const (
	resizeNone       resizeState = iota
	resizeDeferred               // the node has no room now
	resizeInfeasible             // the node never has room
	resizeInProgress             // memory in use is above the new limit
)

// pod is one of the controller's pods, or a neighbour on its node, with its one container.
type pod struct {
	index     int32   // in the cluster
	share     float64 // of the workload's demand
	neighbour bool    // of another controller
	scheduled bool    // bound to the node
	began     bool    // its container has run, so that its phase is Running
	requests  cluster.Resources
	limits    cluster.Resources

	created time.Duration // of the pod
	ready   time.Duration // when the container serves, or will
	started time.Duration // when it last began to
	crashes int           // consecutive OOM kills

	killed bool          // the container's last termination was an OOM kill
	ran    time.Duration // how long it ran before that

	resize     resizeState
	since      time.Duration // of resize
	want       Recommendation
	infeasible cluster.Resources // target that was infeasible, in mode InPlace

	used    cluster.Resources // in the last step
	sampled bool              // it ran in the last step, so that there is a sample of its usage
	oom     bool              // it was killed in the last step
	claim   claim             // on the node, in this step
	work    float64           // core-seconds since the last checkpoint
	unsaved time.Duration     // running time since the last checkpoint
}

// claim holds the node's answer to a pod's demand in a step.
type claim struct {
	shared bool    // other pods use the node, and granted applies
	cpu    float64 // millicores granted
	kill   bool    // the kernel kills the container, because the node is out of memory
	spin   float64 // millicores that a fault burns, beside the demand
	leak   int64   // bytes that a fault holds, beside the demand
}

// timing holds the durations of a step and of containers' phases.
type timing struct {
	step       time.Duration
	startup    time.Duration // from a container's start until it serves
	checkpoint time.Duration // between a container's checkpoints
}

const (
	backOffBase  = 10 * time.Second // kubelet's, doubled at each further crash
	backOffMax   = 5 * time.Minute
	backOffReset = 10 * time.Minute // of running without a crash
)

// backOff returns kubelet's delay before it restarts a container that has crashed this many times
// in a row. The first restart has no delay.
func backOff(crashes int) time.Duration {
	if crashes == 0 {
		return 0
	}
	return min(backOffBase<<min(crashes-1, 10), backOffMax)
}

// run lets the container use demand for a step that begins at now, and adds its events to s. A
// container that exceeds its memory limit is killed once in a step: demand is one figure for the
// step, which it reaches once.
func (p *pod) run(t *timing, now time.Duration, demand cluster.Resources, s *prices.Events) {
	end := now + t.step
	up := p.upTime(now, end)
	memory := demand.MemoryBytes + p.claim.leak
	beyond := p.limits.MemoryBytes > 0 && memory > p.limits.MemoryBytes
	p.oom = up > 0 && (beyond || p.claim.kill)
	p.sampled = up > 0
	if p.oom {
		p.kill(t, max(now, p.ready), s)
		up = p.upTime(now, end)
	}
	fraction := up.Seconds() / t.step.Seconds()
	served := float64(demand.MilliCPU)
	available := p.available()
	served = min(served, available)
	spun := min(p.claim.spin, available-served) * fraction // work comes first: the fault is one thread of many
	s.DemandCPU += float64(demand.MilliCPU)
	s.ThrottledCPU += (float64(demand.MilliCPU) - served) * fraction
	s.DownCPU += float64(demand.MilliCPU) * (1 - fraction)
	served *= fraction
	used := served + spun
	p.used = cluster.Resources{MilliCPU: int64(used)}
	switch {
	case beyond && p.oom:
		p.used.MemoryBytes = p.limits.MemoryBytes
	case p.oom, up > 0:
		p.used.MemoryBytes = memory
	}
	if up > 0 {
		p.began = true
		p.work += served / 1000 * t.step.Seconds()
		if p.unsaved += up; p.unsaved >= t.checkpoint {
			p.work, p.unsaved = 0, 0
		}
	}
	if !p.scheduled {
		return
	}
	requestCPU, requestMem := float64(p.requests.MilliCPU), float64(p.requests.MemoryBytes)
	s.RequestCPU += requestCPU
	s.RequestMem += requestMem
	s.SlackCPU += max(requestCPU-served, 0)
	s.OverCPU += max(used-requestCPU, 0)
	s.SlackMem += max(requestMem-float64(min(p.used.MemoryBytes, demand.MemoryBytes)), 0)
	s.OverMem += max(float64(p.used.MemoryBytes)-requestMem, 0)
}

// available returns the millicores that the container can use: those within its limit, and on a
// shared node those granted.
func (p *pod) available() float64 {
	most := math.Inf(1)
	if p.limits.MilliCPU > 0 {
		most = float64(p.limits.MilliCPU)
	}
	if p.claim.shared {
		most = min(most, p.claim.cpu)
	}
	return most
}

// upTime returns how long the container serves within the step.
func (p *pod) upTime(now, end time.Duration) time.Duration {
	if !p.scheduled {
		return 0
	}
	return max(0, end-max(now, p.ready))
}

// kill records an OOM kill at the given time; kubelet starts the container again after its
// back-off.
func (p *pod) kill(t *timing, at time.Duration, s *prices.Events) {
	p.killed, p.ran, p.began = true, at-p.started, true
	if p.ran >= backOffReset {
		p.crashes = 0
	}
	s.OOMs++
	s.Lost += p.work
	p.restart(t, at+backOff(p.crashes), s)
	p.crashes++
}

// restart starts the container again at the given time.
func (p *pod) restart(t *timing, at time.Duration, s *prices.Events) {
	s.Restarts++
	p.work, p.unsaved = 0, 0
	p.ready = at + t.startup
	p.started = p.ready
}

// running reports whether the pod's phase is Running: its container has been started.
func (p *pod) running() bool { return p.scheduled && p.began }

// serving reports whether the container serves at the given time.
func (p *pod) serving(now time.Duration) bool { return p.scheduled && p.ready <= now }
