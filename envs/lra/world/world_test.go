package world_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/world"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

const isr = 6 // an application

// value is that of a node by hand: a container achieves 1 − 0.1 for each other on its node, an MMS twice
// that beside a Redis.
func value(c lra.Counts) float64 {
	v := 0.0
	for app, k := range c {
		one := 1 - 0.1*float64(c.Total()-1)
		if app == 1 && c[0] > 0 {
			one *= 2
		}
		v += float64(k) * one
	}
	return v
}

// handTable is the table of value.
func handTable(tb testing.TB) *lra.Table {
	tb.Helper()
	table, err := lra.NewTable(func(s lra.State, app int) float64 {
		one := 1 - 0.1*float64(s.Total()-1)
		if app == 1 && s.Count(0) > 0 {
			one *= 2
		}
		return one
	})
	if err != nil {
		tb.Fatal(err)
	}
	return table
}

// options returns options with the table by hand.
func options(tb testing.TB) world.Options {
	tb.Helper()
	var text bytes.Buffer
	if err := files.WriteTable(&text, handTable(tb)); err != nil {
		tb.Fatal(err)
	}
	o := world.DefaultOptions()
	o.Table = envstest.TempFile(tb, "table.csv", text.String())
	return o
}

// batches returns the path of a file of batches.
func batches(tb testing.TB, all ...lra.Counts) string {
	tb.Helper()
	var text bytes.Buffer
	if err := files.WriteBatches(&text, all); err != nil {
		tb.Fatal(err)
	}
	return envstest.TempFile(tb, "batches.csv", text.String())
}

// begin starts an episode of the options.
func begin(tb testing.TB, o world.Options, seed uint64) (*world.Source, *world.Episode, cluster.Cluster) {
	tb.Helper()
	src, err := world.NewSource(o)
	if err != nil {
		tb.Fatal(err)
	}
	e, c := world.NewEpisode(src), sim.New()
	if err := e.Begin(context.Background(), c, rand.New(pcg.New(seed))); err != nil {
		tb.Fatal(err)
	}
	return src, e, c
}

