package balance

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/lifetimes"
)

// handTask starts an episode of the pods of a file of deployments, whose lifetimes are set to whole seconds, on two nodes
// of 64 CPU and 256 Gi. The mean lifetime counts as 100 s, and the hints are exact.
func handTask(t *testing.T, rows string, seconds ...int) (*Task, *sim.Cluster) {
	t.Helper()
	file := envstest.TempFile(t, "d.csv", "name,pod_count,cpu_request,mem_request\n"+rows)
	o := DefaultOptions()
	if err := envs.DecodeOptions(map[string]any{"nodes": 2, "servers_per_rack": 1, "deployments": file, "reset_pods": []any{len(seconds)},
		"lifetime": 100.0, "steps": 10, "hints": "lifetime", "hint_error": 1.0}, &o); err != nil {
		t.Fatal(err)
	}
	src, err := newSource(o)
	if err != nil {
		t.Fatal(err)
	}
	task, c := newTask(src), sim.New()
	task.in.Draw(1)
	for i, s := range seconds {
		p, ok := task.in.Pod(i)
		if !ok {
			t.Fatalf("no pod %d", i)
		}
		p.Lifetime = time.Duration(s) * time.Second
		p.Hint = p.Lifetime
	}
	if err := task.begin(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	return task, c
}

// bind binds pods to the nodes in turn.
func bind(t *testing.T, task *Task, c *sim.Cluster, nodes ...float32) {
	t.Helper()
	for _, node := range nodes {
		if _, err := task.Apply(context.Background(), c, []float32{node}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForecastsByHand has the features that hints add to the second and to the third of three pods: two of web,
// that run for 30 and 60 s, and one of db.
func TestForecastsByHand(t *testing.T) {
	task, c := handTask(t, "web,2,16,64Gi\ndb,1,32,32Gi\n", 30, 60, 1000)
	look := func(want []float32) {
		t.Helper()
		obs, mask := make([]float32, 2*29+17), make([]bool, 2)
		task.Observe(c.State(), obs, mask)
		got := slices.Concat(obs[16:29], obs[29+16:58], obs[58+7:])
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("node 0, node 1, pod (-want +got):\n%s", diff)
		}
	}
	bind(t, task, c, 0)
	// web 0 is on node 0 and gone after 50 s. On node 0 web 1 makes the shares 50 and 0 % now and after 10 and 25 s:
	// sd 25; on node 1 25 and 25: 0. After 50 s there is web 1 alone, so that both cost 12.5, and after 100 nothing.
	look([]float32{.25, .25, .25, .25, 0, 0, 0, 0, 1, 1, 1, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		1, 1, 1, 0, 1, 0, 0, 0, 12.5 / 20, 0})
	bind(t, task, c, 0)
	// db comes 40 s later, when web 0 is gone and web 1 has 20 s left. On node 0 it makes CPU 75 and 0 % and memory
	// 37.5 and 0: sd 37.5 and 18.75, mean 28.125. On node 1 CPU 25 and 50 and memory 25 and 12.5: 12.5 and 6.25, mean
	// 9.375. From 25 s on it is alone: CPU 50 and memory 12.5
	// on either node, sd 25 and 6.25, mean 15.625. The excess of node 0, 18.75 %, is the largest.
	look([]float32{.25, .25, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		1, 1, 1, 1, 1, 9.375 / 20, 9.375 / 20, 15.625 / 20, 15.625 / 20, 15.625 / 20})
	bind(t, task, c, 1)
	look(make([]float32, 13+13+10)) // the end
}

// TestGreedyLifetimeByHand: of four pods of a quarter of a node each, two that run for 30 s are on node 0, and one that
// runs for 1,000 s on node 1. The fourth runs for 1,000 s as well. On node 0 it makes shares of 75 and 25 % until 30 s, sd 25, and
// of 25 and 25 after, sd 0. On node 1 it makes 50 and 50 until then, sd 0, and 0 and 50 after, sd 25. So it belongs onto node 0
// where the horizons of 50 and 100 s weigh more than those of 0, 10 and 25 s.
func TestGreedyLifetimeByHand(t *testing.T) {
	task, c := handTask(t, "web,4,16,64Gi\n", 30, 30, 1000, 1000)
	bind(t, task, c, 0, 0, 1)
	for _, tc := range []struct {
		name string
		w    lifetimes.Weights
		want int
	}{
		{"as Greedy", lifetimes.Weights{}, 1},
		{"later horizons outweigh", lifetimes.Weights{After50: 0.6, After100: 0.6}, 0},
		{"the last alone", lifetimes.Weights{After100: 1.1}, 0},
		{"the fourth alone", lifetimes.Weights{After50: 1.1}, 0},
		{"too little", lifetimes.Weights{After50: 0.4, After100: 0.4}, 1},
		{"outweighed by the second", lifetimes.Weights{After10: 0.3, After50: 0.6, After100: 0.6}, 1},
		{"outweighed by the third", lifetimes.Weights{After25: 0.3, After50: 0.6, After100: 0.6}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := task.forecast.Cheapest(tc.w, []bool{true, true}); got != tc.want {
				t.Errorf("%+v chooses node %d, want %d", tc.w, got, tc.want)
			}
		})
	}
	if got := task.forecast.Cheapest(lifetimes.Weights{}, []bool{true, false}); got != 0 {
		t.Errorf("node %d, want 0, which alone is permitted", got)
	}
}

func mixedWithHints(factor float64) map[string]any {
	return map[string]any{"node_types": "mixed", "pods": "mixed", "memory_heavy": 0.25, "lifetime": 600.0, "steps": 300, "hints": "lifetime", "hint_error": factor}
}

// TestHintsChangeNoPods: the episode of a seed is the same with hints, and its observations begin alike.
func TestHintsChangeNoPods(t *testing.T) {
	with := mixedWithHints(2)
	without := mixedWithHints(2)
	delete(without, "hints")
	v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Options: with, Autoreset: envs.Disabled})
	w := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Options: without, Autoreset: envs.Disabled})
	a, b := envstest.Reset(t, v, 7), envstest.Reset(t, w, 7)
	for i := 0; !a.Done(0); i++ {
		for node := range 10 {
			if !slices.Equal(a.Obs[node*29:][:16], b.Obs[node*16:][:16]) {
				t.Fatalf("step %d, node %d: %v with hints, %v without", i, node, a.Obs[node*29:][:16], b.Obs[node*16:][:16])
			}
		}
		if !slices.Equal(a.Obs[290:297], b.Obs[160:167]) || a.Reward[0] != b.Reward[0] {
			t.Fatalf("step %d: pod %v and reward %v with hints, %v and %v without", i, a.Obs[290:297], a.Reward[0], b.Obs[160:167], b.Reward[0])
		}
		node := float32(slices.Index(a.Mask, true))
		a, b = envstest.Step(t, v, node), envstest.Step(t, w, node)
	}
	if !b.Done(0) {
		t.Error("the episode with hints is shorter")
	}
}

