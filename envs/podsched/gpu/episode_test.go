package gpu

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/envs/podsched/gpushare"
)

// handOptions are those of the episode of README.md: node a with 2 GPUs and 2 cores, node b with
// 1 GPU and 8 cores; six pods that each want 1 core and half a GPU.
func handOptions(t *testing.T, more map[string]any) map[string]any {
	opts := map[string]any{
		"nodes":          write(t, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,2000,8192,2,G2\nb,8000,8192,1,T4\n"),
		"pods":           []string{write(t, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,1,500\np1,1000,1024,1,500\n")},
		"reference_seed": 1, "load_end": 1.0,
	}
	for k, v := range more {
		opts[k] = v
	}
	return opts
}

// nodeNamed returns the action that chooses a node.
func nodeNamed(t *testing.T, v *envs.Vec, name string) float32 {
	t.Helper()
	s := v.Env(0).State()
	for i := range s.Nodes {
		if s.NodeName(int32(i)) == name {
			return float32(i)
		}
	}
	t.Fatalf("no node %s", name)
	return 0
}

// TestHandWorkedEpisode plays the episode that README.md works by hand.
func TestHandWorkedEpisode(t *testing.T) {
	for _, tc := range []struct {
		reward string
		want   [4]float64
	}{
		{"allocation", [4]float64{50. / 3, 50. / 3, 50. / 3, 50. / 3}},
		{"fragmentation", [4]float64{0, -100. / 3, 0, 0}},
	} {
		t.Run(tc.reward, func(t *testing.T) {
			v, task := open(t, handOptions(t, map[string]any{"reward": tc.reward}))
			b := reset(t, v, 0)
			a, c := nodeNamed(t, v, "a"), nodeNamed(t, v, "b")
			row := b.Obs[int(a)*task.nodeFeatures():][:task.nodeFeatures()]
			want := map[int]float32{
				nodeCPU: 1, nodeMemory: 1, nodeGPU: 1, nodeCPUSize: 2. / 128, nodeMemorySize: 8. / 1024, nodeGPUSize: 0.25, nodePods: 0, nodeFrag: 0,
				nodeDevices: 1, nodeDevices + 1: 1, nodeDevices + 2: 0, nodeFits: 1, nodeCPUTaken: 0.5, nodeGPUTaken: 0.25, nodeLeft: 0.5,
				nodePressure: 0, nodeSupply: 2. / 3, nodeGain: 0.5, nodeFGD: 0.5, nodeBestFit: 0.90, // 100*(1-(1000/128000+1500/8000)/2) = 90.2
			}
			for k, x := range want {
				if math.Abs(float64(row[k]-x)) > 1e-6 {
					t.Errorf("column %d of node a is %v, want %v", k, row[k], x)
				}
			}
			for k, node := range []float32{a, a, c, c} {
				if k == 2 && (b.Mask[int(a)] || !b.Mask[int(c)]) {
					t.Errorf("mask %v, want only node b: a has no CPU left", b.Mask)
				}
				b = step(t, v, node)
				if math.Abs(b.Reward[0]-tc.want[k]) > 1e-9 {
					t.Errorf("step %d: reward %v, want %v", k, b.Reward[0], tc.want[k])
				}
			}
			if !b.Terminated[0] {
				t.Fatal("continues, want an end: the last two pods fit nowhere")
			}
			got := b.Info[:7]
			if d := cmp.Diff([]float64{200. / 3, 100, 100. / 3, 40, 25, 4, 2}, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); d != "" {
				t.Errorf("info (-want +got):\n%s", d)
			}
		})
	}
}

// TestMaskedOut: a pod bound to a node where it does not fit is given up, and flagged.
func TestMaskedOut(t *testing.T) {
	v, _ := open(t, handOptions(t, nil))
	reset(t, v, 0)
	a := nodeNamed(t, v, "a")
	step(t, v, a)
	step(t, v, a)
	b := step(t, v, a)
	if !b.Invalid[0] || b.Reward[0] != 0 || b.Info[6] != 1 {
		t.Errorf("invalid %v, reward %v, failed %v; want true, 0, 1", b.Invalid[0], b.Reward[0], b.Info[6])
	}
	if p := v.Env(0).State().Pods[2]; p.Phase != cluster.Deleted {
		t.Errorf("the pod is %v, want Deleted", p.Phase)
	}
}

// TestVersion1 plays the instances of version 0 for equal seeds. Only what is known of the pods to come
// differs.
func TestVersion1(t *testing.T) {
	_, zero := open(t, nil)
	v := envstest.Open(t, "k8s/GPUPodScheduling-v1", 1, envs.VecOptions{})
	one := v.Env(0).Task().(*Task)
	for seed := range uint64(3) {
		zero.src.Draw(t.Context(), seed, &zero.in)
		one.src.Draw(t.Context(), seed, &one.in)
		if d := cmp.Diff(zero.in.Nodes, one.in.Nodes) + cmp.Diff(zero.in.Arrivals, one.in.Arrivals); d != "" {
			t.Errorf("seed %d: instances differ (-v0 +v1):\n%s", seed, d)
		}
		if zero.in.Outlook.Kinds == one.in.Outlook.Kinds || math.Abs(one.in.Outlook.Kinds[0]-1088./8152) > 1e-4 {
			t.Errorf("seed %d: outlooks %v and %v, want one of the pods themselves and one of the law, of which 1,088 in 8,152 want no GPU",
				seed, zero.in.Outlook.Kinds, one.in.Outlook.Kinds)
		}
	}
}

// TestDefer: pod 0 is put off once, and offered again after one more arrival; then it may not be.
func TestDefer(t *testing.T) {
	v, task := open(t, handOptions(t, map[string]any{"defer": true, "max_defers": 1, "defer_pods": 1}))
	b := reset(t, v, 0)
	const putOff = 2
	if !b.Mask[putOff] {
		t.Fatal("the first pod cannot be put off")
	}
	step(t, v, putOff)
	if task.current != 1 {
		t.Fatalf("pod %d is next, want 1", task.current)
	}
	b = step(t, v, nodeNamed(t, v, "a"))
	if task.current != 0 || b.Mask[putOff] {
		t.Errorf("pod %d is next and can be put off: %v; want 0 and false", task.current, b.Mask[putOff])
	}
}

// TestTimed: two pods want the one GPU for 100 s each. The second waits until the first ends.
func TestTimed(t *testing.T) {
	v, _ := open(t, map[string]any{
		"nodes":    write(t, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,2000,8192,1,G2\n"),
		"pods":     []string{write(t, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np0,1000,1024,1,1000,5,110,10\n")},
		"dynamics": "timed", "num_nodes": 1, "num_pods": 2, "load": 10.0, "reward": "waiting",
	})
	reset(t, v, 3)
	b := step(t, v, 0)
	s := v.Env(0).State()
	first, second := &s.Pods[0], &s.Pods[1]
	if first.Duration.Seconds() != 100 || second.Created <= first.Created || second.Created.Seconds() > 20 {
		t.Fatalf("pods of %v at %v and %v, want 100s within the first 20 s", first.Duration, first.Created, second.Created)
	}
	if s.Now != first.Created+first.Duration || first.Phase != cluster.Succeeded {
		t.Errorf("the second decision is at %v with the first pod %v, want its end", s.Now, first.Phase)
	}
	wait := (s.Now - second.Created).Seconds()
	if got := b.Reward[0]; math.Abs(got+wait/1000) > 1e-9 {
		t.Errorf("reward %v, want %v", got, -wait/1000)
	}
	b = step(t, v, 0)
	for column, want := range map[string]float64{
		"waiting_time_s": wait / 2, "completion_time_s": wait/2 + 100, "utilisation_pct": 100 * 100 / s.Now.Seconds(), "failed": 0,
	} {
		if got := b.Info[v.Spec().Column(column)]; math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", column, got, want)
		}
	}
	if !b.Terminated[0] {
		t.Error("continues after the last pod")
	}
}

// TestTimedMaskedOut: a pod bound to a node where it does not fit continues to wait, and is offered
// again even where nothing else would happen.
func TestTimedMaskedOut(t *testing.T) {
	v, task := open(t, map[string]any{
		"nodes":    write(t, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,2000,8192,1,G2\nb,500,8192,1,G2\n"),
		"pods":     []string{write(t, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\np0,1000,1024,1,1000,0,100\n")},
		"dynamics": "timed", "num_nodes": 2, "num_pods": 1, "load": 10.0,
	})
	reset(t, v, 3)
	b := step(t, v, nodeNamed(t, v, "b"))
	if !b.Invalid[0] || b.Terminated[0] || task.current != 0 {
		t.Fatalf("invalid %v, terminated %v, pod %d; want true, false, 0", b.Invalid[0], b.Terminated[0], task.current)
	}
	if b = step(t, v, nodeNamed(t, v, "a")); !b.Terminated[0] || b.Info[v.Spec().Column("placed")] != 1 {
		t.Errorf("terminated %v, placed %v; want true, 1", b.Terminated[0], b.Info[v.Spec().Column("placed")])
	}
}

// TestLoadStart: FGD has placed pods until at least half of the GPUs were requested.
func TestLoadStart(t *testing.T) {
	v, task := open(t, map[string]any{"num_nodes": 16, "load_start": 0.5})
	b := reset(t, v, 1)
	if arrived := b.Info[1]; arrived < 50 || arrived > 60 || task.placedPods == 0 {
		t.Errorf("the episode begins at %.1f %% arrived with %d pods placed, want little over 50", arrived, task.placedPods)
	}
	checkWorld(t, task, v.Env(0).State())
}

// TestGoldenEpisode plays FGD on eight nodes and compares with testdata/episode.golden.
func TestGoldenEpisode(t *testing.T) {
	v, task := open(t, map[string]any{"num_nodes": 8, "load_end": 0.8})
	reset(t, v, 1)
	policy := envstest.Policy(t, v, "FGD")
	var out strings.Builder
	action := []float32{0}
	for k, ended := 0, false; !ended; k++ {
		pod := task.current
		if err := policy(t.Context(), v.Env(0).State(), k == 0, action); err != nil {
			t.Fatal(err)
		}
		b := step(t, v, action[0])
		p := &v.Env(0).State().Pods[pod]
		fmt.Fprintf(&out, "%d pod %d (%s) on %d devices %b reward %.4f alloc %.3f frag %.3f\n",
			k, pod, task.class(pod).Describe(), p.Node, p.Devices, b.Reward[0], b.Info[0], b.Info[2])
		ended = b.Terminated[0]
	}
	envstest.Golden(t, "episode", out.String())
}

func TestOptionErrors(t *testing.T) {
	bad := write(t, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,2000,8192,9,G2\n")
	cpu := write(t, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1,0,0\n")
	for _, tc := range []struct {
		opts map[string]any
		want string
	}{
		{map[string]any{"num_nodes": 1214}, `num_nodes is 1214, and there are 1213`},
		{map[string]any{"num_nodes": -1}, `num_nodes is `},
		{map[string]any{"reward": "alloc"}, `reward is "alloc", want one of ["allocation" "fragmentation"`},
		{map[string]any{"split": "test"}, `split is `},
		{map[string]any{"dynamics": "free"}, `dynamics is `},
		{map[string]any{"devices": "last"}, `devices is `},
		{map[string]any{"prefill": "Best"}, `prefill is `},
		{map[string]any{"load_start": 2.0}, `load_start is 2, want 0 to 1.3`},
		{map[string]any{"load_end": math.NaN()}, `load_end is `},
		{map[string]any{"constrained_low": 0.5}, `constrained_low is `},
		{map[string]any{"sharing": 0.5, "multi_gpu": 0.6}, `multi_gpu is `},
		{map[string]any{"reference_seed": 42}, `reference_seed is of one pod list`},
		{map[string]any{"reference_seed": 42, "pods": []string{cpu}, "dynamics": "timed"}, `reference_seed needs`},
		{map[string]any{"max_defers": 0}, `max_defers is `},
		{map[string]any{"load_start": 0.5, "dynamics": "timed"}, `load_start needs`},
	} {
		envstest.CheckInvalid(t, "k8s/GPUPodScheduling-v0", tc.opts, tc.want)
	}
	for _, tc := range []struct {
		opts map[string]any
		want string
	}{
		{map[string]any{"nodes": bad, "num_nodes": 0}, "node a has 9 GPUs, want at most 8"},
		{map[string]any{"pods": []string{cpu}}, "no pod requests a GPU"},
		{map[string]any{"nodes": "nowhere.csv"}, "nowhere.csv"},
	} {
		if _, err := envs.Make("k8s/GPUPodScheduling-v0", 1, envs.VecOptions{Options: tc.opts}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want an error with %q", tc.opts, err, tc.want)
		}
	}
}

// TestOptimum searches all placements of small instances, each action by each, and compares the
// best return with what heuristics reach: none is better than the optimum, and in the instance of
// README.md, whose optimum is four pods of six (100*4*500/3000), FGD reaches it.
func TestOptimum(t *testing.T) {
	for _, tc := range []struct {
		name  string
		opts  map[string]any
		want  float64 // 0: not worked by hand
		equal string  // baseline that reaches the optimum
	}{
		{"of README.md", handOptions(t, nil), 200. / 3, "FGD"},
		{"a scarce model", map[string]any{
			"nodes":          write(t, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,1,T4\nb,8000,8192,1,G2\n"),
			"pods":           []string{write(t, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1000,1024,1,1000,\nq,1000,1024,1,1000,T4\n")},
			"reference_seed": 7, "load_end": 1.0,
		}, 100, "ScarcityFGD"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, _ := open(t, tc.opts)
			best := search(t, v, nil)
			if math.Abs(best-tc.want) > 1e-9 {
				t.Errorf("the best return is %v, want %v", best, tc.want)
			}
			for _, p := range gpushare.Policies {
				got := envstest.Play(t, v, envstest.Policy(t, v, p.Name), 0).EpisodeReturn[0]
				if got > best+1e-9 || p.Name == tc.equal && got < best-1e-9 {
					t.Errorf("%s returns %v, the optimum is %v", p.Name, got, best)
				}
			}
		})
	}
}

// search returns the best return of all episodes that begin with the given actions.
func search(t *testing.T, v *envs.Vec, actions []float32) float64 {
	t.Helper()
	b := reset(t, v, 0)
	for _, a := range actions {
		b = step(t, v, a)
	}
	if b.Terminated[0] {
		return b.EpisodeReturn[0]
	}
	best := math.Inf(-1)
	for a, ok := range append([]bool(nil), b.Mask...) {
		if ok {
			best = max(best, search(t, v, append(actions[:len(actions):len(actions)], float32(a))))
		}
	}
	return best
}

// TestExplain explains a decision of the hand-worked episode when node a has no CPU left.
func TestExplain(t *testing.T) {
	v, task := open(t, handOptions(t, nil))
	reset(t, v, 0)
	a := nodeNamed(t, v, "a")
	step(t, v, a)
	step(t, v, a)
	columns, rows := task.Explain(v.Env(0).State())
	at := func(node, column string) string {
		for _, r := range rows {
			if r[0] == node {
				for k, c := range columns {
					if c == column {
						return r[k]
					}
				}
			}
		}
		t.Fatalf("no row %s or column %s in %v %v", node, column, columns, rows)
		return ""
	}
	for _, tc := range []struct{ node, column, want string }{
		{"a", "why not", "insufficient cpu"}, {"a", "FGD", ""}, {"b", "why not", ""}, {"b", "devices", "0"}, {"b", "model", "T4"},
		{"b", "FGD", "50"},            // it stays without fragment
		{"b", "BestFit", "94"},        // 100*(1-(7000/128000+500/8000)/2) = 94.1
		{"b", "GpuPacking", "32"},     // the node is idle: max(33-1, 1)
		{"b", "KubeResources", "187"}, // LeastAllocated 87 (87.5 of CPU and of memory, truncated), BalancedAllocation 100
		{"b", "GpuClustering", "46"},  // 25*7000/8000 = 21, and 25 for a node without pods
		{"b", "MostAllocated", "12"},  // 12.5 of CPU and of memory, truncated
		{"b", "ScarcityFGD", "75"},    // half of FGD's and 50: not scarce
		{"b", "WeightedFGD", "5282"},  // 100*(50 + 0.03*94), no pressure
	} {
		if got := at(tc.node, tc.column); got != tc.want {
			t.Errorf("%s of node %s is %q, want %q", tc.column, tc.node, got, tc.want)
		}
	}
}

// TestOtherTraces plays files of Philly's and Helios' layouts: ten and twelve GPUs, with the cores for each that the options say.
func TestOtherTraces(t *testing.T) {
	data := filepath.Join("..", "gpushare", "testdata")
	for _, tc := range []struct {
		nodes, pods    string
		gpus, standard int64 // of the nodes; thousandths of a core for each
	}{
		{"philly_cluster_machine_list.csv", "philly_cluster_job_log.json", 10, 3000},
		{"helios_cluster_gpu_number.csv", "helios_cluster_log.csv", 12, 6000},
	} {
		opts := map[string]any{"nodes": filepath.Join(data, tc.nodes), "pods": []string{filepath.Join(data, tc.pods)}, "num_nodes": 0}
		for cores, milli := range map[float64]int64{0: tc.standard, 1.5: 1500} {
			opts["cpu_per_gpu"] = cores
			v, task := open(t, opts)
			reset(t, v, 3)
			if got := task.inventory.Size; got.MilliGPU != tc.gpus*gpushare.WholeGPU || got.MilliCPU != tc.gpus*milli {
				t.Errorf("%s with cpu_per_gpu %v: %d thousandths of a GPU and %d of a core, want %d and %d", tc.nodes, cores, got.MilliGPU, got.MilliCPU, tc.gpus*1000, tc.gpus*milli)
			}
			var requested int64
			for _, a := range task.in.Arrivals {
				s := task.src.Catalogue.Classes[a.Class].Shape
				requested += s.TotalMilliGPU()
				if want := int64(s.GPUs) * milli; tc.standard == 3000 && s.MilliCPU != want {
					t.Errorf("a pod of Philly requests %d milli-CPU for %d GPUs, want %d", s.MilliCPU, s.GPUs, want)
				}
			}
			if requested == 0 || requested > tc.gpus*1300 { // load_end is 1.3
				t.Errorf("%s: pods request %d thousandths of a GPU, want at most %d", tc.pods, requested, tc.gpus*1300)
			}
		}
	}
}

// TestSpotTrace plays files of the layout of Alibaba's trace of 2026, whose jobs request GPU models: a pod that requests
// the A10 fits no node but the only one with an A10.
func TestSpotTrace(t *testing.T) {
	data := filepath.Join("..", "gpushare", "testdata")
	v, task := open(t, map[string]any{
		"nodes": filepath.Join(data, "spot_node_info_df.csv"), "pods": []string{filepath.Join(data, "spot_job_info_df.csv")}, "num_nodes": 0,
	})
	bound := 0
	for seed := range uint64(20) {
		b := reset(t, v, seed)
		fits := 0
		for i, ok := range b.Mask {
			if n := task.inventory.Nodes[i]; ok && task.class(task.current).Shape.Models == "A10" {
				if fits++; n.Devices != 1 {
					t.Errorf("seed %d: a pod that requests an A10 may run on the node with %d GPUs of another model", seed, n.Devices)
				}
			}
		}
		bound += fits
	}
	if bound == 0 {
		t.Error("no first pod of 20 episodes requests an A10")
	}
}

// TestNoDecision: the only pod wants two GPUs of the node's one, so an episode begins without a decision, and ends with its
// first step, whatever the action.
func TestNoDecision(t *testing.T) {
	opts := map[string]any{
		"nodes": write(t, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nnode-a,4000,8192,1,T4\n"), "num_nodes": 0,
		"pods":     []any{write(t, "pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\np,1000,1024,2,1000,0,60\n")},
		"load_end": 3.0, "num_pods": 1,
	}
	for _, dynamics := range []string{"time_free", "timed"} {
		opts["dynamics"] = dynamics
		v, _ := open(t, opts)
		reset(t, v, 0)
		b := step(t, v, 0)
		if !b.Terminated[0] || b.Reward[0] != 0 || envstest.Column(t, v, b, "failed") != 1 {
			t.Errorf("%s: terminated %v with reward %v and %v failed, want an end with one failed", dynamics, b.Terminated[0], b.Reward[0], envstest.Column(t, v, b, "failed"))
		}
		if b := envstest.Play(t, v, envstest.Policy(t, v, "FGD"), 1); b.EpisodeLength[0] != 1 {
			t.Errorf("%s: FGD takes %d steps, want 1", dynamics, b.EpisodeLength[0])
		}
	}
}