func place(tb testing.TB, e *world.Episode, c cluster.Cluster, node int) (earned float64, end bool) {
	tb.Helper()
	earned, end, err := e.Place(context.Background(), c, node)
	if err != nil {
		tb.Fatal(err)
	}
	return earned, end
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// TestGridsByHand shows the placement of TestTallyByHand: the Redis, 0.9, and an MMS, 1.8, on node 0, an MMS, 1, on node 1.
func TestGridsByHand(t *testing.T) {
	o := options(t)
	o.Nodes, o.Batches, o.Batch = 3, batches(t, lra.Counts{1, 2}), 0
	_, e, c := begin(t, o, 1)
	for _, node := range []int{0, 0, 1} {
		place(t, e, c, node)
	}
	grids := e.View("").Grids()
	nan := math.NaN()
	for i, want := range [][][]float64{
		{{1, 0.9, 0.9}, {2, 2.8, 1.4}, {0, 0, nan}},
		{{1, 1, 0, 0, 0, 0, 0, 2.7, 1.35}, {0, 1, 0, 0, 0, 0, 0, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0, nan}},
	} {
		g := grids[i]
		if len(g.Full) != len(g.Columns) || len(g.Rows) != len(g.Values) {
			t.Fatalf("%s: %d columns, %d of full colour, %d rows, %d of values", g.Title, len(g.Columns), len(g.Full), len(g.Rows), len(g.Values))
		}
		for row, values := range want {
			same := func(a, b float64) bool { return near(a, b) || math.IsNaN(a) && math.IsNaN(b) }
			if !slices.EqualFunc(g.Values[row], values, same) {
				t.Errorf("%s, %s: %v, want %v", g.Title, g.Rows[row], g.Values[row], values)
			}
		}
	}
}

// TestTallyByHand places one Redis and two MMS: the Redis and an MMS on node 0, worth 0.9 + 1.8, and the
// other MMS on node 1, worth 1.
func TestTallyByHand(t *testing.T) {
	o := options(t)
	o.Nodes, o.Batches, o.Batch = 2, batches(t, lra.Counts{1, 2}), 0
	src, e, c := begin(t, o, 1)
	if src.Slots != 16 || src.Scale != 3 || e.Vacant != 2 || e.App() != 0 {
		t.Errorf("%d slots for %v containers, %d vacant nodes, application %d; want 16, 3, 2 and Redis", src.Slots, src.Scale, e.Vacant, e.App())
	}
	for step, want := range []struct {
		node                    int
		earned                  float64
		value                   float64
		satisfied, used, vacant int
		end                     bool
	}{
		{0, 1. / 3, 1, 1, 1, 1, false},
		{0, 1.7 / 3, 2.7, 2, 2, 1, false}, // 0.9 is not below the threshold 0.9
		{1, 1. / 3, 3.7, 3, 3, 0, true},
	} {
		earned, end := place(t, e, c, want.node)
		if !near(earned, want.earned) || !near(e.Value, want.value) || !near(e.Throughput, want.value) || end != want.end {
			t.Errorf("step %d: earned %v, value %v, throughput %v, end %v; want %v, %v, the same and %v",
				step, earned, e.Value, e.Throughput, end, want.earned, want.value, want.end)
		}
		if e.Satisfied != want.satisfied || e.Used != want.used || e.Vacant != want.vacant || e.Placed != step+1 {
			t.Errorf("step %d: %d satisfied, %d slots, %d vacant, %d placed; want %d, %d, %d and %d",
				step, e.Satisfied, e.Used, e.Vacant, e.Placed, want.satisfied, want.used, want.vacant, step+1)
		}
	}
	var info [7]float64
	e.Info(info[:])
	for i, want := range []float64{3.7 / 3, 3.7 / 3, 1, 0, 3, 0, 0} {
		if !near(info[i], want) {
			t.Errorf("column %d is %v, want %v", i, info[i], want)
		}
	}
	if e.App() != world.NoApp || e.Placement()[0].Counts() != (lra.Counts{1, 1}) {
		t.Errorf("at the end application %d, node 0 with %v; want none, and Redis and MMS", e.App(), e.Placement()[0].Counts())
	}
}

// TestVacantObjective subtracts beta × containers/nodes for a node in use, and adds beta to the column.
func TestVacantObjective(t *testing.T) {
	o := options(t)
	o.Nodes, o.Batches, o.Batch, o.Objective, o.Beta = 2, batches(t, lra.Counts{2}), 0, "vacant", 0.5
	_, e, c := begin(t, o, 1)
	place(t, e, c, 0)
	place(t, e, c, 0)
	var info [7]float64
	e.Info(info[:])
	// Two Redis on a node achieve 1.8; the node costs 0.5 · 2/2.
	if !near(e.Value, 1.8-0.5) || !near(info[1], (1.8-0.5)/2+0.5) || info[3] != 0.5 {
		t.Errorf("value %v, objective %v, vacant %v; want 1.3, 1.15 and 0.5", e.Value, info[1], info[3])
	}
}

// TestRejectedStaysPending chooses a full node.
func TestRejectedStaysPending(t *testing.T) {
	o := options(t)
	o.Nodes, o.Batches, o.Batch, o.Classes = 2, batches(t, lra.Counts{2}), 0, []string{"1:1:2"}
	_, e, c := begin(t, o, 1)
	if earned, _ := place(t, e, c, 0); !near(earned, 2./2) { // of a node at twice the speed
		t.Errorf("earned %v, want 1", earned)
	}
	if mask := e.Mask(); mask[0] || !mask[1] || e.Permits(0, 0) || e.FirstOpen(0, 2) != 1 {
		t.Errorf("mask %v, first open node %d; want node 1 alone", mask, e.FirstOpen(0, 2))
	}
	earned, end := place(t, e, c, 0)
	if earned != 0 || !end || e.Rejected != 1 || e.Placed != 1 || c.State().Pods[1].Phase != cluster.Pending {
		t.Errorf("earned %v, end %v, %d rejected, %d placed, pod %v; want 0, the end, 1, 1 and Pending", earned, end, e.Rejected, e.Placed, c.State().Pods[1].Phase)
	}
}

// TestRestrictions: half of the nodes are meant for ISR, and one of two containers may be elsewhere.
func TestRestrictions(t *testing.T) {
	o := options(t)
	o.Nodes, o.Batches, o.Batch, o.Restrict, o.SoftViolations = 2, batches(t, lra.Counts{isr: 2}), 0, []string{"isr:0.5"}, 0.5
	_, e, c := begin(t, o, 3)
	p, err := e.Problem()
	if err != nil || p.Batch != (lra.Counts{isr: 2}) {
		t.Fatalf("batch %v, %v; want two ISR", p.Batch, err)
	}
	forbidden := slices.IndexFunc([]int{0, 1}, func(i int) bool { return p.Model(i).Class.Forbidden[isr] })
	if forbidden < 0 || p.Model(1 - forbidden).Class.Forbidden[isr] {
		t.Fatalf("ISR is forbidden on node %d and not on the other alone", forbidden)
	}
	if mask := e.Mask(); !mask[0] || !mask[1] {
		t.Errorf("mask %v, want both: one violation is left", mask)
	}
	place(t, e, c, forbidden)
	if e.Violations != 1 || e.Mask()[forbidden] || !e.Mask()[1-forbidden] {
		t.Errorf("%d violations, mask %v; want 1, and the other node alone", e.Violations, e.Mask())
	}
	obs := make([]float32, world.BatchFeatures+2*world.NodeFeatures)
	tree := world.NewTree(2)
	e.Observe(&tree, e.Rows(), obs, make([]bool, 2))
	if left := obs[len(obs)-1]; left != 0 {
		t.Errorf("violations left %v, want 0", left)
	}
}

func TestReward(t *testing.T) {
	o := world.DefaultOptions()
	dense := o.NewReward()
	o.Reward = world.RewardTerminal
	terminal := o.NewReward()
	for i, end := range []bool{false, false, true} {
		earned := float64(i + 1)
		if got := dense.Pay(earned, end); got != earned {
			t.Errorf("dense reward %v, want %v", got, earned)
		}
		if got, want := terminal.Pay(earned, end), []float64{0, 0, 6}[i]; got != want { // 1 + 2 + 3
			t.Errorf("terminal reward %v of step %d, want %v", got, i, want)
		}
	}
}

// TestFeaturesByHand: node 0 has a Redis, and an MMS is to come.
func TestFeaturesByHand(t *testing.T) {
	o := options(t)
	o.Nodes, o.Batches, o.Batch = 2, batches(t, lra.Counts{1, 2}), 0
	_, e, c := begin(t, o, 1)
	place(t, e, c, 0)
	tree := world.NewTree(2)
	obs, mask := make([]float32, 2*world.NodeFeatures+world.BatchFeatures), make([]bool, 2)
	e.Observe(&tree, e.Rows(), obs, mask)
	want := []float32{
		1. / 8, 0, 0, 0, 0, 0, 0, 7. / 8, 1. / 8, 1.7, 1, // Redis; with an MMS 2.7 in place of 1
		0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1,
		0, 1, 0, 0, 0, 0, 0, // an MMS
		0, 1. / 15, 0, 0, 0, 0, 0, 1. / 15, // another one for 15 free slots
		1. / 16, 0,
	}
	for i, w := range want {
		if math.Abs(float64(obs[i]-w)) > 1e-6 {
			t.Errorf("feature %d is %v, want %v", i, obs[i], w)
		}
	}
}

// running counts the containers on each node by the pods of the cluster.
func running(e *world.Episode, s *cluster.State) []lra.Counts {
	all := make([]lra.Counts, len(s.Nodes))
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Phase == cluster.Running {
			all[p.Node][e.Queue()[i]]++
		}
	}
	return all
}

