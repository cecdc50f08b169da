package policies

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// graph is an observation of four nodes with three features, beside a pod of two and five
// edges.
var graph = space.Dict{Fields: []space.Field{
	{Key: "edges", Space: space.NewBox(0, 3, 5, 2)},
	{Key: "pod", Space: space.NewBox(0, 1, 2)},
	{Key: "nodes", Space: space.NewBox(0, 1, 4, 3)},
	{Key: "edge_mask", Space: space.MultiBinary{N: 5}},
}}

func TestNodesOfADict(t *testing.T) {
	// 10 numbers of edges, 2 of the pod, 12 of nodes, 5 of the mask.
	want := models.Nodes{Offset: 12, N: 4, Features: 3, Edges: &models.Edges{Offset: 0, N: 5, Masked: true, MaskOffset: 24, Undirected: true}}
	for actions, waits := range map[int]bool{4: false, 5: true} {
		got, wait, err := Nodes(graph, space.Discrete{N: actions})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || wait != waits {
			t.Errorf("Nodes with %d actions: wait %v, want %v; (-want +got):\n%s", actions, wait, waits, diff)
		}
	}
}

// TestHeads checks where algorithms find logits, value and deviations in a row of outputs.
func TestHeads(t *testing.T) {
	box := space.NewBox(0, 1, 29)
	for _, tc := range []struct {
		policy                string
		obs, act              space.Space
		actions, value, width int
	}{
		{Mlp, box, space.Discrete{N: 3}, 3, 3, 4},
		{Mlp, box, space.MultiDiscrete{NVec: []int{2, 3}}, 5, 5, 6},
		{Mlp, box, space.MultiBinary{N: 3}, 3, 3, 4},
		{Mlp, box, space.NewBox(-1, 1, 2), 2, 2, 5},
		{"", graph, space.Discrete{N: 4}, 4, 4, 5},
		{Node, graph, space.Discrete{N: 4}, 4, 4, 5},
		{SAGE, graph, space.Discrete{N: 5}, 5, 5, 6},
		{GCN, graph, space.Discrete{N: 4}, 4, 4, 5},
	} {
		n := Defaults()
		n.Policy, n.LogStdInit, n.LayerNorm = tc.policy, -1, true
		spec, err := n.ActorCritic(tc.obs, tc.act)
		if err != nil {
			t.Errorf("%s for %+v: %v", tc.policy, tc.act, err)
			continue
		}
		from, actions := spec.Head("action_net")
		value, _ := spec.Head("value_net")
		if from != 0 || actions != tc.actions || value != tc.value || spec.Outputs() != tc.width {
			t.Errorf("%s for %+v: %d numbers of the action from %d on, the value at %d of %d, want %d from 0, %d, %d",
				tc.policy, tc.act, actions, from, value, spec.Outputs(), tc.actions, tc.value, tc.width)
		}
		if !spec.Towers[0].LayerNorm {
			t.Errorf("%s: no layer norm", tc.policy)
		}
	}
}

// TestParametersDoNotDependOnTheNodes compares the layouts for 4 and 100 nodes.
func TestParametersDoNotDependOnTheNodes(t *testing.T) {
	n := Defaults()
	n.Policy = SAGE
	few, err := n.ActorCritic(graph, space.Discrete{N: 4})
	if err != nil {
		t.Fatal(err)
	}
	many := space.Dict{Fields: append([]space.Field(nil), graph.Fields...)}
	many.Fields[2].Space = space.NewBox(0, 1, 100, 3)
	more, err := n.ActorCritic(many, space.Discrete{N: 100})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(models.ParamLayout(few), models.ParamLayout(more)); diff != "" {
		t.Errorf("parameters (-4 nodes +100 nodes):\n%s", diff)
	}
	if bound, err := few.WithNodes(100, 5); err != nil || !bound.Equal(more) {
		t.Errorf("the spec bound to 100 nodes is %+v (%v), want that made for them", bound, err)
	}
}

func TestRefuses(t *testing.T) {
	box := space.NewBox(0, 1, 2)
	flat := space.Dict{Fields: []space.Field{{Key: "nodes", Space: space.NewBox(0, 1, 4)}}}
	bare := space.Dict{Fields: []space.Field{{Key: "nodes", Space: space.NewBox(0, 1, 4, 3)}}}
	for _, tc := range []struct {
		policy   string
		obs, act space.Space
		want     string
	}{
		{"CnnPolicy", box, space.Discrete{N: 2}, `policy "CnnPolicy", want MlpPolicy, NodePolicy, SAGEPolicy or GCNPolicy`},
		{Node, box, space.Discrete{N: 2}, `observations of kind box, want a dict with a leaf "nodes"`},
		{Node, flat, space.Discrete{N: 4}, "shape [4], want (N, F)"},
		{Node, bare, space.Discrete{N: 3}, "want Discrete(4) or Discrete(5)"},
		{GCN, bare, space.Discrete{N: 4}, `no leaf "edges"`},
		{Mlp, box, space.Dict{}, "actions of kind dict"},
	} {
		n := Defaults()
		n.Policy = tc.policy
		if _, err := n.ActorCritic(tc.obs, tc.act); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", tc.policy, err, tc.want)
		}
	}
}
