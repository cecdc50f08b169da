package rules

import (
	"slices"
	"time"

	upstream "github.com/kubernasium/kubernasium/envs/vpa/recommender"
)

// Running describes a cluster that ran before rules recommend for its pods. Upstream's recommender resumes there.
type Running struct {
	IDs        []string // of the pods, by place
	Containers int      // number of containers of a pod, which share upstream's minimum recommendation

	feed     *Feed // in use; nil if upstream's recommender is not
	restored *upstream.Checkpoint
	recalled []Sample // until the first decision
}

// A Sample is the usage of the container of a pod at an instant before the first decision.
type Sample struct {
	Pod    string // ID of the pod; any other ID for a terminated pod
	At     time.Time
	Memory bool  // Amount is in bytes, otherwise in millicores
	Amount int64 // used
}

// Restore resumes upstream's recommender, if it is used, from a checkpoint. It is called before the first decision.
func (r *Running) Restore(c *upstream.Checkpoint) error {
	if err := NewFeed().state.Load(c); err != nil {
		return err
	}
	r.restored = c
	return nil
}

// Recall gives upstream's recommender, if it is used, samples from before the first decision, for each pod in the order
// of time.
func (r *Running) Recall(samples []Sample) { r.recalled = samples }

// Checkpoint returns the state of upstream's recommender at an instant, or nil if it is not used.
func (r *Running) Checkpoint(now time.Duration) *upstream.Checkpoint {
	if r.feed == nil {
		return nil
	}
	containers := make([]*upstream.Container, len(r.feed.containers))
	for i := range containers {
		containers[i] = &r.feed.containers[i]
	}
	return r.feed.state.Save(now, containers...)
}

// begin sets the feed in use to f, and divides upstream's minimum by the number of containers of a pod.
func (r *Running) begin(f *Feed) {
	r.feed = f
	c := upstream.DefaultConfig()
	c.Containers = r.Containers
	recommender, err := upstream.New(c)
	if err != nil {
		panic(err) // the setter of Containers checks it, and everything else is a default
	}
	f.r = recommender
}

// resume loads the restored checkpoint and the recalled samples into f. A pod that still exists keeps its window of
// memory.
func (r *Running) resume(f *Feed) {
	if r.restored != nil {
		_ = f.state.Load(r.restored) // Restore has checked it
	}
	gone := map[string]*upstream.Container{}
	for _, s := range r.recalled {
		c := gone[s.Pod]
		if k := slices.Index(r.IDs, s.Pod); k >= 0 {
			c = &f.containers[k]
		} else if c == nil {
			c = &upstream.Container{}
			gone[s.Pod] = c
		}
		at := time.Duration(s.At.UnixNano())
		if s.Memory {
			c.AddMemory(f.state, at, s.Amount)
		} else {
			c.AddCPU(f.state, at, s.Amount)
		}
	}
	r.recalled = nil
}