// integral returns the values of all nodes and their number of containers, times seconds, from a time to
// now, by the pods' records alone.
func integral(e *world.Episode, s *cluster.State, from float64, value func(lra.Counts) float64) (work, residence float64) {
	now := s.Now.Seconds()
	events := []float64{from, now}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Node < 0 {
			continue
		}
		for _, at := range []float64{p.Started.Seconds(), (p.Started + p.Duration).Seconds()} {
			if at > from && at < now {
				events = append(events, at)
			}
		}
	}
	slices.Sort(events)
	for i := 1; i < len(events); i++ {
		middle, nodes := (events[i-1]+events[i])/2, make([]lra.Counts, len(s.Nodes))
		for k := range s.Pods {
			p := &s.Pods[k]
			if p.Node >= 0 && p.Started.Seconds() <= middle && middle < (p.Started+p.Duration).Seconds() {
				nodes[p.Node][e.Queue()[k]]++
			}
		}
		for _, n := range nodes {
			work += value(n) * (events[i] - events[i-1])
			residence += float64(n.Total()) * (events[i] - events[i-1])
		}
	}
	return work, residence
}

// TestOnlineArrivals compares what an episode counts with the pods of the cluster: who runs where after
// each arrival, the throughput over time, and the reward, which is that over the containers there are on
// average and the mean length of an episode.
func TestOnlineArrivals(t *testing.T) {
	o := options(t)
	o.Nodes, o.Containers, o.Arrivals, o.Load, o.Classes = 3, 40, world.ArrivalsOnline, 0.75, []string{"1:1:1"}
	_, small, c := begin(t, o, 5)
	emptied := false
	for end := false; !end; {
		vacant := small.Vacant
		_, end = place(t, small, c, small.FirstOpen(0, 3))
		emptied = emptied || small.Vacant > vacant
		if n := slices.DeleteFunc(running(small, c.State()), func(n lra.Counts) bool { return n.Total() > 0 }); len(n) != small.Vacant {
			t.Fatalf("%d vacant nodes, the cluster has %d", small.Vacant, len(n))
		}
	}
	if !emptied {
		t.Error("no node became vacant: the episode tests nothing of it")
	}
	o.Classes = nil
	_, e, c := begin(t, o, 5)
	s := c.State()
	if n := slices.IndexFunc(s.Pods, func(p cluster.Pod) bool { return p.Phase == cluster.Pending }); n != 18 {
		t.Errorf("the first pod to place is %d, want 18: those before fill 0.75 of 24 slots", n)
	}
	start, sum := s.Now.Seconds(), 0.0
	for step := 0; ; step++ {
		for i, n := range running(e, s) {
			if got := e.Placement()[i].Counts(); got != n {
				t.Fatalf("step %d: node %d has %v, the cluster runs %v", step, i, got, n)
			}
		}
		earned, end := place(t, e, c, e.FirstOpen(0, 3))
		sum += earned
		if end {
			if step != 39 {
				t.Errorf("the episode ended after %d placements, want 40", step+1)
			}
			break
		}
	}
	work, _ := integral(e, s, start, value)
	if want := work / 18 / 40; math.Abs(sum-want) > 1e-5 {
		t.Errorf("return %v, want %v of %v container seconds", sum, want, work)
	}
	var info [7]float64
	e.Info(info[:])
	work, residence := integral(e, s, 0, value)
	if math.Abs(info[0]-work/residence) > 1e-5 {
		t.Errorf("throughput %v over time, want %v", info[0], work/residence)
	}
	if _, err := e.Problem(); !errors.Is(err, world.ErrNoBatch) {
		t.Errorf("the batch of online arrivals: %v, want ErrNoBatch", err)
	}
}

