package models

import "slices"

// ActorCritic returns the network of Stable-Baselines3's MlpPolicy with separate towers for
// policy and value: the heads are "action_net", with one output for each of actions and gain
// 0.01, and "value_net", with one output and gain 1.
func ActorCritic(inputs, actions int, hidden []int, activation string) Spec {
	tower := func(name string) Tower {
		return Tower{Name: "mlp_extractor." + name, Hidden: append([]int(nil), hidden...), Activation: activation}
	}
	return Spec{
		Inputs: inputs,
		Towers: []Tower{tower("policy_net"), tower("value_net")},
		Heads: []Head{
			{Name: "action_net", Tower: 0, Size: actions, Gain: 0.01},
			{Name: "value_net", Tower: 1, Size: 1, Gain: 1},
		},
	}
}

// MultiDiscreteActorCritic returns an [ActorCritic] for a MultiDiscrete action: "action_net" holds
// the logits of one categorical distribution after another, with the sizes nvec.
func MultiDiscreteActorCritic(inputs int, nvec []int, hidden []int, activation string) Spec {
	actions := 0
	for _, n := range nvec {
		actions += n
	}
	s := ActorCritic(inputs, actions, hidden, activation)
	s.Heads[0].Blocks = slices.Clone(nvec)
	return s
}

// GaussianActorCritic returns an [ActorCritic] for a Box action of the given number of elements.
// "action_net" holds the means. The free head "log_std", after "value_net" in a row of outputs,
// holds the logarithms of the standard deviations, which start at logStd: log_std_init in
// Stable-Baselines3, by default 0.
func GaussianActorCritic(inputs, actions int, hidden []int, activation string, logStd float64) Spec {
	s := ActorCritic(inputs, actions, hidden, activation)
	s.Heads = append(s.Heads, Head{Name: "log_std", Size: actions, Free: true, Value: logStd})
	return s
}

// NodeActorCritic returns a network whose policy and value each have a tower that all nodes share,
// with layers of the given kind: dense (empty), [SAGE] or [GCN]. The head "action_net" gives a
// logit for each node. If wait is true, "wait_net" adds one logit, from the policy's results pooled
// over the nodes. "value_net" reads the pooled results of the value's tower. Gains are those of
// [ActorCritic].
func NodeActorCritic(inputs int, nodes Nodes, hidden []int, activation, layer, pool string, wait bool) Spec {
	s := Spec{Inputs: inputs, Nodes: &nodes}
	for _, name := range []string{"policy_net", "value_net"} {
		s.Towers = append(s.Towers, Tower{
			Name: "mlp_extractor." + name, Hidden: slices.Clone(hidden), Activation: activation, Reads: NodeRows, Layer: layer,
		})
	}
	pooled := func(name string, tower int) int {
		s.Towers = append(s.Towers, Tower{Name: "mlp_extractor." + name, Reads: s.Towers[tower].Name, Pool: pool})
		return len(s.Towers) - 1
	}
	s.Heads = []Head{{Name: "action_net", Tower: 0, Size: 1, Gain: 0.01}}
	if wait {
		s.Heads = append(s.Heads, Head{Name: "wait_net", Tower: pooled("policy_pool", 0), Size: 1, Gain: 0.01, Joined: true})
	}
	s.Heads = append(s.Heads, Head{Name: "value_net", Tower: pooled("value_pool", 1), Size: 1, Gain: 1})
	return s
}

// Kinds of memory of the value in a [RecurrentActorCritic].
const (
	CriticLSTM = "lstm"   // its own LSTM: enable_critic_lstm of sb3-contrib, the default there
	SharedLSTM = "shared" // the policy's LSTM, without a gradient from the value: shared_lstm
	NoLSTM     = ""       // a dense layer of the same width
)

// RecurrentActorCritic returns the network of sb3-contrib's MlpLstmPolicy: an [ActorCritic] with
// LSTMs, see [Recurrent].
func RecurrentActorCritic(inputs, actions int, hidden []int, activation string, layers, cells int, critic string) Spec {
	return WithLSTM(ActorCritic(inputs, actions, hidden, activation), layers, cells, critic)
}

// WithLSTM adds LSTMs of the given layers and cells to s, an actor-critic whose first tower is the
// policy's and second the value's. The policy's tower then reads "lstm_actor". The value's reads
// "lstm_critic", "lstm_actor" or a dense layer "critic", depending on critic.
//
// Towers over nodes, those of a [NodeActorCritic], read the LSTM's results beside each node's row.
// These LSTMs read the globals and the pooled rows of the nodes; they pool as the value's tower
// does.
func WithLSTM(s Spec, layers, cells int, critic string) Spec {
	s.Towers = slices.Clone(s.Towers)
	pool := ""
	for _, t := range s.Towers {
		if t.Reads == s.Towers[1].Name {
			pool = t.Pool
		}
	}
	read := func(tower int, lstm string) {
		if t := &s.Towers[tower]; t.Reads == NodeRows {
			t.Beside = lstm
		} else {
			t.Reads = lstm
		}
	}
	s.LSTMs = []LSTM{{Name: "lstm_actor", Hidden: cells, Layers: layers, Pool: pool}}
	read(0, "lstm_actor")
	switch critic {
	case CriticLSTM:
		s.LSTMs = append(s.LSTMs, LSTM{Name: "lstm_critic", Hidden: cells, Layers: layers, Pool: pool})
		read(1, "lstm_critic")
	case SharedLSTM:
		read(1, "lstm_actor")
		s.Towers[1].Detach = true
	default:
		s.LSTMs = append(s.LSTMs, LSTM{Name: "critic", Hidden: cells, Pool: pool})
		read(1, "critic")
	}
	return s
}
