package shadow_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

const gi = 1 << 30

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// script writes the events of a recording. Hours are its unit of time.
type script struct {
	t         *testing.T
	events    []clustertrace.Event
	now       time.Duration
	nodes     int32
	pods      int32
	templates int32
}

func newScript(t *testing.T) *script { return &script{t: t} }

func (s *script) at(hours float64) *script {
	s.now = time.Duration(hours * float64(time.Hour))
	return s
}

func (s *script) add(e clustertrace.Event) {
	e.At = s.now
	s.events = append(s.events, e)
}

// node adds a node of so many cores, with as many GiB.
func (s *script) node(name string, cores int64) int32 {
	return s.nodeOf(clustertrace.Node{Name: name, MilliCPU: 1000 * cores, MemoryBytes: cores * gi, Pods: 110})
}

func (s *script) nodeOf(n clustertrace.Node) int32 {
	s.add(clustertrace.Event{Kind: clustertrace.AddNode, Node: s.nodes, Info: &n})
	s.nodes++
	return s.nodes - 1
}

func (s *script) template(t clustertrace.Template) int32 {
	if t.Namespace == "" {
		t.Namespace = "default"
	}
	s.add(clustertrace.Event{Kind: clustertrace.AddTemplate, Template: s.templates, Spec: &t})
	s.templates++
	return s.templates - 1
}

// cores returns the template of pods that request CPU alone.
func (s *script) cores(n float64) int32 {
	return s.template(clustertrace.Template{MilliCPU: int64(1000 * n)})
}

func (s *script) pod(name string, template int32) int32 {
	s.add(clustertrace.Event{Kind: clustertrace.AddPod, Pod: s.pods, Name: name, Template: template})
	s.pods++
	return s.pods - 1
}

func (s *script) bind(pod, node int32, devices ...int) {
	s.add(clustertrace.Event{Kind: clustertrace.BindPod, Pod: pod, Node: node, Devices: devices})
}

func (s *script) finish(pods ...int32) {
	for _, p := range pods {
		s.add(clustertrace.Event{Kind: clustertrace.FinishPod, Pod: p, Phase: clustertrace.Succeeded})
	}
}

func (s *script) deletePod(p int32) { s.add(clustertrace.Event{Kind: clustertrace.DeletePod, Pod: p}) }

// end ends the recording and returns it.
func (s *script) end(hours float64) *shadow.Recording {
	s.at(hours).add(clustertrace.Event{Kind: clustertrace.EndOfSegment})
	return &shadow.Recording{Header: clustertrace.Header{Format: clustertrace.Format, Version: clustertrace.Version, Start: start}, Events: s.events}
}

// rule is a policy for tests. It takes one of the nodes that fit, which it gets in their order.
type rule struct {
	pick func(s *cluster.State, d envs.Decision, fitting []int32) int32
}

func (r *rule) Choose(_ context.Context, s *cluster.State, d envs.Decision) (shadow.Choice, error) {
	var fitting []int32
	for i := range s.Nodes {
		if s.Fits(d.Pod, int32(i)) {
			fitting = append(fitting, int32(i))
		}
	}
	c := shadow.Choice{Node: r.pick(s, d, fitting)}
	if int(c.Node) < len(s.Nodes) {
		c.Devices, _ = s.PickDevices(d.Pod, c.Node)
	}
	return c, nil
}

func policyOf(name string, pick func(s *cluster.State, d envs.Decision, fitting []int32) int32) shadow.Policy {
	return shadow.Policy{Name: name, Open: func() (shadow.Chooser, func() error, error) {
		return &rule{pick: pick}, func() error { return nil }, nil
	}}
}

// first takes the first node that fits, last the last.
var (
	first = policyOf("first", func(_ *cluster.State, _ envs.Decision, fitting []int32) int32 { return fitting[0] })
	last  = policyOf("last", func(_ *cluster.State, _ envs.Decision, fitting []int32) int32 { return fitting[len(fitting)-1] })
)

// baseline returns a baseline of an environment.
func baseline(env, name string) shadow.Policy {
	return shadow.Policy{Name: name, Open: func() (shadow.Chooser, func() error, error) {
		p, err := live.Open(live.Args{Env: env, Baseline: name}, 1)
		if err != nil {
			return nil, nil, err
		}
		return p, p.Close, nil
	}}
}

func run(t *testing.T, r *shadow.Recording, o shadow.Options) *shadow.Report {
	t.Helper()
	rep, err := shadow.Run(context.Background(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// index returns that of a metric in a report.
func index(t *testing.T, r *shadow.Report, metric string) int {
	t.Helper()
	for i, m := range r.Metrics {
		if m.Name == metric {
			return i
		}
	}
	t.Fatalf("no metric %s", metric)
	return 0
}

// wantMetric compares the recorded value of a metric, that of the first policy, and the difference.
func wantMetric(t *testing.T, r *shadow.Report, metric string, recorded, policy float64) {
	t.Helper()
	i := index(t, r, metric)
	for _, v := range []struct {
		of        string
		got, want float64
	}{
		{"recorded", float64(r.Recorded.Values[i].Value), recorded},
		{r.Policies[0].Name, float64(r.Policies[0].Values[i].Value), policy},
		{"difference", float64(r.Policies[0].Differences[i].Value), policy - recorded},
	} {
		if math.Abs(v.got-v.want) > 1e-9 {
			t.Errorf("%s, %s: %v, want %v", metric, v.of, v.got, v.want)
		}
	}
}

func wantVerdict(t *testing.T, r *shadow.Report, metric, want string) {
	t.Helper()
	d := r.Policies[0].Differences[index(t, r, metric)]
	if d.Verdict != want {
		t.Errorf("%s: %+v, want verdict %q", metric, d, want)
	}
}

// wantNotModelled looks for a part of what the report says is left out.
func wantNotModelled(t *testing.T, r *shadow.Report, part string) {
	t.Helper()
	if !slices.ContainsFunc(r.NotModelled, func(s string) bool { return strings.Contains(s, part) }) {
		t.Errorf("not modelled: %q, want %q", r.NotModelled, part)
	}
}