// TestGapReward: no policy earns more than what the containers are worth at the bound's duals.
func TestGapReward(t *testing.T) {
	o := options(t)
	o.Nodes, o.Containers, o.Arrivals, o.Reward = 3, 60, world.ArrivalsOnline, world.RewardGap
	src, e, c := begin(t, o, 2)
	start, sum := c.State().Now.Seconds(), 0.0
	for end := false; !end; {
		var earned float64
		if earned, end = place(t, e, c, e.FirstOpen(0, 3)); earned > 1e-9 {
			t.Fatalf("earned %v, want at most 0", earned)
		}
		sum += earned
	}
	// 0.85 · 24 = 20.4 containers run on average, two of each application in the mean mix.
	p := planner.Problem{Models: []*planner.Model{src.Kinds[0].Score}, Class: src.Class, Batch: lra.Counts{2, 2, 2, 2, 2, 2, 2}}
	b, err := p.Bound(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gap, _ := integral(e, c.State(), start, func(n lra.Counts) float64 {
		v := value(n) - b.Nodes[0]
		for app, k := range n {
			v -= b.Apps[app] * float64(k)
		}
		return v
	})
	if want := gap / 20.4 / 60; math.Abs(sum-want) > 1e-5 {
		t.Errorf("return %v, want %v", sum, want)
	}
}

// TestGapRewardNeedsTheMeanMix: the linear bound of the mean mix exists only if the nodes hold that.
func TestGapRewardNeedsTheMeanMix(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(o *world.Options)
		want   string // empty if it exists
	}{
		{"seven containers in four slots", func(o *world.Options) { o.Nodes, o.Classes = 1, []string{"1:4:1"} }, "1 containers of each application"},
		{"seven containers in seven slots", func(o *world.Options) { o.Nodes, o.Classes = 1, []string{"1:7:1"} }, ""},
		// A seventh of the 80 slots in use is 11 containers, of which ten nodes take one each.
		{"one more than nodes of each application", func(o *world.Options) { o.Nodes, o.Load, o.Spread = 10, 1, 1 }, "11 containers of each application"},
		{"one for each node", func(o *world.Options) { o.Nodes, o.Load, o.Spread = 10, 0.88, 1 }, ""}, // ⌊70.4/7⌋ = 10
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := world.DefaultOptions()
			o.Arrivals, o.Reward = world.ArrivalsOnline, world.RewardGap
			tc.change(&o)
			_, err := world.NewSource(o)
			if tc.want == "" && err != nil {
				t.Errorf("%v, want no error", err)
			}
			if tc.want != "" && (!errors.Is(err, envs.ErrInvalidOption) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, want an invalid option with %q", err, tc.want)
			}
		})
	}
}

