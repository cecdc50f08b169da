package board

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// NodeInfo describes the constant properties of a node.
type NodeInfo struct {
	Name     string `json:"name"`
	MilliCPU int64  `json:"cpu_m"`
	Memory   int64  `json:"memory_bytes"`
	GPUs     int32  `json:"gpus"`
	GPUModel string `json:"gpu_model,omitempty"`
	Rack     string `json:"rack,omitempty"`
}

// A Frame shows an episode at one step.
type Frame struct {
	Step    int        `json:"step"`
	Action  []float32  `json:"action"` // that led to this step; null at the start
	Invalid bool       `json:"invalid"`
	Reward  float64    `json:"reward"`
	Return  float64    `json:"return"`
	Info    []*float64 `json:"info"` // by EpisodeInfo.Columns; null for NaN
	Now     float64    `json:"now_s"`

	Use
	Unscheduled []string `json:"unscheduled"` // the first pending pods
	Pending     int      `json:"pending"`
	Text        string   `json:"text,omitempty"` // the task's own rendering
	Chart       *Chart   `json:"chart,omitempty"`
	Spans       []Span   `json:"spans,omitempty"` // of the last steps
	Grids       []Grid   `json:"grids,omitempty"`
}

// Use describes the usage of each node: requested CPU and memory as shares of the allocatable amounts, the number of running
// pods, and the used share of each GPU.
type Use struct {
	CPU    []float64   `json:"cpu"`
	Memory []float64   `json:"memory"`
	Pods   []int32     `json:"pods"`
	GPUs   [][]float64 `json:"gpus"`
}

// UseOf returns the usage of the nodes of s.
func UseOf(s *cluster.State) Use {
	u := Use{CPU: []float64{}, Memory: []float64{}, Pods: []int32{}, GPUs: [][]float64{}}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		u.CPU = append(u.CPU, share(n.Requested.MilliCPU, n.Allocatable.MilliCPU))
		u.Memory = append(u.Memory, share(n.Requested.MemoryBytes, n.Allocatable.MemoryBytes))
		u.Pods = append(u.Pods, n.NumPods)
		used := []float64{}
		for _, d := range s.NodeDevices(int32(i)) {
			used = append(used, share(int64(d.Capacity-d.Free), int64(d.Capacity)))
		}
		u.GPUs = append(u.GPUs, used)
	}
	return u
}

// Chart is [envs.Chart] as JSON, with null for NaN.
type Chart struct {
	Title  string        `json:"title"`
	XLabel string        `json:"x_label"`
	X      []float64     `json:"x"`
	Panels []ChartPanel  `json:"panels"`
	Events []ChartEvents `json:"events"`
}

// ChartEvents are events of one kind.
type ChartEvents struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
}

// Span is [envs.Span] as JSON.
type Span struct {
	Row   string  `json:"row"`
	From  float64 `json:"from_s"`
	To    float64 `json:"to_s"`
	Kind  string  `json:"kind"`
	Label string  `json:"label"`
}

// Grid is [envs.Grid] as JSON, with null for NaN.
type Grid struct {
	Title   string       `json:"title"`
	Columns []string     `json:"columns"`
	Rows    []string     `json:"rows"`
	Values  [][]*float64 `json:"values"`
	Full    []float64    `json:"full"`
}

// ChartPanel shows quantities of one unit.
type ChartPanel struct {
	YLabel string      `json:"y_label"`
	Lines  []ChartLine `json:"lines"`
}

// ChartLine is a quantity over time.
type ChartLine struct {
	Name string     `json:"name"`
	Y    []*float64 `json:"y"`
}

// shownPods bounds the number of pending pods in a frame.
const shownPods = 50

func nodesOf(s *cluster.State, racks []string) []NodeInfo {
	nodes := []NodeInfo{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		info := NodeInfo{s.NodeName(int32(i)), n.Allocatable.MilliCPU, n.Allocatable.MemoryBytes, n.NumDevices, s.Meta(n.Meta).GPUModel, ""}
		if len(racks) == len(s.Nodes) {
			info.Rack = racks[i]
		}
		nodes = append(nodes, info)
	}
	return nodes
}

