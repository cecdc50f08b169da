// Package gpuworkload draws the instances of GPU scheduling: nodes, and pods that arrive and may depart, from files in
// the published layout or from distributions fitted to the published trace.
package gpuworkload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// MaxNodeGPUs is the maximum number of devices of a node.
const MaxNodeGPUs = 8

// Config describes instances.
type Config struct {
	Nodes         string           // file of the node list; empty selects a cluster composed like the published one
	Pods          []string         // files of pod lists; each instance draws one; empty generates pods
	Assumed       gpushare.Assumed // CPU and memory if the trace gives none
	Trace         string           // recording of a cluster, which replaces Nodes and Pods
	Declared      bool             // outlooks describe the distribution of pods or the training part of a recording, not the very pods
	ReferenceSeed int              // the reference's workload of this random seed, on all nodes; -1 draws a workload for each instance
	HeldOut       bool             // held-out episodes
	NumNodes      int              // nodes drawn for each instance; 0 takes all
	LoadEnd       float64          // GPUs requested by the pods that stay, over those of the nodes
	Law           Law              // of generated pods

	Timed             bool    // pods arrive in time and depart
	NumPods           int     // of a timed instance
	Load, MaxDuration float64 // requested GPU time over that of the nodes while pods arrive; maximum seconds that a pod runs
}

// Source draws the instances of episodes. It is read-only.
type Source struct {
	Nodes     []gpushare.Node // that instances draw theirs from
	Catalogue *gpushare.Catalogue

	config Config
	lists  []podList  // of files; empty generates
	gen    *generator // nil with files
	fixed  *Instance  // with a reference seed

	recorded *recording // of a trace
}

// podList is a file of pods.
type podList struct {
	classes   []int32
	durations []time.Duration
	outlook   Outlook
}

// Outlook describes future pods to policies, by their proportions.
type Outlook struct {
	Frag    *gpushare.Fragmenter
	Reserve *gpushare.Reserve
	Kinds   [3]float64 // parts of the pods: without GPUs, sharing one, bound to models
}

// OrEmpty returns the outlook, or an empty one for nil, as before the first episode.
func (o *Outlook) OrEmpty() *Outlook {
	if o == nil {
		return &Outlook{Frag: &gpushare.Fragmenter{}, Reserve: &gpushare.Reserve{}}
	}
	return o
}

// Instance holds the nodes and the pods of an episode.
type Instance struct {
	Nodes    []int32 // of [Source.Nodes], in the order of the cluster
	Arrivals []Arrival
	Running  []Placement // of the first of Arrivals, which run when the episode begins
	Outlook  *Outlook
}

// Placement is the node and the devices of a running pod.
type Placement struct {
	Node    int32
	Devices uint64
}

// Arrival is a pod of an instance.
type Arrival struct {
	Class    int32 // of the catalogue
	At       time.Duration
	Duration time.Duration // 0 is for ever
}

var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// New loads the files of a configuration. Errors of the configuration wrap envs.ErrInvalidOption.
func New(c Config) (*Source, error) {
	s := &Source{config: c, Nodes: GenerateNodes()}
	if c.Trace != "" {
		s.config.NumNodes = 0
		return s, s.loadTrace()
	}
	if c.Nodes != "" {
		var err error
		if s.Nodes, err = c.Assumed.ReadNodes(c.Nodes); err != nil {
			return nil, err
		}
	}
	if err := s.checkNodes(); err != nil {
		return nil, err
	}
	if c.ReferenceSeed >= 0 {
		return s, s.loadReference()
	}
	if len(c.Pods) > 0 {
		return s, s.loadLists()
	}
	var pods []gpushare.Pod
	for _, shape := range Shapes() {
		pods = append(pods, gpushare.Pod{Shape: shape})
	}
	var err error
	if s.Catalogue, err = gpushare.NewCatalogue(s.Nodes, pods); err != nil {
		return nil, err
	}
	s.gen = newGenerator(c.Law, s.Catalogue)
	return s, nil
}