// TestRejectedWhereNoneIsOpen: of three Redis, one for each of two nodes, the third has none.
func TestRejectedWhereNoneIsOpen(t *testing.T) {
	o := options(t)
	o.Nodes, o.Batches, o.Batch, o.Spread = 2, batches(t, lra.Counts{3}), 0, 1
	_, e, c := begin(t, o, 1)
	if _, end := place(t, e, c, 0); end {
		t.Error("the episode ended after the first of two placements")
	}
	if _, end := place(t, e, c, 1); !end || e.Rejected != 1 {
		t.Errorf("end %v and %d rejected after two placements, want the end and 1", end, e.Rejected)
	}
}

// TestBatchesOfSplits: a held-out split plays the first 30 rows, a training split the others. Drawn
// batches of the splits differ for equal seeds.
func TestBatchesOfSplits(t *testing.T) {
	drawn := options(t)
	_, train, _ := begin(t, drawn, 1)
	drawn.Split = world.SplitHeldOut
	if _, held, _ := begin(t, drawn, 1); slices.Equal(train.Queue(), held.Queue()) {
		t.Error("equal seeds draw equal batches of both splits")
	}
	all := make([]lra.Counts, 32)
	for i := range all {
		all[i][0], all[i][1] = 1, i+1
	}
	o := options(t)
	o.Nodes, o.Batches = 9, batches(t, all...)
	for split, held := range map[string]bool{world.SplitHeldOut: true, world.SplitTrain: false} {
		o.Split = split
		for seed := range uint64(10) {
			_, e, _ := begin(t, o, seed)
			if row := len(e.Queue()) - 2; row < 30 != held {
				t.Errorf("split %s plays row %d", split, row)
			}
		}
	}
}

// TestClone plays an episode and its copy on, apart and to the same end.
func TestClone(t *testing.T) {
	o := options(t)
	o.Nodes, o.Containers, o.Arrivals = 3, 20, world.ArrivalsOnline
	_, e, c := begin(t, o, 4)
	for range 5 {
		place(t, e, c, e.FirstOpen(0, 3))
	}
	other, copied := e.Clone(), sim.New()
	c.(*sim.Cluster).CloneInto(copied)
	for range 10 {
		want, _ := place(t, e, c, e.FirstOpen(0, 3))
		if got, _ := place(t, other, copied, other.FirstOpen(0, 3)); got != want {
			t.Fatalf("the copy earned %v, the episode %v", got, want)
		}
	}
	if !slices.Equal(e.Placement(), other.Placement()) || !slices.Equal(e.Queue(), other.Queue()) {
		t.Error("the copy has another cluster")
	}
}

func TestInvalidOptions(t *testing.T) {
	for name, change := range map[string]func(o *world.Options){
		"nodes is 0":                         func(o *world.Options) { o.Nodes = 0 },
		"containers is 700":                  func(o *world.Options) { o.Containers = 700 },
		"add up to 0.5":                      func(o *world.Options) { o.Classes = []string{"0.5:8:1"} },
		"want share:slots:speed":             func(o *world.Options) { o.Classes = []string{"1:8"} },
		"restrict has isr twice":             func(o *world.Options) { o.Restrict = []string{"isr:0.5", "isr:0.2"} },
		"soft_violations needs":              func(o *world.Options) { o.SoftViolations = 0.1 },
		"reward gap is of online":            func(o *world.Options) { o.Reward = world.RewardGap },
		"batch 3 needs batches":              func(o *world.Options) { o.Batch = 3 },
		"batches and batch are of batch":     func(o *world.Options) { o.Arrivals, o.Batch = world.ArrivalsOnline, 0 },
		"min_containers is 300, want at mos": func(o *world.Options) { o.MinContainers = 300 },
	} {
		o := world.DefaultOptions()
		change(&o)
		if _, err := world.NewSource(o); !errors.Is(err, envs.ErrInvalidOption) || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%v, want an invalid option with %q", err, name)
		}
	}
}
