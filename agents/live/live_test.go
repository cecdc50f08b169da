package live_test

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/algorithms"
	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

const balanceEnv = "k8s/PodBalance-v0"

func pretrained(env, algo string) string {
	return filepath.Join("..", "..", "models", "pretrained", env, algo+".safetensors")
}

func mustOpen(t *testing.T, args live.Args, nodes int) *live.Policy {
	t.Helper()
	p, err := live.Open(args, nodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// clusterOf returns nodes of the given free milliCPU out of 4000, each with two devices, and a
// pending pod, the last of State.Pods.
func clusterOf(t *testing.T, free []int64, pod cluster.Op) *cluster.State {
	t.Helper()
	const memory = 8 << 30
	s := cluster.NewState()
	apply := func(op cluster.Op) {
		t.Helper()
		if err := s.Apply(&op); err != nil {
			t.Fatal(err)
		}
	}
	meta := s.Intern(cluster.Meta{Name: "pod"})
	for i, f := range free {
		apply(cluster.Op{Kind: cluster.AddNode, Meta: s.Intern(cluster.Meta{Name: string(rune('a' + i)), GPUModel: "T4"}),
			Resources: cluster.Resources{MilliCPU: 4000, MemoryBytes: memory}, MaxPods: 10, GPUs: 2, MilliGPU: cluster.MaxMilliGPU})
		if used := 4000 - f; used > 0 {
			apply(cluster.Op{Kind: cluster.AddPod, Meta: meta, Resources: cluster.Resources{MilliCPU: used, MemoryBytes: used * memory / 4000}})
			apply(cluster.Op{Kind: cluster.Bind, Pod: int32(len(s.Pods) - 1), Node: int32(i)})
		}
	}
	pod.Kind, pod.Meta = cluster.AddPod, meta
	apply(pod)
	return s
}

func last(s *cluster.State) envs.Decision {
	return envs.Decision{Pod: int32(len(s.Pods) - 1), Replicas: 1}
}

var small = cluster.Op{Resources: cluster.Resources{MilliCPU: 1000, MemoryBytes: 2 << 30}}

// TestModelPlaysTheEpisode: a model that looks at an episode's cluster from outside chooses what
// the network of its file chooses in the episode.
func TestModelPlaysTheEpisode(t *testing.T) {
	for _, algo := range []string{"ppo", "dqn"} {
		t.Run(algo, func(t *testing.T) {
			f, err := models.ReadFile(pretrained("k8s-PodBalance-v0", algo))
			if err != nil {
				t.Fatal(err)
			}
			net, err := fused.New(f.Meta.Spec, nil) // of as many nodes as in its training
			if err != nil {
				t.Fatal(err)
			}
			defer net.Close()
			if err := f.Params(net.Params()); err != nil {
				t.Fatal(err)
			}
			read, err := algorithms.PolicyReader(f.Meta.Algo)
			if err != nil {
				t.Fatal(err)
			}
			inside, err := read(net, f)
			if err != nil {
				t.Fatal(err)
			}
			p := mustOpen(t, live.Args{Model: pretrained("k8s-PodBalance-v0", algo), Options: map[string]any{"replicas_min": 1, "replicas_max": 1}}, 3) // it follows the number of nodes
			if p.Name() != algo || p.Env().ID != balanceEnv || p.Options()["pods"] != "mixed" {
				t.Errorf("policy %s of %s with %v, want %s of %s with the model's options", p.Name(), p.Env().ID, p.Options(), algo, balanceEnv)
			}
			nodes := f.Meta.Spec.Nodes.N
			v := envstest.Open(t, balanceEnv, 1, envs.VecOptions{Options: map[string]any{"nodes": nodes, "pods": "mixed", "node_types": "mixed", "replicas_min": 1, "replicas_max": 1, "reset_pods": []any{60}}, Autoreset: envs.Disabled})
			b := envstest.Reset(t, v, 11)
			action := make([]float32, 1)
			for step := 0; !b.Done(0); step++ {
				if err := inside.Act(b, action); err != nil {
					t.Fatal(err)
				}
				s := v.Env(0).State().Clone()
				c, err := p.Choose(t.Context(), s, last(s)) // deployments have one pod
				if err != nil {
					t.Fatal(err)
				}
				if c.Node != int32(action[0]) {
					t.Fatalf("step %d: node %d, want %v as in the episode", step, c.Node, action[0])
				}
				for i, fits := range b.Mask {
					if math.IsNaN(c.Scores[i]) == fits || fits && c.Scores[i] > c.Scores[c.Node] {
						t.Fatalf("step %d: scores %v of mask %v, want one for each node that fits, none above node %d's", step, c.Scores, b.Mask, c.Node)
					}
				}
				b = envstest.Step(t, v, action...)
			}
		})
	}
}

// TestBaseline: Greedy evens out. Hand-worked: with the pod, the nodes' shares are (0.75, 0, 0.5) or
// (0.5, 0.25, 0.5); the deviation of the second is lower. Node c is closed.
func TestBaseline(t *testing.T) {
	p := mustOpen(t, live.Args{Baseline: "Greedy"}, 3)
	s := clusterOf(t, []int64{2000, 4000, 4000}, small)
	if err := s.Apply(&cluster.Op{Kind: cluster.Cordon, Node: 2}); err != nil {
		t.Fatal(err)
	}
	c, err := p.Choose(t.Context(), s, last(s))
	if err != nil {
		t.Fatal(err)
	}
	if c.Node != 1 || c.Scores[0] != 0 || c.Scores[1] != 1 || !math.IsNaN(c.Scores[2]) {
		t.Errorf("node %d with scores %v, want 1 with [0 1 NaN]", c.Node, c.Scores)
	}
	turns := mustOpen(t, live.Args{Baseline: "RoundRobin"}, 2)
	var nodes []int32
	for range 4 {
		s := clusterOf(t, []int64{4000, 4000}, small)
		c, err := turns.Choose(t.Context(), s, last(s))
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, c.Node)
	}
	if !slices.Equal(nodes, []int32{0, 1, 0, 1}) {
		t.Errorf("RoundRobin chooses %v, want turns", nodes)
	}
}

// TestDevices: best fit fills the device that another pod shares. Hand-worked: device 0 of node b has
// 400 left, which is the least that takes 300.
func TestDevices(t *testing.T) {
	p := mustOpen(t, live.Args{Baseline: "BestFit", Env: "k8s/GPUPodScheduling-v0"}, 2)
	pod := small
	pod.GPUs, pod.MilliGPU = 1, 300
	s := clusterOf(t, []int64{4000, 2000}, pod)
	other := cluster.Op{Kind: cluster.AddPod, Meta: s.Pods[0].Meta, Resources: small.Resources, GPUs: 1, MilliGPU: 600}
	pending := int32(len(s.Pods) - 1)
	for _, op := range []cluster.Op{other, {Kind: cluster.Bind, Pod: pending + 1, Node: 1, Devices: 1 << 1}} {
		if err := s.Apply(&op); err != nil {
			t.Fatal(err)
		}
	}
	c, err := p.Choose(t.Context(), s, envs.Decision{Pod: pending, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	if c.Node != 1 || c.Devices != 1<<1 {
		t.Errorf("node %d, devices %#b, want node 1, device 1", c.Node, c.Devices)
	}
}

func TestUnschedulable(t *testing.T) {
	for _, args := range []live.Args{{Baseline: "Greedy"}, {Model: pretrained("k8s-PodBalance-v0", "ppo")}} {
		s := clusterOf(t, []int64{500, 900}, small)
		if _, err := mustOpen(t, args, 2).Choose(t.Context(), s, last(s)); !errors.Is(err, live.ErrUnschedulable) {
			t.Errorf("%+v: %v, want ErrUnschedulable", args, err)
		}
		s = clusterOf(t, nil, small)
		if _, err := mustOpen(t, args, 2).Choose(t.Context(), s, last(s)); !errors.Is(err, live.ErrUnschedulable) {
			t.Errorf("%+v without nodes: %v, want ErrUnschedulable", args, err)
		}
	}
}

// TestNotFinite: a model whose scores overflow chooses nothing.
func TestNotFinite(t *testing.T) {
	f, err := models.ReadFile(pretrained("k8s-PodBalance-v0", "ppo"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tensor := range f.Tensors {
		if strings.HasPrefix(tensor.Name, "action_net") {
			values := tensor.Data.([]float32)
			for i := range values {
				values[i] = math.MaxFloat32
			}
		}
	}
	path := filepath.Join(t.TempDir(), "nan.safetensors")
	if err := models.WriteFile(path, f); err != nil {
		t.Fatal(err)
	}
	s := clusterOf(t, []int64{4000, 4000}, small)
	if _, err := mustOpen(t, live.Args{Model: path}, 2).Choose(t.Context(), s, last(s)); err == nil || !strings.Contains(err.Error(), "want a finite one") {
		t.Errorf("%v, want the score named", err)
	}
}

// TestOptions: given options win over those of the training, and a model of a twin leaves those of
// its API server.
func TestOptions(t *testing.T) {
	f, err := models.ReadFile(pretrained("k8s-PodBalance-v0", "ppo"))
	if err != nil {
		t.Fatal(err)
	}
	f.Meta.Env, f.Meta.EnvKwargs = "k8s/PodBalanceKwok-v0", []byte(`{"kubeconfig": "x", "pods": "mixed", "steps": 7}`)
	path := filepath.Join(t.TempDir(), "twin.safetensors")
	if err := models.WriteFile(path, f); err != nil {
		t.Fatal(err)
	}
	p := mustOpen(t, live.Args{Model: path, Options: map[string]any{"steps": 9}}, 4)
	o := p.Options()
	if p.Env().ID != balanceEnv || len(o) != 2 || o["pods"] != "mixed" || o["steps"] != 9 {
		t.Errorf("%s with %v, want %s with pods:mixed steps:9", p.Env().ID, o, balanceEnv)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := live.Open(live.Args{Baseline: "Greedy"}, 0); err == nil {
		t.Error("no nodes are accepted")
	}
	dense := filepath.Join("..", "..", "models", "pretrained", "k8s-GangWindow-v0", "ppo.safetensors")
	for name, tc := range map[string]struct {
		args live.Args
		want string
		is   error
	}{
		"nothing":          {live.Args{}, "want one of them", nil},
		"both":             {live.Args{Model: "m", Baseline: "Greedy"}, "want one of them", nil},
		"no file":          {live.Args{Model: "none.safetensors"}, "none.safetensors", nil},
		"unknown baseline": {live.Args{Baseline: "Best"}, "Greedy", envs.ErrUnknownBaseline},
		"clairvoyant":      {live.Args{Baseline: "Exact"}, "knows the future", nil},
		"unknown option":   {live.Args{Baseline: "Greedy", Options: map[string]any{"colour": 1}}, "colour", envs.ErrInvalidOption},
		"no nodes":         {live.Args{Baseline: "random", Env: "CartPole-v1"}, "", nil},
		"another task":     {live.Args{Model: dense}, "places no pods", nil},
	} {
		if _, err := live.Open(tc.args, 2); err == nil || !strings.Contains(err.Error(), tc.want) || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %v, want an error with %q that is %v", name, err, tc.want, tc.is)
		}
	}
}

// TestNullOptions: a file whose options are null takes those of the caller.
func TestNullOptions(t *testing.T) {
	f, err := models.ReadFile(pretrained("k8s-PodBalance-v0", "ppo"))
	if err != nil {
		t.Fatal(err)
	}
	f.Meta.EnvKwargs = []byte("null")
	path := filepath.Join(t.TempDir(), "null.safetensors")
	if err := models.WriteFile(path, f); err != nil {
		t.Fatal(err)
	}
	if _, err := live.Open(live.Args{Model: path, Options: map[string]any{"none": 1}}, 8); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("Open: %v, want %v", err, envs.ErrInvalidOption)
	}
}
