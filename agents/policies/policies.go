// Package policies builds the networks of learners, given the name of a policy: those of
// Stable-Baselines3 and further ones for nodes and graphs.
//
// An observation with nodes is a Dict with a leaf "nodes" of shape (N, F), one row for each node,
// for actions Discrete(N), or Discrete(N+1) if the last action waits. With leaves "edges" of shape
// (E, 2) and "edge_mask" of shape (E) it is a graph. The parameters of a policy over nodes do not
// depend on N.
package policies

import (
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// The names of layers of action values. Those of dense layers without dueling heads are
// Stable-Baselines3's.
const (
	QTower        = "q_net.q_net"
	AdvantageHead = "q_net.advantage_net"
	ValueHead     = "q_net.value_net"
)

// The names of policies.
const (
	Mlp  = "MlpPolicy"  // dense layers over the whole observation
	Node = "NodePolicy" // dense layers that all nodes share, over a node's row and the rest of the observation
	SAGE = "SAGEPolicy" // layers that pass the mean of a node's neighbours to it
	GCN  = "GCNPolicy"  // layers that pass the normalized sum

	// Recurrent policies, for ppo_lstm only.
	MlpLSTM  = "MlpLstmPolicy"  // an LSTM over the whole observation, then dense layers
	NodeLSTM = "NodeLstmPolicy" // NodePolicy beside an LSTM over the rest of the observation and the pooled nodes
	SAGELSTM = "SAGELstmPolicy" // SAGEPolicy beside such an LSTM
	GCNLSTM  = "GCNLstmPolicy"  // GCNPolicy beside such an LSTM
)

// layers maps policies over nodes to their kinds of layers; recurrent maps recurrent policies to those without LSTMs.
var (
	layers    = map[string]string{Node: "", SAGE: models.SAGE, GCN: models.GCN}
	recurrent = map[string]string{MlpLSTM: Mlp, NodeLSTM: Node, SAGELSTM: SAGE, GCNLSTM: GCN}
)

// Network holds the hyperparameters of a learner's network.
type Network struct {
	Policy       string  `json:"policy"`        // "MlpPolicy" (default), "NodePolicy", "SAGEPolicy" or "GCNPolicy"; for ppo_lstm, the recurrent ones
	NetArch      []int   `json:"net_arch"`      // widths of the hidden layers of each tower; default 64, 64
	ActivationFn string  `json:"activation_fn"` // "tanh" (default) or "relu"
	LayerNorm    bool    `json:"layer_norm"`    // between each hidden layer and its activation; default false
	LogStdInit   float64 `json:"log_std_init"`  // first logarithm of the standard deviations of Box actions; default 0
	Pool         string  `json:"pool"`          // pooling of nodes for value, the action that waits, and LSTMs: "mean", "max" or "mean+max" (default)
}

// Defaults returns the defaults of Stable-Baselines3's actor-critic policies.
func Defaults() Network {
	return Network{Policy: Mlp, NetArch: []int{64, 64}, ActivationFn: models.Tanh, Pool: models.MeanMax}
}

// ActorCritic returns a network with separate towers for policy and value: the heads are
// "action_net", which describes an action in act, and "value_net"; a Box has "log_std" too.
func (n Network) ActorCritic(obs, act space.Space) (models.Spec, error) {
	spec, err := n.actorCritic(n.Policy, obs, act)
	if err != nil {
		return models.Spec{}, err
	}
	return n.finish(spec)
}

// actorCritic returns the network of the named policy, with n's other settings.
func (n Network) actorCritic(policy string, obs, act space.Space) (models.Spec, error) {
	if policy == "" || policy == Mlp {
		return n.dense(obs, act)
	}
	layer, nodes, wait, err := n.nodes(policy, obs, act)
	if err != nil {
		return models.Spec{}, err
	}
	return models.NodeActorCritic(obs.Size(), nodes, n.NetArch, n.ActivationFn, layer, n.Pool, wait), nil
}

// LSTM holds the hyperparameters of policies with LSTMs, with the names and defaults of sb3-contrib.
type LSTM struct {
	LSTMHiddenSize   int  `json:"lstm_hidden_size"`   // cells of a layer; default 256
	NLSTMLayers      int  `json:"n_lstm_layers"`      // default 1
	SharedLSTM       bool `json:"shared_lstm"`        // the value reads the policy's LSTM, without a gradient into it; default false
	EnableCriticLSTM bool `json:"enable_critic_lstm"` // the value has an LSTM of its own; default true. If both are false it reads a dense layer
}

// DefaultLSTM returns sb3-contrib's defaults.
func DefaultLSTM() LSTM { return LSTM{LSTMHiddenSize: 256, NLSTMLayers: 1, EnableCriticLSTM: true} }

// RecurrentActorCritic returns the network of a recurrent policy: that of ActorCritic, whose towers read LSTMs, in
// place of the observation or beside the rows of nodes.
func (n Network) RecurrentActorCritic(obs, act space.Space, l LSTM) (models.Spec, error) {
	policy, ok := recurrent[n.Policy]
	switch {
	case !ok:
		return models.Spec{}, fmt.Errorf("policies: policy %q with an LSTM, want %s, %s, %s or %s", n.Policy, MlpLSTM, NodeLSTM, SAGELSTM, GCNLSTM)
	case l.SharedLSTM && l.EnableCriticLSTM:
		return models.Spec{}, fmt.Errorf("policies: shared_lstm and enable_critic_lstm, want one of them or none")
	case l.NLSTMLayers < 1:
		return models.Spec{}, fmt.Errorf("policies: n_lstm_layers is %d, want at least 1", l.NLSTMLayers)
	}
	spec, err := n.actorCritic(policy, obs, act)
	if err != nil {
		return models.Spec{}, err
	}
	critic := models.NoLSTM
	if l.SharedLSTM {
		critic = models.SharedLSTM
	} else if l.EnableCriticLSTM {
		critic = models.CriticLSTM
	}
	return n.finish(models.WithLSTM(spec, l.NLSTMLayers, l.LSTMHiddenSize, critic))
}

// ActionValues returns a network of the values of Discrete actions: one tower with one head or, if
// dueling, with a head of advantages and a head of the state's value.
func (n Network) ActionValues(obs, act space.Space, dueling bool) (models.Spec, error) {
	d, ok := act.(space.Discrete)
	if !ok {
		return models.Spec{}, fmt.Errorf("policies: action values of actions of kind %s, want discrete", act.Describe().Kind)
	}
	spec := models.Spec{Inputs: obs.Size(), Towers: []models.Tower{{Name: QTower, Hidden: slices.Clone(n.NetArch), Activation: n.ActivationFn}}}
	values := models.Head{Name: fmt.Sprintf("%s.%d", QTower, 2*len(n.NetArch)), Size: d.N, Gain: 1}
	if n.LayerNorm {
		values.Name = fmt.Sprintf("%s.%d", QTower, 3*len(n.NetArch))
	}
	if dueling {
		values.Name = AdvantageHead
	}
	pooled := 0 // the tower of the heads that do not belong to a node
	if n.Policy == "" || n.Policy == Mlp {
		spec.Heads = []models.Head{values}
	} else {
		layer, nodes, wait, err := n.nodes(n.Policy, obs, act)
		if err != nil {
			return models.Spec{}, err
		}
		spec.Nodes = &nodes
		spec.Towers[0].Reads, spec.Towers[0].Layer = models.NodeRows, layer
		values.Size = 1
		spec.Heads = []models.Head{values}
		if wait || dueling {
			pooled = 1
			spec.Towers = append(spec.Towers, models.Tower{Name: "q_net.pool", Reads: QTower, Pool: n.Pool})
		}
		if wait {
			spec.Heads = append(spec.Heads, models.Head{Name: "q_net.wait_net", Tower: pooled, Size: 1, Gain: 1, Joined: true})
		}
	}
	if dueling {
		spec.Heads = append(spec.Heads, models.Head{Name: ValueHead, Tower: pooled, Size: 1, Gain: 1})
	}
	return n.finish(spec)
}

// GivesActionValues reports whether spec comes from ActionValues, not from a policy.
func GivesActionValues(spec models.Spec) bool {
	return len(spec.Towers) > 0 && spec.Towers[0].Name == QTower
}

// nodes returns the layout of nodes in the spaces, for a policy over nodes.
func (n Network) nodes(policy string, obs, act space.Space) (layer string, nodes models.Nodes, wait bool, err error) {
	if layer, err = layerOf(policy); err != nil {
		return "", nodes, false, err
	}
	if nodes, wait, err = Nodes(obs, act); err != nil {
		return "", nodes, false, fmt.Errorf("policies: %s: %w", n.Policy, err)
	}
	if layer != "" && nodes.Edges == nil {
		return "", nodes, false, fmt.Errorf("policies: %s: the observation has no leaf \"edges\"", n.Policy)
	}
	return layer, nodes, wait, nil
}

func (n Network) finish(spec models.Spec) (models.Spec, error) {
	for i := range spec.Towers {
		spec.Towers[i].LayerNorm = n.LayerNorm && len(spec.Towers[i].Hidden) > 0
	}
	return spec, spec.Validate()
}

// Rebind returns spec, a policy over nodes of this package, for observations and actions of another
// number of nodes and edges. The parameters stay the same and serve any size. The error wraps
// [models.ErrMismatch] and names any other difference.
func Rebind(spec models.Spec, obs, act space.Space) (models.Spec, error) {
	refuse := func(format string, args ...any) (models.Spec, error) {
		return models.Spec{}, fmt.Errorf("policies: %w: "+format, append([]any{models.ErrMismatch}, args...)...)
	}
	if spec.Nodes == nil {
		return refuse("the network has no nodes, so that it serves one size only")
	}
	nodes, wait, err := Nodes(obs, act)
	if err != nil {
		return refuse("%w", err)
	}
	old := spec.Nodes
	if nodes.Features != old.Features {
		return refuse("nodes have %d features, and had %d in training", nodes.Features, old.Features)
	}
	if slices.ContainsFunc(spec.Towers, func(t models.Tower) bool { return t.Layer != "" }) {
		if nodes.Edges == nil {
			return refuse("the observation has no leaf \"edges\", along which the network passes messages")
		}
		if nodes.Edges.Masked != old.Edges.Masked || len(old.Edges.Fixed) > 0 {
			return refuse("a leaf \"edge_mask\": %t, in training %t", nodes.Edges.Masked, old.Edges.Masked)
		}
	}
	_, actions := spec.Head(spec.Heads[0].Name)
	if had := actions > old.N; wait != had {
		return refuse("an action that chooses no node: %t, in training %t", wait, had)
	}
	s := spec
	s.Inputs, s.Nodes = obs.Size(), &nodes
	if got, want := s.NodeInputs(), spec.NodeInputs(); got != want {
		return refuse("%d numbers belong to no node or edge, and did %d in training", got-nodes.Features, want-old.Features)
	}
	return s, s.Validate()
}

func (n Network) dense(obs, act space.Space) (models.Spec, error) {
	switch a := act.(type) {
	case space.Discrete:
		return models.ActorCritic(obs.Size(), a.N, n.NetArch, n.ActivationFn), nil
	case space.MultiDiscrete:
		return models.MultiDiscreteActorCritic(obs.Size(), a.NVec, n.NetArch, n.ActivationFn), nil
	case space.MultiBinary:
		return models.ActorCritic(obs.Size(), a.N, n.NetArch, n.ActivationFn), nil
	case space.Box:
		return models.GaussianActorCritic(obs.Size(), a.Size(), n.NetArch, n.ActivationFn, n.LogStdInit), nil
	}
	return models.Spec{}, fmt.Errorf("policies: actions of kind %s, want discrete, multi_discrete, multi_binary or box", act.Describe().Kind)
}

// layerOf returns the kind of layers of a policy over nodes.
func layerOf(policy string) (string, error) {
	if layer, ok := layers[policy]; ok {
		return layer, nil
	}
	if _, ok := recurrent[policy]; ok {
		return "", fmt.Errorf("policies: policy %s, which is one of ppo_lstm", policy)
	}
	return "", fmt.Errorf("policies: policy %q, want %s, %s, %s or %s", policy, Mlp, Node, SAGE, GCN)
}

// Nodes returns the layout of nodes and edges in obs, and whether act has an action that chooses no
// node.
func Nodes(obs, act space.Space) (nodes models.Nodes, wait bool, err error) {
	dict, ok := obs.(space.Dict)
	if !ok {
		return nodes, false, fmt.Errorf("observations of kind %s, want a dict with a leaf \"nodes\"", obs.Describe().Kind)
	}
	edges, offset := models.Edges{Undirected: true}, 0
	for _, f := range dict.Fields {
		shape := f.Space.Describe().Shape
		switch f.Key {
		case "nodes":
			if len(shape) != 2 {
				return nodes, false, fmt.Errorf("leaf \"nodes\" of shape %v, want (N, F)", shape)
			}
			nodes.Offset, nodes.N, nodes.Features = offset, shape[0], shape[1]
		case "edges":
			if len(shape) != 2 || shape[1] != 2 {
				return nodes, false, fmt.Errorf("leaf \"edges\" of shape %v, want (E, 2)", shape)
			}
			edges.Offset, edges.N = offset, shape[0]
		case "edge_mask":
			edges.MaskOffset, edges.Masked = offset, true
		}
		offset += f.Space.Size()
	}
	if nodes.N == 0 {
		return nodes, false, fmt.Errorf("observations without a leaf \"nodes\"")
	}
	if edges.N > 0 {
		nodes.Edges = &edges
	}
	d, ok := act.(space.Discrete)
	if !ok || d.N != nodes.N && d.N != nodes.N+1 {
		return nodes, false, fmt.Errorf("actions %+v for %d nodes, want Discrete(%d) or Discrete(%d)", act, nodes.N, nodes.N, nodes.N+1)
	}
	return nodes, d.N > nodes.N, nil
}
