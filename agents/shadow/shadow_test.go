package shadow_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/shadow"
	"github.com/kubernasium/kubernasium/envs/dataset/clustertrace"
)

// spread is a recording of two nodes with 4 cores. Two pods of 2 cores run on one node each from 0 to 10 h.
// One of 4 cores comes at 1 h, fits nowhere until 10 h, and runs for 2 h.
func spread(t *testing.T) *shadow.Recording {
	s := newScript(t)
	n0, n1 := s.node("n0", 4), s.node("n1", 4)
	two, four := s.cores(2), s.cores(4)
	a, b := s.pod("a", two), s.pod("b", two)
	s.bind(a, n0)
	s.bind(b, n1)
	s.at(1)
	c := s.pod("c", four)
	s.at(10).finish(a, b)
	s.bind(c, n0)
	s.at(11).deletePod(a) // which had ended
	s.at(12).finish(c)
	return s.end(12)
}

// TestHandWorked: the first node that fits gets both small pods, so that the large one starts at 1 h and ends
// at 3 h. Over the 12 h, worked by hand:
//
//	hours      recorded: n0, n1   first: n0, n1
//	0 … 1      2, 2               4, 0
//	1 … 3      2, 2 (c waits)     4, 4
//	3 … 10     2, 2 (c waits)     4, 0
//	10 … 12    4, 0               0, 0
func TestHandWorked(t *testing.T) {
	r := run(t, spread(t), shadow.Options{Policies: []shadow.Policy{first}})
	wantMetric(t, r, "cpu_allocated", 50, (1*50.0+2*100+7*50)/12)
	wantMetric(t, r, "memory_allocated", 0, 0)
	wantMetric(t, r, "nodes_in_use", (10*2+2*1)/12.0, (10*1+2*1)/12.0)
	wantMetric(t, r, "pending_pods", 9/12.0, 0)
	wantMetric(t, r, "pending_time", 9*3600/3.0, 0)
	// The standard deviation of 100 % and 0 % is 50, of 50 % and 50 % it is 0; half of it counts, for memory has none.
	wantMetric(t, r, "imbalance", 2*25/12.0, 8*25/12.0)
	wantVerdict(t, r, "nodes_in_use", shadow.Better)
	wantVerdict(t, r, "pending_pods", shadow.Better)
	wantVerdict(t, r, "cpu_allocated", shadow.NoDifference)
	if r.Pods != 3 || r.Given != 0 || r.Recorded.Placed != 3 || r.Policies[0].Placed != 3 || r.Blocks != 12 || len(r.Unplaced) != 0 {
		t.Errorf("report %+v, want 3 pods placed by both, in 12 blocks", r)
	}
	// Of the three recorded decisions, b's alone differs: the first node has room for it.
	p := r.Policies[0]
	if got := float64(p.Agreement.Value); math.Abs(got-200/3.0) > 1e-9 || p.Asked != 3 {
		t.Errorf("agreement %v %% of %d, want 2 of 3", got, p.Asked)
	}
	if !slices.ContainsFunc(r.Metrics, func(m shadow.Metric) bool { return m.Name == "imbalance" }) ||
		slices.ContainsFunc(r.Metrics, func(m shadow.Metric) bool { return m.Name == "fragmentation" }) {
		t.Errorf("metrics %v, want none of GPUs in a cluster without", r.Metrics)
	}
}

