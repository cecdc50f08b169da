package live_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/agents/live"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envstest"
)

const gpuEnv = "k8s/GPUPodScheduling-v1"

// weightedFGD is the base policy of most searches.
var weightedFGD = live.Args{Baseline: "WeightedFGD", Env: gpuEnv}

// searchPlays plays an episode on eight nodes of env by the searches' choices from outside, and returns how many differ from
// those of the base policy, and the GPUs allocated at the end in percent. Searches change nothing in the cluster.
func searchPlays(t *testing.T, env, text string, of live.Args) (deviations int, allocated float64) {
	t.Helper()
	v := envstest.Open(t, env, 1, envs.VecOptions{Options: map[string]any{"num_nodes": 8}, Autoreset: envs.Disabled})
	planner := mustOpen(t, live.Args{Baseline: text, Env: env}, 8)
	base := mustOpen(t, of, 8)
	b := envstest.Reset(t, v, 5)
	for !b.Done(0) {
		s := v.Env(0).State().Clone()
		before := s.Clone()
		want, err := base.Choose(t.Context(), s, last(s))
		if err != nil {
			t.Fatal(err)
		}
		got, err := planner.Choose(t.Context(), s, last(s))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before.Pods, s.Pods) || !reflect.DeepEqual(before.Nodes, s.Nodes) {
			t.Fatal("the search has changed the cluster")
		}
		if got.Scores[got.Node] != 1 {
			t.Errorf("the chosen node %d has the score %v, want 1", got.Node, got.Scores[got.Node])
		}
		if got.Node == want.Node && got.Devices != want.Devices {
			t.Errorf("devices %b on the base policy's node, want its devices %b", got.Devices, want.Devices)
		}
		if got.Node != want.Node {
			deviations++
		}
		b = envstest.Step(t, v, float32(got.Node))
	}
	for i, c := range v.Spec().Info {
		if c.Name == "alloc_pct" {
			allocated = b.Info[i]
		}
	}
	return deviations, allocated
}

// TestSearchPlaysOn: a search that wants a billion standard errors follows its base policy. One that wants one
// deviates, equally in two runs.
func TestSearchPlaysOn(t *testing.T) {
	if deviations, _ := searchPlays(t, gpuEnv, "rollout:base=WeightedFGD,k=3,m=2,confidence=1e9", weightedFGD); deviations != 0 {
		t.Errorf("%d choices differ from those of WeightedFGD, want none", deviations)
	}
	first, a := searchPlays(t, gpuEnv, "rollout:base=WeightedFGD,advisers=BestFit+FGD,k=5,m=8,horizon=30", weightedFGD)
	again, b := searchPlays(t, gpuEnv, "rollout:base=WeightedFGD,advisers=BestFit+FGD,k=5,m=8,horizon=30", weightedFGD)
	if first == 0 || first != again || a != b {
		t.Errorf("%d and %d choices differ from those of WeightedFGD with %v and %v %% allocated, want equal numbers above 0", first, again, a, b)
	}
}

// TestSearchKeepsOffCordonedNodes: neither the pod nor those of the simulations, whose binds would be errors, go to a
// cordoned node.
func TestSearchKeepsOffCordonedNodes(t *testing.T) {
	v := envstest.Open(t, gpuEnv, 1, envs.VecOptions{Options: map[string]any{"num_nodes": 4}, Autoreset: envs.Disabled})
	planner := mustOpen(t, live.Args{Baseline: "rollout:base=WeightedFGD,k=3,m=4,confidence=0", Env: gpuEnv}, 4)
	b := envstest.Reset(t, v, 5)
	for range 12 {
		s := v.Env(0).State().Clone()
		op := cluster.Op{Kind: cluster.Cordon, Node: 1}
		if err := s.Apply(&op); err != nil {
			t.Fatal(err)
		}
		c, err := planner.Choose(t.Context(), s, last(s))
		if errors.Is(err, live.ErrUnschedulable) {
			c.Node, err = 1, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if !b.Mask[c.Node] {
			break
		}
		b = envstest.Step(t, v, float32(c.Node))
	}
}

// TestSearchIsRefused where decisions of a running cluster cannot be played on, when the policy is opened.
func TestSearchIsRefused(t *testing.T) {
	for _, tc := range []struct {
		args live.Args
		is   error
		want string
	}{
		{live.Args{Baseline: "rollout:base=Greedy", Env: balanceEnv}, envs.ErrCannotResample, balanceEnv},
		{live.Args{Baseline: "rollout:base=WeightedFGD", Env: gpuEnv, Options: map[string]any{"dynamics": "timed"}}, envs.ErrCannotResample, "dynamics is timed"},
		{live.Args{Baseline: "rollout:base=WeightedFGD,clairvoyant=true", Env: gpuEnv}, nil, "clairvoyant"},
		{live.Args{Baseline: "rollout:base=Nobody", Env: gpuEnv}, envs.ErrUnknownBaseline, "Nobody"},
		{live.Args{Baseline: "rollout:base=WeightedFGD,advisers=Nobody", Env: gpuEnv}, envs.ErrUnknownBaseline, "Nobody"},
		{live.Args{Baseline: "rollout:base=WeightedFGD,k=1", Env: gpuEnv}, nil, "k=1"},
	} {
		if _, err := live.Open(tc.args, 4); err == nil || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Open of %+v: %v, want an error with %q", tc.args, err, tc.want)
		}
	}
}

// TestPosteriorPlaces: a search that trusts its model places as the model does. One that trusts the futures alone takes other
// nodes for some pods, equally in two runs.
func TestPosteriorPlaces(t *testing.T) {
	const env, path = "k8s/GPUPodScheduling-v2", "../../models/pretrained/k8s-GPUPodScheduling-v2/ppo.safetensors"
	play := func(trust string) (deviations int, allocated float64) {
		return searchPlays(t, env, "posterior:base="+path+",m=3,trust="+trust, live.Args{Model: path})
	}
	if deviations, _ := play("1e12"); deviations != 0 {
		t.Errorf("with trust %d choices differ from the model's, want none", deviations)
	}
	first, a := play("0")
	again, b := play("0")
	if first == 0 || first != again || a != b {
		t.Errorf("without trust %d and %d choices differ from the model's with %v and %v %% allocated, want equal numbers above 0", first, again, a, b)
	}
}
