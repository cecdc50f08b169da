package advantage

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/agents/trained"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
	"github.com/kubernasium/kubernasium/models"

	_ "github.com/kubernasium/kubernasium/envs/all"
)

func small() Config {
	c := Defaults()
	c.EnvKwargs = map[string]any{"num_nodes": 8}
	c.Episodes, c.Futures, c.Density, c.Steps, c.Width = 4, 2, 0.5, 20, 8
	return c
}

func TestCollectIsDeterministic(t *testing.T) {
	t.Run("time-free", func(t *testing.T) { checkCollect(t, small()) })
	t.Run("timed", func(t *testing.T) {
		c := small()
		c.EnvKwargs = map[string]any{"num_nodes": 8, "dynamics": gpu.DynamicsTimed, "num_pods": 60, "load": 1.5}
		checkCollect(t, c)
	})
}

func checkCollect(t *testing.T, c Config) {
	t.Helper()
	collect := func(procs int) []Decision {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		d, err := c.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one, three := collect(1), collect(3)
	same := func(a, b Decision) bool {
		return a.Episode == b.Episode && slices.Equal(a.Rows, b.Rows) && slices.Equal(a.Gains, b.Gains)
	}
	if len(one) < 10 || !slices.EqualFunc(one, three, same) {
		t.Fatalf("%d decisions on one core and %d on three, want equal ones", len(one), len(three))
	}
	for _, d := range one {
		sum, spread := 0.0, 0.0
		for _, g := range d.Gains {
			sum, spread = sum+float64(g), max(spread, math.Abs(float64(g)))
		}
		if math.Abs(sum) > 1e-4*max(1, spread) {
			t.Errorf("gains %v sum to %v, want 0", d.Gains, sum)
		}
	}
	c.Seed++
	if other := collect(1); slices.EqualFunc(one, other, same) {
		t.Error("another seed gives the same decisions")
	}
}

// TestFit: gains that are linear in the rows are learned, and noise on each of them averages out.
func TestFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var decisions []Decision
	for k := range 1000 {
		d := Decision{Episode: k}
		mean := float32(0)
		for range 4 {
			x, y := rng.Float32(), rng.Float32()
			d.Rows = append(d.Rows, x, y, 0.5)
			d.Gains = append(d.Gains, 2*x-y)
			mean += (2*x - y) / 4
		}
		for i := range d.Gains {
			d.Gains[i] -= mean
		}
		decisions = append(decisions, d)
	}
	c := Defaults()
	c.Width, c.Steps, c.Batch = 16, 400, 64
	net, explained, err := c.Fit(t.Context(), decisions)
	if err != nil {
		t.Fatal(err)
	}
	if explained < 0.98 {
		t.Errorf("explained %.3f of the variance in decisions that were held out, want nearly all", explained)
	}
	q, err := net.Forward([]float32{1, 0, 0.5, 0, 1, 0.5}, 2) // worth 2 and −1
	if err != nil {
		t.Fatal(err)
	}
	if d := float64(q[0] - q[1]); math.Abs(d-3) > 0.3 {
		t.Errorf("the first row is worth %.3f more than the second, want 3", d)
	}
}