func (s *Source) checkNodes() error {
	if n := s.config.NumNodes; n > len(s.Nodes) && s.config.ReferenceSeed < 0 {
		return fmt.Errorf("%w: num_nodes is %d, and there are %d", envs.ErrInvalidOption, n, len(s.Nodes))
	}
	gpus := 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.GPUs > MaxNodeGPUs {
			return fmt.Errorf("gpu: node %s has %d GPUs, want at most %d", n.Name, n.GPUs, MaxNodeGPUs)
		}
		if !nodeName.MatchString(n.Name) {
			return fmt.Errorf("gpu: node %q: want a name of lower-case letters, digits, dashes and dots", n.Name)
		}
		gpus += n.GPUs
	}
	if gpus == 0 {
		return fmt.Errorf("gpu: none of the %d nodes has a GPU", len(s.Nodes))
	}
	return nil
}

// Size returns the number of nodes of an episode.
func (s *Source) Size() int {
	if s.config.NumNodes == 0 || s.config.ReferenceSeed >= 0 {
		return len(s.Nodes)
	}
	return s.config.NumNodes
}

func (s *Source) loadReference() error {
	pods, err := s.config.Assumed.ReadPods(s.config.Pods[0])
	if err != nil {
		return err
	}
	w := gpushare.ReferenceWorkload(s.Nodes, pods, int64(s.config.ReferenceSeed), s.config.LoadEnd)
	s.Nodes = w.Nodes
	if s.Catalogue, err = gpushare.NewCatalogue(s.Nodes, w.Arrivals); err != nil {
		return err
	}
	s.fixed = &Instance{Outlook: new(NewOutlook(w.Types, s.Catalogue))}
	for i := range s.Nodes {
		s.fixed.Nodes = append(s.fixed.Nodes, int32(i))
	}
	for i := range w.Arrivals {
		s.fixed.Arrivals = append(s.fixed.Arrivals, Arrival{Class: s.Catalogue.Of[w.Arrivals[i].Shape]})
	}
	return nil
}

func (s *Source) loadLists() error {
	var all []gpushare.Pod
	var lists [][]gpushare.Pod
	for _, path := range s.config.Pods {
		pods, err := s.config.Assumed.ReadPods(path)
		if err != nil {
			return err
		}
		if gpushare.RequestedMilliGPU(pods) == 0 {
			return fmt.Errorf("gpu: %s: no pod requests a GPU", path)
		}
		lists, all = append(lists, pods), append(all, pods...)
	}
	var err error
	if s.Catalogue, err = gpushare.NewCatalogue(s.Nodes, all); err != nil {
		return err
	}
	for k, pods := range lists {
		l := podList{outlook: NewOutlook(pods, s.Catalogue)}
		for i := range pods {
			if s.config.Timed && pods[i].Duration == 0 {
				continue
			}
			l.classes = append(l.classes, s.Catalogue.Of[pods[i].Shape])
			l.durations = append(l.durations, pods[i].Duration)
		}
		if len(l.classes) == 0 {
			return fmt.Errorf("gpu: %s: no pod has a creation_time and a later deletion_time, which timed dynamics need", s.config.Pods[k])
		}
		s.lists = append(s.lists, l)
	}
	return nil
}

// NewOutlook describes pods.
func NewOutlook(pods []gpushare.Pod, cat *gpushare.Catalogue) Outlook {
	o := outlookOf(gpushare.Kinds(pods), cat)
	o.Kinds = [3]float64{}
	for i := range pods { // a sum of fractions, which may differ from the fraction of sums in the last bit
		o.count(&pods[i].Shape, 1/float64(len(pods)))
	}
	return o
}

// outlookOf describes pods by their kinds.
func outlookOf(kinds []gpushare.TypicalPod, cat *gpushare.Catalogue) Outlook {
	all := gpushare.TotalCount(kinds)
	o := Outlook{Frag: gpushare.NewFragmenter(gpushare.TypicalPods(kinds), all, &cat.Models), Reserve: gpushare.NewReserve(kinds, &cat.Models)}
	for i := range kinds {
		o.count(&kinds[i].Shape, float64(kinds[i].Count)/float64(all))
	}
	return o
}

// count adds a part of the pods, of shape s, to the kinds.
func (o *Outlook) count(s *gpushare.Shape, part float64) {
	for k, is := range []bool{s.GPUs == 0, s.Sharing(), s.Models != ""} {
		if is {
			o.Kinds[k] += part
		}
	}
}

// heldOutStream separates the episodes of the held-out split from those of the training split, even for equal seeds.
// Its value is arbitrary.
const heldOutStream = 0x6a09e667f3bcc908

