package models

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// names lists the parameters as "name shape", in PyTorch's layout.
func names(s Spec) []string {
	var l []string
	for _, p := range ParamLayout(s) {
		l = append(l, fmt.Sprint(p.Name, " ", fileShape(p.Shape)))
	}
	return l
}

// The names and shapes of sb3-contrib's RecurrentPPO("MlpLstmPolicy", env, policy_kwargs=dict(
// n_lstm_layers=2, lstm_hidden_size=6, net_arch=[8])).policy.state_dict() for 4 observations and
// 2 actions, of torch.nn.LSTM(4, 6, 2) within.
func TestRecurrentLayout(t *testing.T) {
	var want []string
	for _, net := range []string{"policy", "value"} {
		want = append(want, fmt.Sprintf("mlp_extractor.%s_net.0.weight [8 6]", net), fmt.Sprintf("mlp_extractor.%s_net.0.bias [8]", net))
	}
	want = append(want, "action_net.weight [2 8]", "action_net.bias [2]", "value_net.weight [1 8]", "value_net.bias [1]")
	for _, l := range []string{"lstm_actor", "lstm_critic"} {
		want = append(want,
			l+".weight_ih_l0 [24 4]", l+".weight_hh_l0 [24 6]", l+".bias_ih_l0 [24]", l+".bias_hh_l0 [24]",
			l+".weight_ih_l1 [24 6]", l+".weight_hh_l1 [24 6]", l+".bias_ih_l1 [24]", l+".bias_hh_l1 [24]")
	}
	s := RecurrentActorCritic(4, 2, []int{8}, Tanh, 2, 6, CriticLSTM)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, names(s)); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
	if got := s.StateSize(); got != 2*2*2*6 {
		t.Errorf("StateSize = %d, want 48", got)
	}
	dense := names(RecurrentActorCritic(4, 2, []int{8}, Tanh, 1, 6, NoLSTM))
	if diff := cmp.Diff([]string{"critic.weight [6 4]", "critic.bias [6]"}, dense[len(dense)-2:]); diff != "" {
		t.Errorf("critic without LSTM (-want +got):\n%s", diff)
	}
}

// LSTMs beside nodes read 2 globals and, of 3 features, the mean and the maximum; towers read a
// node's row, the globals and 6 cells. The shapes are those of torch.nn.LSTM and torch.nn.Linear,
// whatever the number of nodes.
func TestRecurrentNodeLayout(t *testing.T) {
	spec := func(pool, critic string) Spec {
		return WithLSTM(NodeActorCritic(2+3*4, Nodes{Offset: 1, N: 4, Features: 3}, []int{8}, Tanh, "", pool, true), 1, 6, critic)
	}
	var want []string
	for _, net := range []string{"policy", "value"} {
		want = append(want, fmt.Sprintf("mlp_extractor.%s_net.0.weight [8 11]", net), fmt.Sprintf("mlp_extractor.%s_net.0.bias [8]", net))
	}
	want = append(want, "action_net.weight [1 8]", "action_net.bias [1]", "wait_net.weight [1 16]", "wait_net.bias [1]", "value_net.weight [1 16]", "value_net.bias [1]")
	for _, l := range []string{"lstm_actor", "lstm_critic"} {
		want = append(want, l+".weight_ih_l0 [24 8]", l+".weight_hh_l0 [24 6]", l+".bias_ih_l0 [24]", l+".bias_hh_l0 [24]")
	}
	s := spec(MeanMax, CriticLSTM)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, names(s)); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
	larger, err := s.WithNodes(729, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, names(larger)); diff != "" {
		t.Errorf("layout for 729 nodes (-want +got):\n%s", diff)
	}
	if got := s.StateSize(); got != 2*2*6 {
		t.Errorf("StateSize = %d, want 24", got)
	}
	// Of one kind of pooling the LSTM reads 2+3 numbers, and so does the dense layer in its place.
	dense := names(spec(Max, NoLSTM))
	if diff := cmp.Diff([]string{"lstm_actor.weight_ih_l0 [24 5]", "critic.weight [6 5]", "critic.bias [6]"}, []string{dense[len(dense)-6], dense[len(dense)-2], dense[len(dense)-1]}); diff != "" {
		t.Errorf("layout of one kind of pooling (-want +got):\n%s", diff)
	}
	shared := spec(Mean, SharedLSTM)
	if err := shared.Validate(); err != nil || !shared.Towers[1].Detach || shared.Towers[1].Beside != "lstm_actor" || len(shared.LSTMs) != 1 {
		t.Errorf("shared: %v, %v, want the value's tower detached beside the policy's LSTM", shared, err)
	}
}

