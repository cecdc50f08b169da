package pods

import (
	"math"
	"time"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/vpa/prices"
)

// ResizeState is the state of a resize in place, as in the pod's conditions.
type ResizeState uint8

const (
	ResizeNone       ResizeState = iota
	ResizeDeferred               // the node has no room at the moment
	ResizeInfeasible             // the node can never have room
	ResizeInProgress             // memory in use is above the new limit
)

// Pod is one of the controller's pods, or a neighbour on its node, with its one container.
type Pod struct {
	Index     int32   // index in the cluster
	Share     float64 // of the workload's demand
	neighbour bool    // of another controller
	Scheduled bool    // bound to the node
	Began     bool    // its container has started, so that its phase is Running
	Requests  cluster.Resources
	Limits    cluster.Resources

	Created time.Duration // of the pod
	Ready   time.Duration // when the container began or will begin to serve
	started time.Duration // when it last started
	Crashes int           // consecutive OOM kills

	Killed bool          // the container's last termination was an OOM kill
	Ran    time.Duration // how long it ran before that

	Resize     ResizeState
	Since      time.Duration // of resize
	Want       Recommendation
	Infeasible cluster.Resources // target that was infeasible, in mode InPlace

	Used    cluster.Resources // in the last step
	Sampled bool              // it ran in the last step, so there is a sample of its usage
	OOM     bool              // it was killed in the last step
	claim   claim             // on the node, in this step
	work    float64           // core-seconds since the last checkpoint
	unsaved time.Duration     // running time since the last checkpoint
}

// claim holds the node's answer to a pod's demand in a step.
type claim struct {
	shared bool    // other pods use the node, and granted applies
	cpu    float64 // millicores granted
	kill   bool    // the kernel kills the container, because the node is out of memory
	spin   float64 // millicores that a fault uses, beside the demand
	leak   int64   // bytes that a fault holds, beside the demand
}

// Timing holds the durations of a step and of containers' phases.
type Timing struct {
	Step       time.Duration
	Startup    time.Duration // from the start of a container until it serves
	Checkpoint time.Duration // between a container's checkpoints
}

const (
	backOffBase  = 10 * time.Second // kubelet's, doubled at each further crash
	backOffMax   = 5 * time.Minute
	backOffReset = 10 * time.Minute // of running without a crash
)

// backOff returns kubelet's delay before it restarts a container after a number of consecutive crashes. The first
// restart has no delay.
func backOff(crashes int) time.Duration {
	if crashes == 0 {
		return 0
	}
	return min(backOffBase<<min(crashes-1, 10), backOffMax)
}

// run lets the container use demand for a step that begins at now, and adds its events to s. A container that exceeds
// its memory limit is killed once in a step, since demand is a single value for the step.
func (p *Pod) run(t *Timing, now time.Duration, demand cluster.Resources, s *prices.Events) {
	end := now + t.Step
	up := p.upTime(now, end)
	memory := demand.MemoryBytes + p.claim.leak
	beyond := p.Limits.MemoryBytes > 0 && memory > p.Limits.MemoryBytes
	p.OOM = up > 0 && (beyond || p.claim.kill)
	p.Sampled = up > 0
	if p.OOM {
		p.kill(t, max(now, p.Ready), s)
		up = p.upTime(now, end)
	}
	fraction := up.Seconds() / t.Step.Seconds()
	served := float64(demand.MilliCPU)
	available := p.available()
	served = min(served, available)
	spun := min(p.claim.spin, available-served) * fraction // the work takes precedence: the fault is one thread of many
	s.DemandCPU += float64(demand.MilliCPU)
	s.ThrottledCPU += (float64(demand.MilliCPU) - served) * fraction
	s.DownCPU += float64(demand.MilliCPU) * (1 - fraction)
	served *= fraction
	used := served + spun
	p.Used = cluster.Resources{MilliCPU: int64(used)}
	switch {
	case beyond && p.OOM:
		p.Used.MemoryBytes = p.Limits.MemoryBytes
	case p.OOM, up > 0:
		p.Used.MemoryBytes = memory
	}
	if up > 0 {
		p.Began = true
		p.work += served / 1000 * t.Step.Seconds()
		if p.unsaved += up; p.unsaved >= t.Checkpoint {
			p.work, p.unsaved = 0, 0
		}
	}
	if !p.Scheduled {
		return
	}
	requestCPU, requestMem := float64(p.Requests.MilliCPU), float64(p.Requests.MemoryBytes)
	s.RequestCPU += requestCPU
	s.RequestMem += requestMem
	s.SlackCPU += max(requestCPU-served, 0)
	s.OverCPU += max(used-requestCPU, 0)
	s.SlackMem += max(requestMem-float64(min(p.Used.MemoryBytes, demand.MemoryBytes)), 0)
	s.OverMem += max(float64(p.Used.MemoryBytes)-requestMem, 0)
}

// available returns the millicores that the container can use: its limit, and on a shared node at most the granted
// ones.
func (p *Pod) available() float64 {
	most := math.Inf(1)
	if p.Limits.MilliCPU > 0 {
		most = float64(p.Limits.MilliCPU)
	}
	if p.claim.shared {
		most = min(most, p.claim.cpu)
	}
	return most
}

// upTime returns how long the container serves within the step.
func (p *Pod) upTime(now, end time.Duration) time.Duration {
	if !p.Scheduled {
		return 0
	}
	return max(0, end-max(now, p.Ready))
}

// kill records an OOM kill at the given time; kubelet restarts the container after its back-off.
func (p *Pod) kill(t *Timing, at time.Duration, s *prices.Events) {
	p.Killed, p.Ran, p.Began = true, at-p.started, true
	if p.Ran >= backOffReset {
		p.Crashes = 0
	}
	s.OOMs++
	s.Lost += p.work
	p.restart(t, at+backOff(p.Crashes), s)
	p.Crashes++
}

// restart starts the container again at the given time.
func (p *Pod) restart(t *Timing, at time.Duration, s *prices.Events) {
	s.Restarts++
	p.work, p.unsaved = 0, 0
	p.Ready = at + t.Startup
	p.started = p.Ready
}

// running reports whether the pod's phase is Running, that is, whether its container has started.
func (p *Pod) running() bool { return p.Scheduled && p.Began }

// Serving reports whether the container serves at the given time.
func (p *Pod) Serving(now time.Duration) bool { return p.Scheduled && p.Ready <= now }