// Draw draws the instance of an episode to in and reuses its memory.
func (s *Source) Draw(ctx context.Context, seed uint64, in *Instance) {
	if s.fixed != nil {
		*in = *s.fixed
		return
	}
	if s.config.HeldOut {
		seed ^= heldOutStream
	}
	rng := rand.New(pcg.New(seed))
	if s.recorded != nil {
		s.drawRecorded(rng, in)
		return
	}
	models := s.drawNodes(rng, in)
	in.Arrivals = in.Arrivals[:0]
	if len(s.lists) > 0 {
		l := &s.lists[rng.IntN(len(s.lists))]
		in.Outlook = &l.outlook
		s.fill(ctx, in, func() Arrival {
			k := rng.IntN(len(l.classes))
			return Arrival{Class: l.classes[k], Duration: l.durations[k]}
		})
	} else {
		law := s.gen.list(rng, func(spec string) bool { return hasModel(spec, models) })
		s.fill(ctx, in, func() Arrival { return Arrival{Class: law.draw(rng), Duration: gpushare.Seconds(duration(rng))} })
		in.Outlook = s.outlook(law, in.Arrivals)
	}
	if ctx.Err() != nil {
		return
	}
	if s.config.Timed {
		s.schedule(rng, in)
		return
	}
	for i := range in.Arrivals {
		in.Arrivals[i].Duration = 0
	}
}

// outlook returns the outlook of generated pods.
func (s *Source) outlook(law *list, arrivals []Arrival) *Outlook {
	if s.config.Declared {
		return new(outlookOf(law.declared(s.Catalogue), s.Catalogue))
	}
	pods := make([]gpushare.Pod, len(arrivals))
	for i, a := range arrivals {
		pods[i].Shape = s.Catalogue.Classes[a.Class].Shape
	}
	return new(NewOutlook(pods, s.Catalogue))
}

// drawNodes draws the nodes, at least one of them with a GPU, and returns their models.
func (s *Source) drawNodes(rng *rand.Rand, in *Instance) map[string]bool {
	for {
		in.Nodes = in.Nodes[:0]
		models, gpus := map[string]bool{}, 0
		for _, i := range rng.Perm(len(s.Nodes))[:s.Size()] {
			in.Nodes = append(in.Nodes, int32(i))
			gpus += s.Nodes[i].GPUs
			if m := s.Nodes[i].Model; m != "" && s.Nodes[i].GPUs > 0 {
				models[m] = true
			}
		}
		if gpus > 0 {
			return models
		}
	}
}

// checkEvery is the number of pods between checks of the context.
const checkEvery = 1 << 12

// fill draws pods until their number or their requests reach the configured value.
func (s *Source) fill(ctx context.Context, in *Instance, draw func() Arrival) {
	if s.config.Timed {
		for i := range s.config.NumPods {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return
			}
			in.Arrivals = append(in.Arrivals, draw())
		}
		return
	}
	var size int64
	for _, i := range in.Nodes {
		size += int64(s.Nodes[i].GPUs) * gpushare.WholeGPU
	}
	for target, total := s.config.LoadEnd*float64(size), int64(0); ; {
		a := draw()
		if total += s.Catalogue.Classes[a.Class].TotalMilliGPU(); float64(total) > target && len(in.Arrivals) > 0 {
			return
		}
		in.Arrivals = append(in.Arrivals, a)
	}
}

// longestSpan is the longest time in which pods arrive, in seconds: half of the clock, so that they can end after it.
const longestSpan = float64(cluster.MaxTime/2) / float64(time.Second)

// schedule sets the pods' times of arrival: uniform over the time that the cluster needs to serve them at the given
// load, at most longestSpan.
func (s *Source) schedule(rng *rand.Rand, in *Instance) {
	work, size := 0.0, 0.0
	for i := range in.Arrivals {
		a := &in.Arrivals[i]
		a.Duration = min(max(a.Duration, time.Second), gpushare.Seconds(s.config.MaxDuration))
		work += a.Duration.Seconds() * float64(s.Catalogue.Classes[a.Class].TotalMilliGPU())
	}
	for _, i := range in.Nodes {
		size += float64(s.Nodes[i].GPUs) * gpushare.WholeGPU
	}
	span := min(work/(size*s.config.Load), longestSpan)
	times := make([]time.Duration, len(in.Arrivals))
	for i := range times {
		times[i] = gpushare.Seconds(span * rng.Float64())
	}
	slices.Sort(times)
	for i := range times {
		in.Arrivals[i].At = times[i]
	}
}