// Names of torch.nn.Sequential(Linear, LayerNorm, Tanh, Linear, ...), of PyTorch Geometric's
// SAGEConv and GCNConv in such a sequence, and of Stable-Baselines3's Gaussian policy, whose
// state_dict begins with log_std.
func TestLayoutOfKinds(t *testing.T) {
	norm := GaussianActorCritic(4, 2, []int{8, 8}, Tanh, -1)
	norm.Towers[0].LayerNorm = true
	got := names(norm)
	if diff := cmp.Diff([]string{
		"log_std [2]",
		"mlp_extractor.policy_net.0.weight [8 4]", "mlp_extractor.policy_net.0.bias [8]",
		"mlp_extractor.policy_net.1.weight [8]", "mlp_extractor.policy_net.1.bias [8]",
		"mlp_extractor.policy_net.3.weight [8 8]", "mlp_extractor.policy_net.3.bias [8]",
		"mlp_extractor.policy_net.4.weight [8]", "mlp_extractor.policy_net.4.bias [8]",
		"mlp_extractor.value_net.0.weight [8 4]",
	}, got[:10]); diff != "" {
		t.Errorf("layout (-want +got):\n%s", diff)
	}
	graph := graphSpec()
	graph.Towers[1].Layer = GCN
	if diff := cmp.Diff([]string{
		"mlp_extractor.policy_net.0.lin_l.weight [8 6]", "mlp_extractor.policy_net.0.lin_l.bias [8]", "mlp_extractor.policy_net.0.lin_r.weight [8 6]",
		"mlp_extractor.value_net.0.lin.weight [8 6]", "mlp_extractor.value_net.0.bias [8]",
		"action_net.weight [1 8]", "action_net.bias [1]", "wait_net.weight [1 16]", "wait_net.bias [1]", "value_net.weight [1 16]", "value_net.bias [1]",
	}, names(graph)); diff != "" {
		t.Errorf("layout of a graph (-want +got):\n%s", diff)
	}
}

// The LSTM and the dense layer read 9 numbers: an observation, or 3 globals and three features
// pooled in two ways.
func TestInitOfKinds(t *testing.T) {
	checkInit(t, RecurrentActorCritic(9, 2, []int{8}, Tanh, 1, 25, NoLSTM))
	nodes := NodeActorCritic(3+5*3, Nodes{N: 5, Features: 3}, []int{8}, Tanh, "", MeanMax, false)
	checkInit(t, WithLSTM(nodes, 1, 25, NoLSTM))
}

func checkInit(t *testing.T, s Spec) {
	t.Helper()
	s.Towers[0].LayerNorm = true
	s.Heads = append(s.Heads, Head{Name: "log_std", Size: 2, Free: true, Value: -0.5})
	params := NewParams(s)
	Init(params, s, rand.New(rand.NewPCG(1, 2)))
	constants := map[string]float32{
		"log_std": -0.5, "mlp_extractor.policy_net.1.weight": 1, "mlp_extractor.policy_net.1.bias": 0, "action_net.bias": 0,
	}
	// 1/√25 and 1/√9; of 100 or more uniform numbers the largest is within a tenth of the bound
	// but for 0.9^100 = 3e-5.
	bounds := map[string]float64{
		"lstm_actor.weight_ih_l0": 0.2, "lstm_actor.weight_hh_l0": 0.2, "lstm_actor.bias_ih_l0": 0.2, "lstm_actor.bias_hh_l0": 0.2,
		"critic.weight": 1. / 3,
	}
	for _, p := range params {
		if want, ok := constants[p.Name]; ok {
			delete(constants, p.Name)
			for _, v := range p.Value {
				if v != want {
					t.Errorf("%s = %v, want %v", p.Name, p.Value, want)
				}
			}
		}
		if bound, ok := bounds[p.Name]; ok {
			delete(bounds, p.Name)
			low, high := 0.0, 0.0
			for _, v := range p.Value {
				low, high = min(low, float64(v)), max(high, float64(v))
			}
			if high > bound || low < -bound || high < 0.9*bound || low > -0.9*bound {
				t.Errorf("%s is from %v to %v, want nearly ±%v", p.Name, low, high, bound)
			}
		}
	}
	if len(constants)+len(bounds) > 0 {
		t.Errorf("no parameters %v, %v", constants, bounds)
	}
}

// Parameters of an LSTM or a Gaussian that the network lacks are found in a file.
func TestParamsRefusesKinds(t *testing.T) {
	for _, name := range []string{"lstm_actor.weight_ih_l0", "lstm_actor.bias_hh_l1", "log_std"} {
		f := testFile()
		f.Put(safetensors.Tensor{Name: name, Shape: []int{1}, Data: []float32{1}})
		if err := f.Params(testParams(2)); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v, want %v", name, err, ErrMismatch)
		}
	}
}