// TestHintsAreLogUniform: the logarithm of hint over lifetime has the mean 0 and the standard deviation
// log 3/√3 = 0.634 of a uniform one from −log 3 to log 3, whatever the lifetime; and another seed draws others.
func TestHintsAreLogUniform(t *testing.T) {
	o := DefaultOptions()
	if err := envs.DecodeOptions(mixedWithHints(3), &o); err != nil {
		t.Fatal(err)
	}
	src, err := newSource(o)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	draw := func(seed uint64) (logs []float64) {
		in := newTask(src).in
		in.Draw(seed)
		for i := range n {
			p, _ := in.Pod(i)
			logs = append(logs, math.Log(float64(p.Hint)/float64(p.Lifetime)))
		}
		return logs
	}
	logs := draw(1)
	sum, squares := 0.0, 0.0
	for _, x := range logs {
		sum += x
		squares += x * x
	}
	// Standard errors: 0.634/√n = 0.0045 of the mean; of the standard deviation less.
	if got := math.Sqrt(squares/n - sum/n*sum/n); math.Abs(sum/n) > 0.02 || math.Abs(got-0.634) > 0.02 {
		t.Errorf("logarithms have mean %v and standard deviation %v, want 0 and 0.634", sum/n, got)
	}
	if low, high := slices.Min(logs), slices.Max(logs); low < -math.Log(3)-1e-6 || high > math.Log(3)+1e-6 {
		t.Errorf("logarithms from %v to %v, want within ±%v", low, high, math.Log(3))
	}
	if !slices.Equal(logs, draw(1)) || slices.Equal(logs, draw(2)) {
		t.Error("hints are not of the seed")
	}
}

