package balance

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

// A task that attends the cluster of an episode from outside sees what the episode's own task
// sees, and its baselines choose alike.
func TestLiveSeesWhatTheEpisodeSees(t *testing.T) {
	for name, opts := range map[string]map[string]any{
		"default":    nil,
		"mixed":      {"node_types": "mixed", "pods": "mixed", "memory_heavy": 0.25, "nodes": 7, "servers_per_rack": 3, "cpu_load": 0.9, "memory_load": 0.9, "pod_load": 0.9},
		"rack edges": {"edges": "rack", "nodes": 6, "servers_per_rack": 3},
	} {
		t.Run(name, func(t *testing.T) { attendEpisode(t, opts) })
	}
}

func attendEpisode(t *testing.T, opts map[string]any) {
	v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Options: opts, Autoreset: envs.Disabled})
	b := envstest.Reset(t, v, 5)
	task := v.Env(0).Task().(*Task)
	nodes := task.opts.Nodes
	live, err := v.Spec().Live(maps.Clone(opts), nodes)
	if err != nil {
		t.Fatal(err)
	}
	racks := slices.Clone(task.rackOf)
	obs, mask := make([]float32, len(b.Obs)), make([]bool, len(b.Mask))
	names := []string{"Greedy", "KubeDefault", "KubeRackSpread", "RoundRobin"}
	policies, livePolicies := policiesOf(t, v.Spec(), task, names), policiesOf(t, v.Spec(), live, names)
	action, liveAction := make([]float32, 1), make([]float32, 1)
	decisions := 0
	for ; !b.Terminated[0]; decisions++ {
		s := v.Env(0).State().Clone()
		d := envs.Decision{Pod: task.pod, Replicas: int(task.spec.Replicas), Racks: racks}
		for i := task.first; i < task.pod; i++ {
			if s.Pods[i].Phase == cluster.Running {
				d.Siblings = append(d.Siblings, i)
			}
		}
		if err := live.Attend(s, d); err != nil {
			t.Fatal(err)
		}
		live.Observe(s, obs, mask)
		if !slices.Equal(obs, b.Obs) || !slices.Equal(mask, b.Mask) {
			t.Fatalf("decision %d: attended\n%v %v\nwant, as in the episode,\n%v %v", decisions, obs, mask, b.Obs, b.Mask)
		}
		for k := range policies {
			if err := policies[k](t.Context(), v.Env(0).State(), false, action); err != nil {
				t.Fatal(err)
			}
			if err := livePolicies[k](t.Context(), s, false, liveAction); err != nil {
				t.Fatal(err)
			}
			if liveAction[0] != action[0] {
				t.Fatalf("decision %d: attended, %s chooses node %v, want %v as in the episode", decisions, names[k], liveAction[0], action[0])
			}
		}
		if err := policies[0](t.Context(), v.Env(0).State(), false, action); err != nil {
			t.Fatal(err)
		}
		b = envstest.Step(t, v, action...)
	}
	if decisions < 50 {
		t.Errorf("%d decisions, want an episode of 50 at least", decisions)
	}
}

// TestObserveFollowsNodes changes one number of a node at a time: an observation made of what is kept of the last one is
// equal to one made from nothing.
func TestObserveFollowsNodes(t *testing.T) {
	v := envstest.Open(t, "k8s/PodBalance-v0", 1, envs.VecOptions{Autoreset: envs.Disabled})
	b := envstest.Reset(t, v, 5)
	task := v.Env(0).Task().(*Task)
	attend := func(s *cluster.State) envs.Live {
		live, err := v.Spec().Live(nil, task.opts.Nodes)
		if err == nil {
			err = live.Attend(s, envs.Decision{Pod: task.pod, Replicas: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		return live
	}
	s := v.Env(0).State().Clone()
	kept, mask := attend(s), make([]bool, len(b.Mask))
	got, want, last := make([]float32, len(b.Obs)), make([]float32, len(b.Obs)), make([]float32, len(b.Obs))
	for i, change := range []func(n *cluster.Node){
		func(n *cluster.Node) { n.NumPods++ },
		func(n *cluster.Node) { n.Usage.MilliCPU += 100 },
		func(n *cluster.Node) { n.Usage.MemoryBytes += 1 << 28 },
		func(n *cluster.Node) { n.Requested.MilliCPU += 100 },
		func(n *cluster.Node) { n.Requested.MemoryBytes += 1 << 28 },
		func(n *cluster.Node) { n.NumPods-- },
		func(n *cluster.Node) { n.Requested = cluster.Resources{} },
	} {
		change(&s.Nodes[1])
		kept.Observe(s, got, mask)
		attend(s).Observe(s, want, mask)
		if !slices.Equal(got, want) {
			t.Errorf("change %d: observed\n%v, want\n%v", i, got, want)
		}
		if slices.Equal(want, last) {
			t.Errorf("change %d does not show", i)
		}
		copy(last, want)
	}
}

func policiesOf(t *testing.T, spec *envs.Spec, task envs.Task, names []string) (policies []envs.Policy) {
	t.Helper()
	for _, name := range names {
		policies = append(policies, envstest.PolicyOf(t, spec, task, name))
	}
	return policies
}

// A cordoned node is closed; racks may be of any size; what cannot be is an error.
func TestAttend(t *testing.T) {
	live, err := newLive(nil, 3)
	if err != nil {
		t.Fatal(err)
	}
	s := cluster.NewState()
	size := cluster.Resources{MilliCPU: 4000, MemoryBytes: 8 << 30}
	ops := []cluster.Op{{Kind: cluster.AddPod, Meta: s.Intern(cluster.Meta{Name: "p"}), Resources: size, GPUs: 1, MilliGPU: 500}}
	for _, name := range []string{"a", "b", "c"} {
		ops = append(ops, cluster.Op{Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: name}), Resources: size, MaxPods: 10, GPUs: 1, MilliGPU: 1000})
	}
	ops = append(ops, cluster.Op{Kind: cluster.Cordon, Node: 1})
	for i := range ops {
		if err := s.Apply(&ops[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := live.Attend(s, envs.Decision{Replicas: 1, Racks: []int32{0, 1, 2}}); err != nil {
		t.Fatal(err)
	}
	obs, mask := make([]float32, 3*nodeFeatures+podFeatures), make([]bool, 3)
	live.Observe(s, obs, mask)
	if !slices.Equal(mask, []bool{true, false, true}) {
		t.Errorf("mask %v, want node 1 closed", mask)
	}
	if got := live.Devices(2); got != 1 {
		t.Errorf("devices %#b, want the first", got)
	}
	for want, d := range map[string]envs.Decision{
		"racks of 2": {Racks: []int32{0, 1}},
		"rack 3":     {Racks: []int32{0, 1, 3}},
		"pending":    {Pod: 1},
	} {
		if err := live.Attend(s, d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Attend(%+v) = %v, want an error with %q", d, err, want)
		}
	}
}