// TestSavedPolicy: the scores of the model are the network's gains plus the weighted score of WeightedFGD, and with a great
// weight the model takes WeightedFGD's nodes.
func TestSavedPolicy(t *testing.T) {
	c := small()
	decisions, err := c.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	net, _, err := c.Fit(t.Context(), decisions)
	if err != nil {
		t.Fatal(err)
	}
	c.Weight = 1000
	network, policy, info, err := c.Policy(net)
	if err != nil {
		t.Fatal(err)
	}
	cfg := ppo.Defaults()
	cfg.Network, cfg.TotalTimesteps = network, 1
	learner, err := ppo.New(cfg, info, agents.Given(policy), 0)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := learner.Save(&file); err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/model.safetensors"
	f, err := models.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if err := models.WriteFile(path, f); err != nil {
		t.Fatal(err)
	}
	p, err := trained.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	v, err := envs.Make(c.Env, 1, envs.VecOptions{Options: c.EnvKwargs, Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := v.Reset(t.Context(), envs.VecResetOptions{Seeds: []uint64{7}})
	if err != nil {
		t.Fatal(err)
	}
	teacher, err := envs.NewPolicies(v, "WeightedFGD", 0)
	if err != nil {
		t.Fatal(err)
	}
	columns, err := scoreColumns(v.Env(0).Task())
	if err != nil {
		t.Fatal(err)
	}
	const nodes, pod = 8, 27
	features := (len(b.Obs) - pod) / nodes
	scores, action, want := make([]float32, nodes), make([]float32, 1), make([]float32, 1)
	row := make([]float32, features+pod)
	for step := range 30 {
		if err := p.Scores(b.Obs, scores); err != nil {
			t.Fatal(err)
		}
		for i := range nodes {
			copy(row, b.Obs[i*features:][:features])
			copy(row[features:], b.Obs[nodes*features:])
			q, err := net.Forward(row, 1)
			if err != nil {
				t.Fatal(err)
			}
			sum := float64(q[0])
			for column, w := range columns {
				sum += c.Weight * float64(w) * float64(row[column])
			}
			if math.Abs(sum-float64(scores[i])) > 1e-5*max(1, math.Abs(sum)) {
				t.Fatalf("step %d: node %d has the score %v, want %v", step, i, scores[i], sum)
			}
		}
		if err := p.Act(b.Obs, b.Mask, action); err != nil {
			t.Fatal(err)
		}
		if err := teacher.Act(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if action[0] != want[0] {
			t.Errorf("step %d: node %v, WeightedFGD's is %v", step, action[0], want[0])
		}
		if b, err = v.Step(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
}

// An episode is one environment and WeightedFGD, which plays it.
type episode struct {
	vec    *envs.Vec
	task   *gpu.Task
	policy *envs.Policies
}

func newEpisode(t *testing.T, id string, options map[string]any) *episode {
	t.Helper()
	v, err := envs.Make(id, 1, envs.VecOptions{Options: options, Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	policy, err := envs.NewPolicies(v, "WeightedFGD", 0)
	if err != nil {
		t.Fatal(err)
	}
	return &episode{v, v.Env(0).Task().(*gpu.Task), policy}
}

// begin lets WeightedFGD play the first steps of an episode.
func (e *episode) begin(t *testing.T, seed uint64, steps int) {
	t.Helper()
	if _, err := e.vec.Reset(t.Context(), envs.VecResetOptions{Seeds: []uint64{seed}}); err != nil {
		t.Fatal(err)
	}
	for range steps {
		if _, err := e.policy.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGainsAreWhatThePlaysEndWith: with the episode's own pods as the only future, a node's gain is the allocation of
// an episode in which the pod goes there and WeightedFGD plays on. The first node tried is WeightedFGD's.
func TestGainsAreWhatThePlaysEndWith(t *testing.T) {
	e := newEpisode(t, "k8s/GPUPodScheduling-v1", map[string]any{"num_nodes": 12})
	tried := 0
	for seed := range uint64(4) {
		e.begin(t, seed, 30)
		g, err := NewGains(e.task, 1, []float64{1.3}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Begin(); err != nil {
			t.Fatal(err)
		}
		nodes := slices.Clone(g.Nodes(3, 1, rand.New(rand.NewPCG(seed, 1))))
		usual := make([]float32, 1)
		if err := e.policy.Act(t.Context(), usual); err != nil {
			t.Fatal(err)
		}
		if float32(nodes[0]) != usual[0] {
			t.Errorf("seed %d: node %d is first, want WeightedFGD's, %v", seed, nodes[0], usual[0])
		}
		s := e.task.RolloutState()
		info := e.vec.Last().Info
		var future []int32
		decided := int(info[5]+info[6]) + 1
		for _, a := range s.Instance.Arrivals[decided:] { // after those placed, those given up, and this one
			future = append(future, a.Class)
		}
		half := len(future) / 2
		got := g.g.Play(nil, s.Class, nodes, []gpushare.Future{{Pods: future}})
		sums := g.g.Play(nil, s.Class, nodes, []gpushare.Future{{Pods: future, Marks: []int{half}}})
		for i, node := range nodes {
			tried++
			e.begin(t, seed, 30)
			last, err := e.vec.Step(t.Context(), []float32{float32(node)})
			atHalf := 0.
			for err == nil {
				if placedOrFailed := int(last.Info[5] + last.Info[6]); atHalf == 0 && placedOrFailed >= decided+half {
					atHalf = float64(s.Inventory.Used.MilliGPU)
				}
				if last.Done(0) {
					break
				}
				last, err = e.policy.Step(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := float64(s.Inventory.Used.MilliGPU); got[i] != want {
				t.Errorf("seed %d: node %d ends with %v thousandths of a GPU, want %v", seed, node, got[i], want)
			}
			if want := atHalf + float64(s.Inventory.Used.MilliGPU); sums[i] != want {
				t.Errorf("seed %d: node %d has %v thousandths of a GPU after half of the pods and at the end, want %v", seed, node, sums[i], want)
			}
		}
	}
	if tried < 8 {
		t.Errorf("%d nodes tried, want more", tried)
	}
}

// ownCourse is the future that the episode will have, until a time from now.
func ownCourse(s *gpu.RolloutState, until time.Duration) gpushare.Course {
	pods := s.Instance.Arrivals
	f := gpushare.Course{Duration: pods[s.Current].Duration, Offered: s.Pos, Until: until}
	for i, pod := range s.Queue {
		if i != s.Pos {
			f.Waiting = append(f.Waiting, gpushare.CoursePod{Class: pods[pod].Class, Duration: pods[pod].Duration})
		}
	}
	for _, r := range s.Running {
		f.Running = append(f.Running, gpushare.CourseRun{Class: pods[r.Pod].Class, Node: r.Node, Devices: r.Devices, End: r.At - s.Now})
	}
	for _, p := range pods[s.Next:] {
		if s.Inventory.CouldFitSome(&s.Catalogue.Classes[p.Class]) {
			f.Pods = append(f.Pods, gpushare.CoursePod{Class: p.Class, At: p.At - s.Now, Duration: p.Duration})
		}
	}
	return f
}

// TestTimedGainsAreWhatPodsWait: in the episode's own future, pods wait as long as in an episode in which the pod goes
// to the node and WeightedFGD plays on: until a later decision, and until the end, of which the environment's rewards
// tell.
func TestTimedGainsAreWhatPodsWait(t *testing.T) {
	e := newEpisode(t, "k8s/GPUPodScheduling-v2", map[string]any{
		"num_nodes": 12, "dynamics": gpu.DynamicsTimed, "num_pods": 250, "load": 1.6, "reward": gpu.RewardWaiting,
	})
	// play goes to a node and lets WeightedFGD play for some decisions, or to the end. It returns the seconds waited
	// and the time.
	play := func(node int32, decisions int) (waited float64, now time.Duration) {
		last, err := e.vec.Step(t.Context(), []float32{float32(node)})
		for k := 1; err == nil; k++ {
			waited -= 1000 * float64(last.Reward[0])
			if last.Done(0) {
				return waited, now
			}
			now = e.task.RolloutState().Now
			if k == decisions {
				return waited, now
			}
			last, err = e.policy.Step(t.Context())
		}
		t.Fatal(err)
		return
	}
	tried, differ := 0, 0
	for seed := range uint64(6) {
		steps := 60 + 20*int(seed)
		e.begin(t, seed, steps)
		g, err := NewGains(e.task, 1, []float64{1}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Begin(); err != nil {
			t.Fatal(err)
		}
		nodes := slices.Clone(g.Nodes(4, 1, rand.New(rand.NewPCG(seed, 1))))
		for _, node := range nodes {
			for _, decisions := range []int{40, 0} {
				e.begin(t, seed, steps)
				s := e.task.RolloutState()
				from := s.Now
				course := ownCourse(&s, 24*time.Hour) // when no pod waits any longer
				want, now := play(node, decisions)
				if decisions > 0 {
					course.Until = now - from
				}
				e.begin(t, seed, steps)
				g.Nodes(1, 0, nil)
				got := g.g.PlayTimed(nil, e.task.RolloutState().Class, []int32{node}, []gpushare.Course{course})[0]
				if math.Abs(got-want) > 1e-3*max(1, want) {
					t.Errorf("seed %d, node %d, %d decisions: pods wait %v seconds, want %v", seed, node, decisions, got, want)
				}
				tried++
				if want > 0 {
					differ++
				}
			}
		}
	}
	if tried < 30 || differ < 20 {
		t.Errorf("%d plays, in %d of which pods wait, want more", tried, differ)
	}
}

// TestDrawnCourses keep what is known: the queue, what runs, and when pods come. They draw how long pods still run.
func TestDrawnCourses(t *testing.T) {
	e := newEpisode(t, "k8s/GPUPodScheduling-v2", map[string]any{"num_nodes": 12, "dynamics": gpu.DynamicsTimed, "num_pods": 250, "load": 1.6})
	e.begin(t, 5, 120)
	g, err := NewGains(e.task, 1, []float64{1}, 600*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Begin(); err != nil {
		t.Fatal(err)
	}
	s := e.task.RolloutState()
	own, rng := ownCourse(&s, 600*time.Second), rand.New(rand.NewPCG(1, 2))
	var f gpushare.Course
	longer, changed := 0, 0
	for range 50 {
		g.draw(&f, &s, rng)
		if len(f.Waiting) != len(own.Waiting) || len(f.Running) != len(own.Running) || f.Offered != own.Offered || f.Until != own.Until {
			t.Fatalf("%d wait and %d run, want %d and %d", len(f.Waiting), len(f.Running), len(own.Waiting), len(own.Running))
		}
		for i := range f.Waiting {
			if f.Waiting[i].Class != own.Waiting[i].Class {
				t.Fatal("the queue has other pods")
			}
		}
		for i := range f.Running {
			a, b := f.Running[i], own.Running[i]
			if a.Node != b.Node || a.Class != b.Class || a.Devices != b.Devices || a.End <= 0 {
				t.Fatalf("%+v runs, want %+v to end later than now", a, b)
			}
			if a.End > b.End {
				longer++
			}
			if a.End != b.End {
				changed++
			}
		}
		for _, p := range f.Pods {
			if p.At < 0 || p.At >= f.Until || !s.Inventory.CouldFitSome(&s.Catalogue.Classes[p.Class]) {
				t.Fatalf("%+v arrives", p)
			}
		}
	}
	impossible := 0
	for _, p := range s.Instance.Arrivals {
		if !s.Inventory.CouldFitSome(&s.Catalogue.Classes[p.Class]) {
			impossible++
		}
	}
	if impossible == 0 {
		t.Error("each pod fits some node of the empty cluster, so that the test does not show that others are left out")
	}
	if len(own.Waiting) == 0 || len(f.Pods) < 5 || changed < 50 || longer == 0 || longer == changed {
		t.Errorf("%d wait, %d arrive, %d ends differ and %d are later; want some of each", len(own.Waiting), len(f.Pods), changed, longer)
	}
}
