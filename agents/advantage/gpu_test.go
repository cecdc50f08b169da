package advantage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/podsched/gpu"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// gainsOf returns the gains of one future.
func gainsOf(task envs.Task, loads []float64, horizon time.Duration) (*gpuGains, error) {
	g, err := (&GPU{Loads: loads, Horizon: horizon}).Gains(task, 1)
	if err != nil {
		return nil, err
	}
	return g.(*gpuGains), nil
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
		g, err := gainsOf(e.task, []float64{1.3}, 0)
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
		g, err := gainsOf(e.task, []float64{1}, time.Second)
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
	g, err := gainsOf(e.task, []float64{1}, 600*time.Second)
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