// TestHintsOfRecording has the pods of HandTrace. When p1 comes, p0 has run 15 of its 30 s on b, where it takes a
// quarter of the CPU and an eighth of the memory. Pods whose ends are recorded run 20 s on average, so that the horizons are
// 2, 5, 10 and 20 s. p1 itself runs 10 s, and may run on a alone.
func TestHintsOfRecording(t *testing.T) {
	path := envstest.TempFile(t, "hand.jsonl", HandTrace)
	v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Autoreset: envs.Disabled,
		Options: map[string]any{"trace": path, "hints": "lifetime", "hint_error": 1.0}})
	b := envstest.Reset(t, v, 0)
	want := []float32{.25, .125, .25, .125, .25, .125, 0, 0}
	if got := b.Obs[29+16:][:8]; !slices.Equal(got, want) {
		t.Errorf("b is expected to have %v, want %v", got, want)
	}
	if got, want := b.Obs[58+7:][:4], []float32{1, 1, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("p1 runs with %v, want %v", got, want)
	}
}

// TestLiveHasNoHints: the lifetimes of a running cluster's pods are unknown.
func TestLiveHasNoHints(t *testing.T) {
	if _, err := newLive(mixedWithHints(2), 3); err == nil {
		t.Error("newLive with hints: no error")
	}
}

// TestCostsByHand has the features that costs add, in the episode that the README works by hand: nodes of 64 CPU and
// 256 Gi, two pods of 16 CPU and 64 Gi and one of 32 CPU and 32 Gi. The second pod makes the shares 50 and 0 % on
// node 0, sd 25 of CPU and memory, and equal ones on node 1. The third makes CPU 75 and 25 % on either node, and
// memory 37.5 and 25: the excess is 0, the cost 15.625.
func TestCostsByHand(t *testing.T) {
	file := envstest.TempFile(t, "d.csv", "name,pod_count,cpu_request,mem_request\nweb,2,16,64Gi\ndb,1,32,32Gi\n")
	v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Autoreset: envs.Disabled,
		Options: map[string]any{"nodes": 2, "deployments": file, "reset_pods": []any{3}, "costs": true}})
	b := envstest.Reset(t, v, 1)
	look := func(want ...float32) {
		t.Helper()
		got := []float32{b.Obs[16], b.Obs[17+16], b.Obs[34+7], b.Obs[34+8]}
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("node 0, node 1, largest, lowest (-want +got):\n%s", diff)
		}
	}
	look(0, 0, 0, 12.5/20) // CPU and memory 25 and 0 on either node
	b = envstest.Step(t, v, 0)
	look(1, 0, 1, 0) // 25 is above 10 %
	b = envstest.Step(t, v, 1)
	look(0, 0, 0, 15.625/20)
	b = envstest.Step(t, v, 0)
	look(0, 0, 0, 0) // the end
}

// TestGreedyByCosts: at every decision the least excess is that of the node that Greedy takes, and a node that the pod
// does not fit on is none of them.
func TestGreedyByCosts(t *testing.T) {
	const nodes, width = 6, nodeFeatures + 1
	v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Autoreset: envs.Disabled, Options: map[string]any{
		"nodes": nodes, "node_types": "mixed", "pods": "mixed", "memory_heavy": 0.5, "lifetime": 900.0, "steps": 300, "costs": true}})
	policy := envstest.Policy(t, v, "Greedy")
	action, full := make([]float32, 1), 0
	for b := envstest.Reset(t, v, 3); !b.Done(0); b = envstest.Step(t, v, action[0]) {
		if err := policy(t.Context(), v.Env(0).State(), false, action); err != nil {
			t.Fatal(err)
		}
		if got := b.Obs[int(action[0])*width+width-1]; got > 1e-6 {
			t.Fatalf("node %v of Greedy has an excess of %v", action[0], got)
		}
		highest := float32(0)
		for i, ok := range b.Mask {
			if ok {
				highest = max(highest, b.Obs[i*width+width-1])
			} else {
				full++
			}
		}
		if highest != 0 && math.Abs(float64(highest)-1) > 1e-6 {
			t.Fatalf("the largest excess of permitted nodes is %v, want 1", highest)
		}
	}
	if full == 0 {
		t.Error("every pod fits every node: the mask is not tested")
	}
}
