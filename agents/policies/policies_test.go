package policies

import (
	"errors"
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

// TestRecurrentHeads checks the same of policies with LSTMs, and what the LSTMs read: of a Box its
// numbers; of nodes the pod's two, and mean and maximum of three features, or one of them.
func TestRecurrentHeads(t *testing.T) {
	for _, tc := range []struct {
		policy, pool             string
		obs, act                 space.Space
		actions, width, lstm, in int
	}{
		{MlpLSTM, models.MeanMax, space.NewBox(0, 1, 29), space.NewBox(-1, 1, 2), 2, 5, 29, 16},
		{MlpLSTM, models.MeanMax, graph, space.Discrete{N: 4}, 4, 5, 29, 16},
		{NodeLSTM, models.MeanMax, graph, space.Discrete{N: 4}, 4, 5, 8, 3 + 2 + 16},
		{NodeLSTM, models.Mean, graph, space.Discrete{N: 5}, 5, 6, 5, 3 + 2 + 16},
		{SAGELSTM, models.Max, graph, space.Discrete{N: 5}, 5, 6, 5, 3 + 2 + 16},
		{GCNLSTM, models.MeanMax, graph, space.Discrete{N: 4}, 4, 5, 8, 3 + 2 + 16},
	} {
		n, l := Defaults(), DefaultLSTM()
		n.Policy, n.LayerNorm, n.Pool, l.LSTMHiddenSize = tc.policy, true, tc.pool, 16
		spec, err := n.RecurrentActorCritic(tc.obs, tc.act, l)
		if err != nil {
			t.Errorf("%s for %+v: %v", tc.policy, tc.act, err)
			continue
		}
		from, actions := spec.Head("action_net")
		if from != 0 || actions != tc.actions || spec.Outputs() != tc.width || !spec.Towers[0].LayerNorm {
			t.Errorf("%s for %+v: %d numbers of the action from %d on of %d, layer norm %v, want %d from 0 of %d, true",
				tc.policy, tc.act, actions, from, spec.Outputs(), spec.Towers[0].LayerNorm, tc.actions, tc.width)
		}
		if got := spec.LSTMInputs(1); got != tc.lstm || spec.TowerInputs(0) != tc.in {
			t.Errorf("%s for %+v: the critic's LSTM reads %d numbers and the policy's tower %d, want %d and %d",
				tc.policy, tc.act, got, spec.TowerInputs(0), tc.lstm, tc.in)
		}
	}
}

func TestRecurrentRefuses(t *testing.T) {
	box, bare := space.NewBox(0, 1, 2), space.Dict{Fields: []space.Field{{Key: "nodes", Space: space.NewBox(0, 1, 4, 3)}}}
	for _, tc := range []struct {
		policy   string
		obs, act space.Space
		want     string
	}{
		{Node, bare, space.Discrete{N: 4}, `policy "NodePolicy" with an LSTM, want MlpLstmPolicy, NodeLstmPolicy, SAGELstmPolicy or GCNLstmPolicy`},
		{NodeLSTM, box, space.Discrete{N: 2}, `NodeLstmPolicy: observations of kind box, want a dict with a leaf "nodes"`},
		{NodeLSTM, bare, space.Discrete{N: 3}, "NodeLstmPolicy: actions"},
		{GCNLSTM, bare, space.Discrete{N: 4}, `GCNLstmPolicy: the observation has no leaf "edges"`},
	} {
		n := Defaults()
		n.Policy = tc.policy
		if _, err := n.RecurrentActorCritic(tc.obs, tc.act, DefaultLSTM()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", tc.policy, err, tc.want)
		}
	}
	for policy := range recurrent {
		n := Defaults()
		n.Policy = policy
		if _, err := n.ActorCritic(graph, space.Discrete{N: 4}); err == nil || !strings.Contains(err.Error(), policy+", which is one of ppo_lstm") {
			t.Errorf("%s without memory: error %v", policy, err)
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

// withNodes is graph with n nodes of f features, e edges and p numbers of a pod.
func withNodes(n, f, e, p int) space.Dict {
	return space.Dict{Fields: []space.Field{
		{Key: "edges", Space: space.NewBox(0, float32(n-1), e, 2)},
		{Key: "pod", Space: space.NewBox(0, 1, p)},
		{Key: "nodes", Space: space.NewBox(0, 1, n, f)},
		{Key: "edge_mask", Space: space.MultiBinary{N: e}},
	}}
}

// TestRebind compares what Rebind makes with the network made for those spaces.
func TestRebind(t *testing.T) {
	for _, policy := range []string{Node, SAGE, GCN} {
		for _, wait := range []int{0, 1} {
			n := Defaults()
			n.Policy = policy
			r := n
			r.Policy = map[string]string{Node: NodeLSTM, SAGE: SAGELSTM, GCN: GCNLSTM}[policy]
			for name, make := range map[string]func(obs, act space.Space) (models.Spec, error){
				"lstm": func(obs, act space.Space) (models.Spec, error) {
					return r.RecurrentActorCritic(obs, act, DefaultLSTM())
				},
				"actor-critic":    n.ActorCritic,
				"values":          func(obs, act space.Space) (models.Spec, error) { return n.ActionValues(obs, act, false) },
				"dueling, values": func(obs, act space.Space) (models.Spec, error) { return n.ActionValues(obs, act, true) },
			} {
				few, err := make(graph, space.Discrete{N: 4 + wait})
				if err != nil {
					t.Fatal(err)
				}
				obs, act := withNodes(9, 3, 20, 2), space.Discrete{N: 9 + wait}
				want, err := make(obs, act)
				if err != nil {
					t.Fatal(err)
				}
				got, err := Rebind(few, obs, act)
				if err != nil || !got.Equal(want) {
					t.Errorf("%s, %s, %d actions: %+v (%v), want %+v", policy, name, act.N, got, err, want)
				}
			}
		}
	}
}

func TestRebindWithoutEdges(t *testing.T) {
	n := Defaults()
	n.Policy = Node // for which edges are of no account
	spec, err := n.ActorCritic(graph, space.Discrete{N: 4})
	if err != nil {
		t.Fatal(err)
	}
	obs := space.Dict{Fields: []space.Field{{Key: "pod", Space: space.NewBox(0, 1, 2)}, {Key: "nodes", Space: space.NewBox(0, 1, 6, 3)}}}
	if got, err := Rebind(spec, obs, space.Discrete{N: 6}); err != nil || got.Nodes.Edges != nil || got.Inputs != 20 {
		t.Errorf("%+v (%v), want 20 inputs and no edges", got, err)
	}
}

func TestRebindRefuses(t *testing.T) {
	n := Defaults()
	dense, err := n.ActorCritic(graph, space.Discrete{N: 4})
	if err != nil {
		t.Fatal(err)
	}
	n.Policy = SAGE
	spec, err := n.ActorCritic(graph, space.Discrete{N: 4})
	if err != nil {
		t.Fatal(err)
	}
	n.Policy = NodeLSTM
	lstm, err := n.RecurrentActorCritic(graph, space.Discrete{N: 4}, DefaultLSTM())
	if err != nil {
		t.Fatal(err)
	}
	bare := space.Dict{Fields: []space.Field{{Key: "pod", Space: space.NewBox(0, 1, 2)}, {Key: "nodes", Space: space.NewBox(0, 1, 4, 3)}}}
	unmasked := space.Dict{Fields: graph.Fields[:3]}
	for _, tc := range []struct {
		spec     models.Spec
		obs, act space.Space
		want     string
	}{
		{dense, withNodes(9, 3, 20, 2), space.Discrete{N: 9}, "the network has no nodes"},
		{lstm, withNodes(9, 3, 20, 5), space.Discrete{N: 9}, "5 numbers belong to no node or edge, and did 2 in training"},
		{lstm, withNodes(9, 4, 20, 2), space.Discrete{N: 9}, "nodes have 4 features, and had 3 in training"},
		{spec, withNodes(9, 4, 20, 2), space.Discrete{N: 9}, "nodes have 4 features, and had 3 in training"},
		{spec, withNodes(9, 3, 20, 5), space.Discrete{N: 9}, "5 numbers belong to no node or edge, and did 2 in training"},
		{spec, withNodes(9, 3, 20, 2), space.Discrete{N: 10}, "an action that chooses no node: true, in training false"},
		{spec, withNodes(9, 3, 20, 2), space.Discrete{N: 8}, "want Discrete(9) or Discrete(10)"},
		{spec, bare, space.Discrete{N: 4}, `no leaf "edges"`},
		{spec, unmasked, space.Discrete{N: 4}, `"edge_mask": false, in training true`},
		{spec, space.NewBox(0, 1, 3), space.Discrete{N: 4}, "observations of kind box"},
	} {
		if _, err := Rebind(tc.spec, tc.obs, tc.act); !errors.Is(err, models.ErrMismatch) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want a mismatch with %q", err, tc.want)
		}
	}
}

// TestActionValues checks where DQN finds values, advantages and the state's value.
func TestActionValues(t *testing.T) {
	for _, tc := range []struct {
		policy  string
		dueling bool
		actions int
		head    string
	}{
		{Mlp, false, 4, "q_net.q_net.6"}, {Mlp, true, 4, AdvantageHead},
		{Node, false, 5, "q_net.q_net.6"}, {Node, true, 5, AdvantageHead},
		{SAGE, false, 4, "q_net.q_net.6"}, {GCN, true, 4, AdvantageHead},
	} {
		n := Defaults()
		n.Policy, n.LayerNorm = tc.policy, true
		spec, err := n.ActionValues(graph, space.Discrete{N: tc.actions}, tc.dueling)
		if err != nil {
			t.Fatal(err)
		}
		width := tc.actions
		if tc.dueling {
			width++
		}
		from, actions := spec.Head(tc.head)
		value, one := spec.Head(ValueHead)
		if from != 0 || actions != tc.actions || spec.Outputs() != width || tc.dueling && (value != tc.actions || one != 1) {
			t.Errorf("%s, dueling %v: %d numbers of %s from %d of %d, the value at %d", tc.policy, tc.dueling, actions, tc.head, from, spec.Outputs(), value)
		}
	}
	if _, err := Defaults().ActionValues(graph, space.NewBox(0, 1, 2), false); err == nil {
		t.Error("action values of a Box are not refused")
	}
}

func TestGivesActionValues(t *testing.T) {
	obs, act := space.NewBox(0, 1, 3), space.Discrete{N: 2}
	policy, err := Defaults().ActorCritic(obs, act)
	if err != nil {
		t.Fatal(err)
	}
	values, err := Defaults().ActionValues(obs, act, true)
	if err != nil {
		t.Fatal(err)
	}
	if GivesActionValues(policy) || !GivesActionValues(values) || GivesActionValues(models.Spec{}) {
		t.Errorf("GivesActionValues of a policy, of action values and of nothing = %v, %v, %v, want false, true, false",
			GivesActionValues(policy), GivesActionValues(values), GivesActionValues(models.Spec{}))
	}
}
