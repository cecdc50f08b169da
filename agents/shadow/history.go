package shadow

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// never is the time of an event that did not happen.
const never = time.Duration(math.MaxInt64)

// Recording is a recorded cluster.
type Recording struct {
	Header clustertrace.Header
	Events []clustertrace.Event // in order, as a [clustertrace.Reader] returns them
}

// history is a recording with a summary of each pod's life. Policies do not see it.
type history struct {
	*Recording
	templates []*clustertrace.Template
	nodes     []*clustertrace.Node // as added, by number
	pods      []pod
	end       time.Duration // of the recording
	podRules  []*podRules   // by template; nil without constraints on other pods
	interPod  bool          // a template has constraints or preferences about other pods
	lowest    int32         // lowest priority of a template
	extra     bool          // scores count some template's pods with more than their requests

	fragments *gpushare.Fragmenter // nil without GPUs
	catalogue *gpushare.Catalogue
	classes   []int32 // by template, in the catalogue
}

// pod is a pod of the recording.
type pod struct {
	name     string // namespace/name
	template int32  // at its creation
	claims   []string
	created  time.Duration
	bound    time.Duration // or never
	ended    time.Duration // finished or deleted, or never
	listed   bool          // it came from a list, not from a watch
	fixed    bool          // the policy does not place it
	node     int32         // to which it was bound, or -1
	devices  uint64
}

// lifetime returns how long the pod ran; never if unknown.
func (p *pod) lifetime() time.Duration {
	if p.bound == never || p.ended == never {
		return never
	}
	return max(0, p.ended-p.bound)
}

// read collects the history of each pod. The policy places the pods of the named schedulers, or of
// all if there are no names.
func read(r *Recording, schedulers []string) (*history, error) {
	h := &history{Recording: r}
	for i := range r.Events {
		e := &r.Events[i]
		h.end = max(h.end, e.At)
		switch e.Kind {
		case clustertrace.AddTemplate:
			if h.templates == nil || e.Spec.Priority < h.lowest {
				h.lowest = e.Spec.Priority
			}
			h.templates = append(h.templates, e.Spec)
			h.extra = h.extra || e.Spec.ExtraMilliCPU != 0 || e.Spec.ExtraMemoryBytes != 0
		case clustertrace.AddNode:
			h.nodes = append(h.nodes, e.Info)
		case clustertrace.AddPod:
			t := h.templates[e.Template]
			h.pods = append(h.pods, pod{
				name: t.Namespace + "/" + e.Name, template: e.Template, claims: e.Claims, created: e.At - e.Ago, listed: e.Ago > 0,
				bound: never, ended: never, node: -1, fixed: !isPlacedBy(t, schedulers),
			})
		case clustertrace.BindPod:
			p := &h.pods[e.Pod]
			p.bound, p.node = e.At-e.Ago, e.Node
			p.fixed = p.fixed || p.listed && e.Ago > 0
			for _, d := range e.Devices {
				p.devices |= 1 << d
			}
		case clustertrace.FinishPod, clustertrace.DeletePod:
			if p := &h.pods[e.Pod]; p.ended == never {
				p.ended = e.At - e.Ago
			}
		}
	}
	if len(h.nodes) == 0 {
		return nil, fmt.Errorf("shadow: the recording has no node")
	}
	if err := h.readPodRules(); err != nil {
		return nil, err
	}
	return h, h.readGPUs()
}

// isPlacedBy reports whether one of the schedulers places pods of the template. Pods of DaemonSets and static pods
// belong to their nodes.
func isPlacedBy(t *clustertrace.Template, schedulers []string) bool {
	if kind, _, _ := strings.Cut(t.Owner, "/"); kind == "DaemonSet" || kind == "Node" {
		return false
	}
	return len(schedulers) == 0 || slices.Contains(schedulers, cmp.Or(t.Scheduler, "default-scheduler"))
}

// readGPUs prepares the measure of fragmentation, if a node has a GPU. Its typical pods come from the whole recording;
// policies do not see it.
func (h *history) readGPUs() error {
	gpus := false
	for _, n := range h.nodes {
		gpus = gpus || n.GPUs > 0
	}
	if !gpus {
		return nil
	}
	shapes := make([]gpushare.Pod, len(h.templates))
	for i, t := range h.templates {
		shapes[i].Shape = shapeOf(t)
	}
	pods := make([]gpushare.Pod, len(h.pods))
	for i := range h.pods {
		pods[i] = shapes[h.pods[i].template]
	}
	nodes := make([]gpushare.Node, len(h.nodes))
	for i, n := range h.nodes {
		nodes[i] = gpuNode(n)
	}
	var err error
	if h.catalogue, err = gpushare.NewCatalogue(nodes, shapes); err != nil {
		return err
	}
	for i := range shapes {
		h.classes = append(h.classes, h.catalogue.Of[shapes[i].Shape])
	}
	h.fragments = gpushare.NewFragmenter(gpushare.TypicalPods(gpushare.Kinds(pods)), len(pods), &h.catalogue.Models)
	return nil
}

func shapeOf(t *clustertrace.Template) gpushare.Shape {
	return gpushare.Shape{
		MilliCPU: t.MilliCPU, MemoryMiB: (t.MemoryBytes + gpushare.BytesMiB - 1) / gpushare.BytesMiB,
		GPUs: t.GPUs, MilliGPU: t.MilliGPU, Models: strings.Join(t.GPUModels, "|"),
	}
}

// gpuNode converts a node for the measure of fragmentation. GPUs of unknown model count as one model.
func gpuNode(n *clustertrace.Node) gpushare.Node {
	g := gpushare.Node{Name: n.Name, MilliCPU: n.MilliCPU, MemoryMiB: n.MemoryBytes / gpushare.BytesMiB, GPUs: int(n.GPUs), Model: n.GPUModel}
	if g.GPUs > 0 && g.Model == "" {
		g.Model = "unknown"
	}
	return g
}
