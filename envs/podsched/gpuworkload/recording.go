package gpuworkload

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/envs/podsched/recorded"
)

// recording is the pods of a recorded cluster, in the order of their creation.
type recording struct {
	arrivals []Arrival // times are since the recording's start
	first    int       // pods that arrived during the recording
	outlook  Outlook
	workload *recorded.Workload // the recorded pods; their memory is in whole MiB
}

// heldOutShare is the held-out part of a recording, its end.
const heldOutShare = 0.2

// split returns the first held-out pod of n.
func (r *recording) split(n int) int { return n - int(heldOutShare*float64(n-r.first)) }

// loadTrace reads a recording's nodes and pods. It converts memory to whole MiB, rounded down for nodes and up for
// pods.
func (s *Source) loadTrace() error {
	w, err := recorded.Read(s.config.Trace)
	if err != nil {
		return err
	}
	s.Nodes = nil
	for i := range w.Nodes {
		n := &w.Nodes[i]
		n.MemoryBytes, n.MilliGPU = n.MemoryBytes/gpushare.BytesMiB*gpushare.BytesMiB, gpushare.WholeGPU
		s.Nodes = append(s.Nodes, gpushare.Node{
			Name: n.Unique, MilliCPU: n.MilliCPU, MemoryMiB: n.MemoryBytes / gpushare.BytesMiB, GPUs: int(n.GPUs),
			Model: cmp.Or(n.GPUModel, "GPU"), MaxPods: int(n.Pods),
		})
		if n.GPUs == 0 {
			s.Nodes[i].Model = ""
		}
	}
	if err := s.checkNodes(); err != nil {
		return err
	}
	var pods []gpushare.Pod
	for i := range w.Pods {
		p := &w.Pods[i]
		p.MemoryBytes = (p.MemoryBytes + gpushare.BytesMiB - 1) / gpushare.BytesMiB * gpushare.BytesMiB // in the shared template
		pods = append(pods, gpushare.Pod{Created: p.Created, Duration: p.Duration, Shape: gpushare.Shape{
			MilliCPU: p.MilliCPU, MemoryMiB: p.MemoryBytes / gpushare.BytesMiB,
			GPUs: p.GPUs, MilliGPU: p.MilliGPU, Models: strings.Join(p.GPUModels, "|"),
		}})
	}
	if gpushare.RequestedMilliGPU(pods) == 0 {
		return fmt.Errorf("gpu: %s: no pod requests a GPU", s.config.Trace)
	}
	if s.Catalogue, err = gpushare.NewCatalogue(s.Nodes, pods); err != nil {
		return err
	}
	r := &recording{first: w.First(), workload: w}
	if r.first == len(pods) {
		return fmt.Errorf("%w: no pod comes while the recording %s lasts", envs.ErrInvalidOption, s.config.Trace)
	}
	known := pods
	if s.config.Declared {
		known = pods[:max(r.split(len(pods)), r.first+1)]
	}
	r.outlook = NewOutlook(known, s.Catalogue)
	for i := range pods {
		r.arrivals = append(r.arrivals, Arrival{Class: s.Catalogue.Of[pods[i].Shape], At: pods[i].Created, Duration: w.Pods[i].Lifetime()})
	}
	s.recorded = r
	return nil
}

// drawRecorded takes pods in their order from a random one on: in timed dynamics at their times, beside the pods that
// ran then; otherwise without times, so that pods from before the recording may come, too.
func (s *Source) drawRecorded(rng *rand.Rand, in *Instance) {
	r := s.recorded
	in.Nodes, in.Arrivals, in.Outlook = in.Nodes[:0], in.Arrivals[:0], &r.outlook
	for i := range s.Nodes {
		in.Nodes = append(in.Nodes, int32(i))
	}
	from, to := r.first, len(r.arrivals)
	if !s.config.Timed {
		from = 0
	}
	if split := r.split(to); s.config.HeldOut {
		from = min(split, to-1)
	} else {
		to = max(split, from+1)
	}
	next := from + rng.IntN(to-from)
	if s.config.Timed { // so that NumPods pods follow, if there are as many
		next = from + rng.IntN(max(1, to-from-s.config.NumPods+1))
	}
	begin := r.arrivals[next].At
	in.Running = in.Running[:0]
	if s.config.Timed {
		for _, run := range r.workload.Running(next) {
			p := &r.workload.Pods[run.Pod]
			in.Running = append(in.Running, Placement{p.Node, run.Devices})
			in.Arrivals = append(in.Arrivals, Arrival{Class: r.arrivals[run.Pod].Class, Duration: p.Remaining(begin)})
		}
	}
	var size, total int64
	for i := range s.Nodes {
		size += int64(s.Nodes[i].GPUs) * gpushare.WholeGPU
	}
	for ; next < to; next++ {
		a := r.arrivals[next]
		a.At -= begin
		if !s.config.Timed { // pods stay
			a.At, a.Duration = 0, 0
		}
		total += s.Catalogue.Classes[a.Class].TotalMilliGPU()
		full := len(in.Arrivals)-len(in.Running) == s.config.NumPods
		if !s.config.Timed {
			full = float64(total) > s.config.LoadEnd*float64(size) && len(in.Arrivals) > 0
		}
		if full {
			return
		}
		in.Arrivals = append(in.Arrivals, a)
	}
}