// TestDecisions: what is reported of each recorded decision. The policies look at the recorded cluster, in which b could share
// a's node, and c could have either.
func TestDecisions(t *testing.T) {
	var got []shadow.Decision
	run(t, spread(t), shadow.Options{Policies: []shadow.Policy{first, last}, Decided: func(d shadow.Decision) error {
		got = append(got, d)
		return nil
	}})
	ten := start.Add(10 * time.Hour)
	want := []shadow.Decision{
		{At: start, Pod: "default/a", Node: "n0", Choices: []string{"n0", "n1"}},
		{At: start, Pod: "default/b", Node: "n1", Choices: []string{"n0", "n1"}},
		{At: ten, Pod: "default/c", Node: "n0", Choices: []string{"n0", "n1"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
	broken := errors.New("broken")
	if _, err := shadow.Run(t.Context(), spread(t), shadow.Options{Decided: func(shadow.Decision) error { return broken }}); !errors.Is(err, broken) {
		t.Errorf("error %v, want that of Decided", err)
	}
}

// TestBlocksOfTheSeries: hour by hour, as in the table of TestHandWorked.
func TestBlocksOfTheSeries(t *testing.T) {
	r := run(t, spread(t), shadow.Options{Policies: []shadow.Policy{first}})
	i := index(t, r, "nodes_in_use")
	want := []shadow.Number{1, 2, 2, 1, 1, 1, 1, 1, 1, 1, 0, 0}
	if got := r.Policies[0].Series[i]; !slices.Equal(got, want) {
		t.Errorf("nodes in use by hour %v, want %v", got, want)
	}
	half := run(t, spread(t), shadow.Options{Policies: []shadow.Policy{first}, Block: 5 * time.Hour})
	if got, want := half.Policies[0].Series[i], []shadow.Number{7 / 5.0, 1, 0}; !slices.Equal(got, want) { // the third has 2 h
		t.Errorf("nodes in use by 5 hours %v, want %v", got, want)
	}
	if d := half.Policies[0].Differences[i]; !math.IsNaN(float64(d.Low)) || d.Verdict != shadow.NoDifference {
		t.Errorf("difference %+v of 3 blocks, want no interval", d)
	}
}

// TestSince: what is before does not count, but has led to what is then.
func TestSince(t *testing.T) {
	r := run(t, spread(t), shadow.Options{Policies: []shadow.Policy{first}, Since: 3 * time.Hour})
	wantMetric(t, r, "nodes_in_use", (7*2+2*1)/9.0, 7*1/9.0)
	if !r.Start.Equal(start.Add(3*time.Hour)) || r.Blocks != 9 {
		t.Errorf("start %v, %d blocks, want 03:00 and 9", r.Start, r.Blocks)
	}
	if p := r.Policies[0]; p.Asked != 1 { // c, which is bound at 10 h
		t.Errorf("asked %d times, want 1", p.Asked)
	}
	if v := r.Recorded.Values[index(t, r, "pending_time")].Value; !math.IsNaN(float64(v)) {
		t.Errorf("pending time %v, want none: no pod has come since", v)
	}
}

// gpus is a recording of two nodes with two GPUs, and four pods for 8 hours: two share a GPU by halves, two
// take one. The halves are on one node each.
func gpus(t *testing.T) *shadow.Recording {
	s := newScript(t)
	var nodes []int32
	for _, name := range []string{"g0", "g1"} {
		nodes = append(nodes, s.nodeOf(clustertrace.Node{
			Name: name, MilliCPU: 8000, MemoryBytes: 8 * gi, Pods: 110, GPUs: 2, MilliGPU: 1000, GPUModel: "T4",
		}))
	}
	half, whole := s.template(clustertrace.Template{MilliCPU: 1000, GPUs: 1, MilliGPU: 500}), s.template(clustertrace.Template{MilliCPU: 1000, GPUs: 1, MilliGPU: 1000})
	a, b, c, d := s.pod("a", half), s.pod("b", half), s.pod("c", whole), s.pod("d", whole)
	s.bind(a, nodes[0], 0)
	s.bind(b, nodes[1], 0)
	s.bind(c, nodes[0], 1)
	s.bind(d, nodes[1], 1)
	return s.end(8)
}

// TestFragmentation: as recorded, each node has half a GPU free, which every second typical pod can use: F is 250
// thousandths a node, 12.5 % of the 4 GPUs. Packed, one whole GPU is free, which all can use.
func TestFragmentation(t *testing.T) {
	r := run(t, gpus(t), shadow.Options{Policies: []shadow.Policy{baseline("k8s/GPUPodScheduling-v0", "BestFit")}})
	wantMetric(t, r, "fragmentation", 12.5, 0)
	wantMetric(t, r, "gpu_allocated", 75, 75)
	wantVerdict(t, r, "fragmentation", shadow.Better)
	if d := r.Policies[0].Differences[index(t, r, "fragmentation")]; d.Low != -12.5 || d.High != -12.5 {
		t.Errorf("difference %+v, want [-12.5, -12.5]: every hour is equal", d)
	}
}

// TestIdenticalPolicy: a policy that decides as the recorded scheduler did has no difference to it.
func TestIdenticalPolicy(t *testing.T) {
	for _, tc := range []struct {
		name   string
		r      *shadow.Recording
		policy shadow.Policy
	}{
		// In both recordings the node with fewer pods comes first, of equal ones the first.
		{"CPU", spread(t), baseline("k8s/PodBalance-v0", "LeastAllocated")},
		{"GPU", gpus(t), baseline("k8s/GPUPodScheduling-v0", "KubeResources")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := run(t, tc.r, shadow.Options{Policies: []shadow.Policy{tc.policy}})
			for i, d := range r.Policies[0].Differences {
				if d.Value != 0 || !(d.Low <= 0 && d.High >= 0) || d.Verdict != shadow.NoDifference {
					t.Errorf("%s: difference %+v, want 0 in an interval that contains it", r.Metrics[i].Name, d)
				}
			}
			if got := r.Policies[0].Agreement.Value; got != 100 {
				t.Errorf("agreement %v %%, want 100", got)
			}
		})
	}
}
