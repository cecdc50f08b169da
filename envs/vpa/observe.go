package vpa

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/envs/vpa/actions"
	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// Elements of an observation: obsPerResource of CPU, as many of memory, and obsCommon.
const (
	obsPerResource = 8
	obsCommon      = 13
	obsSize        = 2*obsPerResource + obsCommon
	obsUpstream    = 16 // additional elements if upstream's recommender runs: half of CPU, half of memory
)

const (
	obsLowCPU       = 1             // millicores that map to 0; each doubling adds 1/obsDoublingsCPU
	obsDoublingsCPU = 17            // up to 131 cores
	obsLowMem       = mib           // likewise in bytes
	obsDoublingsMem = 20            // up to 1 TiB
	obsCount        = 10            // OOM kills or restarts that map to 1
	obsSince        = 60            // steps since an event that map to 1
	obsRatio        = 2             // usage over request that maps to 1
	weekSeconds     = 7 * 24 * 3600 // of time features
)

// Observe implements [envs.Task].
func (t *Task) Observe(_ *cluster.State, obs []float32, mask []bool) {
	space.PermitAll(mask)
	used := t.metrics.Last()
	var requests, limits cluster.Resources
	ready, resizing := 0, 0
	now := t.now()
	all := t.dynamics.Pods
	for i := range all {
		p := &all[i]
		requests.MilliCPU += p.Requests.MilliCPU
		requests.MemoryBytes += p.Requests.MemoryBytes
		limits.MilliCPU += p.Limits.MilliCPU
		limits.MemoryBytes += p.Limits.MemoryBytes
		if p.Serving(now) {
			ready++
		}
		if p.Resize != pods.ResizeNone {
			resizing++
		}
	}
	n := float64(len(all))
	t.observeResource(0, obs[:obsPerResource], float64(used.MilliCPU), float64(requests.MilliCPU)/n,
		float64(limits.MilliCPU)/n, float64(t.rec.Target.MilliCPU))
	t.observeResource(1, obs[obsPerResource:2*obsPerResource], float64(used.MemoryBytes), float64(requests.MemoryBytes)/n,
		float64(limits.MemoryBytes)/n, float64(t.rec.Target.MemoryBytes))
	rest := obs[2*obsPerResource : obsSize]
	at := t.in.startOfDay + float64(t.in.history+t.steps)*t.opts.Interval
	daySin, dayCos := math.Sincos(2 * math.Pi * math.Mod(at, weekSeconds/7) / (weekSeconds / 7))
	weekSin, weekCos := math.Sincos(2 * math.Pi * math.Mod(at, weekSeconds) / weekSeconds)
	rest[0], rest[1], rest[2], rest[3] = float32(daySin), float32(dayCos), float32(weekSin), float32(weekCos)
	rest[4] = float32(ready) / float32(len(all))
	rest[5] = float32(resizing) / float32(len(all))
	last := &t.dynamics.Last
	rest[6] = part(last.ThrottledCPU, last.DemandCPU)
	rest[7] = part(last.DownCPU, last.DemandCPU)
	rest[8] = float32(min(float64(t.ledger.Sum.OOMs)/obsCount, 1))
	rest[9] = float32(min(float64(t.ledger.Sum.Restarts)/obsCount, 1))
	rest[10] = t.since(t.ledger.LastKill)
	rest[11] = t.since(t.ledger.LastMove)
	rest[12] = t.over()
	more := obs[obsSize:]
	if t.feed != nil {
		most := more[:obsUpstream]
		u := &t.feed.Latest
		t.observeUpstream(0, most[:obsUpstream/2], float64(u.Target.MilliCPU), float64(used.MilliCPU), float64(requests.MilliCPU)/n,
			float64(t.rec.Target.MilliCPU), float64(u.Lower.MilliCPU), float64(u.Upper.MilliCPU))
		t.observeUpstream(1, most[obsUpstream/2:obsUpstream], float64(u.Target.MemoryBytes), float64(used.MemoryBytes), float64(requests.MemoryBytes)/n,
			float64(t.rec.Target.MemoryBytes), float64(u.Lower.MemoryBytes), float64(u.Upper.MemoryBytes))
		more = more[obsUpstream:]
	}
	if s := t.dynamics.Node; s != nil {
		t.observeShared(s, more[:obsShared])
		more = more[obsShared:]
	}
	if t.base != nil {
		t.base.Observe(more, &t.metrics, &t.dynamics.Pods[0], t.opts.Interval, onScale)
	}
}

// observeUpstream writes the amounts of CPU (r = 0) or memory (1) over upstream's target, scaled like
// the elements of an action of encoding upstream.
func (t *Task) observeUpstream(r int, obs []float32, ref, used, request, target, lower, upper float64) {
	for i, v := range [obsUpstream / 2]float64{used, request, t.metrics.Hour[r].Max(), t.metrics.Hour[r].Mean(), t.metrics.Day[r].Max(), target, lower, upper} {
		obs[i] = actions.Relative(v, ref)
	}
}

// observeResource writes the elements of CPU (r = 0) or memory (1).
func (t *Task) observeResource(r int, obs []float32, used, request, limit, target float64) {
	obs[0] = onScale(r, used)
	obs[1] = onScale(r, request)
	obs[2] = 1
	if limit > 0 {
		obs[2] = onScale(r, limit)
	}
	obs[3] = onScale(r, t.metrics.Hour[r].Max())
	obs[4] = onScale(r, t.metrics.Hour[r].Mean())
	obs[5] = onScale(r, t.metrics.Day[r].Max())
	obs[6] = onScale(r, target)
	obs[7] = float32(min(used/max(request, 1)/obsRatio, 1))
}

// onScale maps an amount to [0, 1] on a logarithmic scale, clipped to its ends.
func onScale(r int, v float64) float32 {
	low, inverse := float64(obsLowCPU), 1/(obsDoublingsCPU*math.Ln2)
	if r == 1 {
		low, inverse = obsLowMem, 1/(obsDoublingsMem*math.Ln2)
	}
	if v <= low {
		return 0
	}
	return float32(min(math.Log(v/low)*inverse, 1))
}

func part(a, b float64) float32 {
	if b <= 0 {
		return 0
	}
	return float32(min(max(a/b, 0), 1))
}

// since maps the steps since an event to [0, 1]; 1 before the first.
func (t *Task) since(step int) float32 {
	if step < 0 {
		return 1
	}
	return float32(min(t.steps-1-step, obsSince)) / obsSince
}

// over returns the elapsed fraction of the episode. A live task has no end; its fraction starts over after the number
// of steps of an episode.
func (t *Task) over() float32 {
	return float32(t.steps%(t.opts.Steps+1)) / float32(t.opts.Steps)
}