// racksOf returns the rack of each node, or nil if the task's explanations have no racks.
func racksOf(v *envs.Vec) []string {
	task, ok := v.Env(0).Task().(envs.Explainer)
	if !ok {
		return nil
	}
	columns, rows := task.Explain(v.Env(0).State())
	at := slices.Index(columns, "rack")
	if at < 0 {
		return nil
	}
	var racks []string
	for _, row := range rows {
		racks = append(racks, row[at])
	}
	return racks
}

// frame shows environment 0 of v, whose last batch is b.
func (ep *episode) frame(v *envs.Vec, b *envs.Batch, step int) *Frame {
	s := v.Env(0).State()
	f := &Frame{
		Step: step, Reward: b.Reward[0], Return: b.EpisodeReturn[0], Invalid: b.Invalid[0], Now: s.Now.Seconds(),
		Info: finite(b.Info), Use: UseOf(s), Unscheduled: []string{},
	}
	if step > 0 {
		f.Action = ep.moves[step-1].action
	}
	for i := range s.Pods {
		if s.Pods[i].Phase != cluster.Pending {
			continue
		}
		if f.Pending++; f.Pending <= shownPods {
			f.Unscheduled = append(f.Unscheduled, s.PodName(int32(i)))
		}
	}
	task := v.Env(0).Task()
	_, explains := task.(envs.Explainer) // then the page draws its nodes
	gridder, grids := task.(envs.Gridder)
	if r, ok := task.(envs.Renderer); ok && !explains && !grids {
		f.Text = r.RenderANSI(s)
	}
	if grids {
		for _, g := range gridder.Grids() {
			grid := Grid{Title: g.Title, Columns: g.Columns, Rows: g.Rows, Full: g.Full}
			for _, row := range g.Values {
				grid.Values = append(grid.Values, finite(row))
			}
			f.Grids = append(f.Grids, grid)
		}
	}
	f.Spans = ep.spansUntil(step)
	if c, ok := task.(envs.Charter); ok {
		f.Chart = chartOf(c.Chart())
	}
	return f
}

// shownSpans is the number of steps whose spans a frame holds.
const shownSpans = 30

// noteSpans records the spans of the last step if they are new.
func (ep *episode) noteSpans() {
	spanner, ok := ep.live.Env(0).Task().(envs.Spanner)
	if !ok {
		return
	}
	var spans []Span
	for _, s := range spanner.Spans() {
		spans = append(spans, Span(s))
	}
	if n := len(ep.spans); len(spans) > 0 && (n == 0 || ep.spans[n-1].of[0] != spans[0]) {
		ep.spans = append(ep.spans, stepSpans{len(ep.moves), spans})
	}
}

// stepSpans holds the spans of one step.
type stepSpans struct {
	step int
	of   []Span
}

// spansUntil returns the spans of the last shownSpans steps up to step.
func (ep *episode) spansUntil(step int) []Span {
	n, _ := slices.BinarySearchFunc(ep.spans, step+1, func(s stepSpans, step int) int { return s.step - step })
	var spans []Span
	for _, s := range ep.spans[max(0, n-shownSpans):n] {
		spans = append(spans, s.of...)
	}
	return spans
}

// share returns part/whole to three decimals, and 0 if whole is 0.
func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return math.Round(1000*float64(part)/float64(whole)) / 1000
}

func finite(values []float64) []*float64 {
	out := make([]*float64, len(values))
	for i := range values {
		if v := values[i]; !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[i] = &v
		}
	}
	return out
}

func chartOf(c *envs.Chart) *Chart {
	if c == nil {
		return nil
	}
	out := &Chart{Title: c.Title, XLabel: c.XLabel, X: append([]float64{}, c.X...)}
	for _, p := range c.Panels {
		panel := ChartPanel{YLabel: p.YLabel}
		for _, l := range p.Lines {
			panel.Lines = append(panel.Lines, ChartLine{l.Name, finite(l.Y)})
		}
		out.Panels = append(out.Panels, panel)
	}
	for _, e := range c.Events {
		out.Events = append(out.Events, ChartEvents{e.Name, append([]float64{}, e.X...)})
	}
	return out
}

// decode reads the JSON body of a request.
func decode(r *http.Request, to any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// number returns an integer of the query, or absent if the query lacks it.
func number(r *http.Request, name string, absent int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return absent, nil
	}
	return strconv.Atoi(text)
}
