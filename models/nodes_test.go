package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// graphSpec is of 4 nodes with 3 features between a mask of 6 edges, a global number, the
// edges and two more globals.
func graphSpec() Spec {
	return NodeActorCritic(33, Nodes{Offset: 7, N: 4, Features: 3, Edges: &Edges{Offset: 19, N: 6, Masked: true, MaskOffset: 0}},
		[]int{8}, Tanh, SAGE, MeanMax, true)
}

func TestGlobals(t *testing.T) {
	s := graphSpec()
	if diff := cmp.Diff([]Range{{6, 7}, {31, 33}}, s.Globals()); diff != "" {
		t.Errorf("Globals (-want +got):\n%s", diff)
	}
	if got := s.TowerInputs(0); got != 3+3 {
		t.Errorf("TowerInputs = %d, want 6", got)
	}
	if got := s.TowerInputs(2); got != 16 {
		t.Errorf("TowerInputs of a pooled tower = %d, want 16", got)
	}
	// 4 logits of nodes and one of waiting, then the value
	if got := s.Outputs(); got != 6 {
		t.Errorf("Outputs = %d, want 6", got)
	}
	if offset, size := s.Head("action_net"); offset != 0 || size != 5 {
		t.Errorf("Head(action_net) = %d, %d, want 0, 5", offset, size)
	}
	if offset, size := s.Head("value_net"); offset != 5 || size != 1 {
		t.Errorf("Head(value_net) = %d, %d, want 5, 1", offset, size)
	}
}

func TestAppendEdges(t *testing.T) {
	s := graphSpec()
	obs := make([]float32, s.Inputs)
	copy(obs, []float32{1, 0, 1, 1, 0, 0})
	copy(obs[19:], []float32{0, 1, 9, 9, 2, 2, 3, 1})
	got, err := s.AppendEdges(nil, obs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][2]int32{{0, 1}, {2, 2}, {3, 1}}, got); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
	s.Nodes.Edges.Undirected = true
	got, _ = s.AppendEdges(nil, obs)
	if diff := cmp.Diff([][2]int32{{0, 1}, {1, 0}, {2, 2}, {3, 1}, {1, 3}}, got); diff != "" {
		t.Errorf("undirected edges (-want +got):\n%s", diff)
	}
	if len(got) > s.MaxEdges() {
		t.Errorf("%d edges, MaxEdges is %d", len(got), s.MaxEdges())
	}
	for _, bad := range []float64{-1, 4, 0.5, math.NaN(), math.Inf(1), 1e30} {
		obs[20] = float32(bad)
		if _, err := s.AppendEdges(nil, obs); !errors.Is(err, ErrEdge) || !strings.Contains(err.Error(), "edge 0 is from node 0 to node") {
			t.Errorf("edge to %v: %v, want %v", bad, err, ErrEdge)
		}
	}
}

// One size's parameters are another's, and a file of theirs loads.
func TestWithNodes(t *testing.T) {
	s := graphSpec()
	big, err := s.WithNodes(1213, 5000)
	if err != nil {
		t.Fatal(err)
	}
	want := NodeActorCritic(5000+1+1213*3+10000+2,
		Nodes{Offset: 5001, N: 1213, Features: 3, Edges: &Edges{Offset: 5001 + 3639, N: 5000, Masked: true}}, []int{8}, Tanh, SAGE, MeanMax, true)
	if !big.Equal(want) {
		t.Errorf("WithNodes = %v, want %v", big, want)
	}
	if s.Nodes.N != 4 || s.Nodes.Edges.N != 6 {
		t.Error("WithNodes changed its receiver")
	}
	if diff := cmp.Diff(ParamLayout(s), ParamLayout(big)); diff != "" {
		t.Errorf("parameters (-small +big):\n%s", diff)
	}
	params := NewParams(s)
	Init(params, s, rand.New(rand.NewPCG(1, 2)))
	var buf bytes.Buffer
	if _, err := WriteParams(&buf, params); err != nil {
		t.Fatal(err)
	}
	got := NewParams(big)
	if _, err := ReadParams(&buf, got); err != nil {
		t.Fatal(err)
	}
	for i := range params {
		if !slices.Equal(params[i].Value, got[i].Value) {
			t.Errorf("%s differs", params[i].Name)
		}
	}
	if back, err := big.WithNodes(4, 6); err != nil || !back.Equal(s) {
		t.Errorf("back to 4 nodes: %+v, %v", back, err)
	}
	fixed := graphSpec()
	fixed.Nodes.Edges = &Edges{Fixed: [][2]int{{0, 1}}}
	for name, tt := range map[string]struct {
		spec         Spec
		nodes, edges int
		want         string
	}{
		"no nodes":    {ActorCritic(4, 2, []int{8}, Tanh), 5, 0, "no nodes"},
		"fixed edges": {fixed, 5, 0, "edges fixed for 4 nodes"},
		"no edges":    {fixed, 4, 3, "the observation has none"},
		"zero":        {s, 0, 6, "0 nodes"},
		"too many":    {s, 1 << 40, 6, "nodes"},
		"edges gone":  {s, 4, 0, "edges"},
	} {
		if _, err := tt.spec.WithNodes(tt.nodes, tt.edges); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestValidateNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"no nodes":          {func(s *Spec) { s.Nodes = nil }, "the spec has none"},
		"number":            {func(s *Spec) { s.Nodes.N = 0 }, "nodes: size 0"},
		"features":          {func(s *Spec) { s.Nodes.Features = -1 }, "nodes: size -1"},
		"offset":            {func(s *Spec) { s.Nodes.Offset = -1 }, "out of range"},
		"end":               {func(s *Spec) { s.Nodes.Offset = 30 }, "out of range"},
		"overflow":          {func(s *Spec) { s.Nodes.Offset = math.MaxInt - 5 }, "out of range"},
		"overlap":           {func(s *Spec) { s.Nodes.Edges.Offset = 18 }, "used twice"},
		"mask overlaps":     {func(s *Spec) { s.Nodes.Edges.MaskOffset = 2 }, "used twice"},
		"edges":             {func(s *Spec) { s.Nodes.Edges.N = 0 }, "edges"},
		"both edges":        {func(s *Spec) { s.Nodes.Edges.Fixed = [][2]int{{0, 1}} }, "want one of them"},
		"fixed edge":        {func(s *Spec) { s.Nodes.Edges = &Edges{Fixed: [][2]int{{0, 4}}} }, "fixed edge 0"},
		"negative edge":     {func(s *Spec) { s.Nodes.Edges = &Edges{Fixed: [][2]int{{-1, 0}}} }, "fixed edge 0"},
		"layer":             {func(s *Spec) { s.Towers[0].Layer = "gat" }, `layer "gat"`},
		"messages, no edge": {func(s *Spec) { s.Nodes.Edges = nil }, "no edges"},
		"layer of a vector": {func(s *Spec) { s.Towers[2].Layer = SAGE }, "does not read"},
		"pool":              {func(s *Spec) { s.Towers[2].Pool = "sum" }, `pool "sum"`},
		"no pool":           {func(s *Spec) { s.Towers[2].Pool = "" }, `pool ""`},
		"pool of nodes":     {func(s *Spec) { s.Towers[0].Pool = Mean }, "pools"},
		"reads":             {func(s *Spec) { s.Towers[2].Reads = "none" }, `reads "none"`},
		"reads what is not": {func(s *Spec) { s.Towers[0].Reads, s.Towers[0].Layer = s.Towers[2].Name, "" }, "no node tower before"},
		"no hidden layers":  {func(s *Spec) { s.Towers[0].Hidden = nil }, "at least one"},
		"name":              {func(s *Spec) { s.Towers[0].Name = NodeRows }, "named twice"},
		"joined":            {func(s *Spec) { s.Heads[0].Joined = true }, "is the first"},
		"blocks":            {func(s *Spec) { s.Heads[1].Blocks = []int{1, 1} }, "sum to 2, want 1"},
		"blocks of nodes":   {func(s *Spec) { s.Heads[0].Blocks = []int{1} }, "each node has blocks"},
		"value":             {func(s *Spec) { s.Heads[0].Value = 1 }, "not free"},
		"free with gain":    {func(s *Spec) { s.Heads[1].Free = true }, "free, with tower 2"},
		"free NaN": {func(s *Spec) {
			s.Heads = append(s.Heads, Head{Name: "log_std", Size: 1, Free: true, Value: math.NaN()})
		}, "value NaN"},
		"unread tower": {func(s *Spec) {
			s.Towers = append(s.Towers, Tower{Name: "x", Reads: s.Towers[0].Name, Pool: Mean})
		}, "read by no head"},
		"outputs": {func(s *Spec) { s.Heads[0].Size = MaxWidth }, "outputs"},
	} {
		s := graphSpec()
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		tt.change(&s)
		if err := s.Validate(); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if s.Equal(graphSpec()) {
			t.Errorf("%s: Equal does not see the change", name)
		}
	}
	// A free head of a spec of nodes without towers
	s := Spec{Inputs: 4, Nodes: &Nodes{N: 2, Features: 2}, Heads: []Head{{Name: "h", Size: 1, Free: true}}}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateLSTM(t *testing.T) {
	spec := func() Spec { return RecurrentActorCritic(4, 2, []int{8}, Tanh, 1, 6, CriticLSTM) }
	for name, tt := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"name":          {func(s *Spec) { s.LSTMs[0].Name = "" }, "name is empty"},
		"twice":         {func(s *Spec) { s.LSTMs[0].Name = "lstm_critic" }, "named twice"},
		"layers":        {func(s *Spec) { s.LSTMs[0].Layers = -1 }, "-1 layers"},
		"many layers":   {func(s *Spec) { s.LSTMs[0].Layers = 17 }, "17 layers"},
		"cells":         {func(s *Spec) { s.LSTMs[0].Hidden = 0 }, "size 0"},
		"unread":        {func(s *Spec) { s.Towers[1].Reads = "lstm_actor" }, "read by no tower"},
		"pool":          {func(s *Spec) { s.Towers[1].Pool = Mean }, "no nodes"},
		"detached rows": {func(s *Spec) { s.Towers[1].Reads, s.Towers[1].Detach = "", true }, "detaches the observation"},
	} {
		s := spec()
		tt.change(&s)
		if err := s.Validate(); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if s.Equal(spec()) {
			t.Errorf("%s: Equal does not see the change", name)
		}
	}
}

func TestValidateLSTMBesideNodes(t *testing.T) {
	spec := func() Spec { return WithLSTM(graphSpec(), 1, 6, CriticLSTM) }
	if s := spec(); s.Validate() != nil || s.LSTMInputs(0) != 3+2*3 || s.TowerInputs(0) != 3+3+6 {
		t.Fatalf("%v: %v, LSTM of %d inputs, tower of %d, want 9 and 12", s, s.Validate(), s.LSTMInputs(0), s.TowerInputs(0))
	}
	for name, tt := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"pool":           {func(s *Spec) { s.LSTMs[0].Pool = "sum" }, `lstm "lstm_actor": pool "sum", want "mean", "max" or "mean+max"`},
		"pool, no nodes": {func(s *Spec) { s.Nodes = nil }, `lstm "lstm_actor": pool "mean+max", but the spec has no nodes`},
		"beside what":    {func(s *Spec) { s.Towers[0].Beside = "lstm" }, `reads "lstm" beside nodes, which is no lstm`},
		"beside a tower": {func(s *Spec) { s.Towers[1].Beside = s.Towers[0].Name }, "beside nodes, which is no lstm"},
		"not of nodes":   {func(s *Spec) { s.Towers[2].Beside = "lstm_actor" }, `reads "lstm_actor" beside nodes, but does not read "nodes"`},
		"unread":         {func(s *Spec) { s.Towers[1].Beside = "" }, `lstm "lstm_critic" is read by no tower`},
		"detached rows":  {func(s *Spec) { s.Towers[1].Beside, s.Towers[1].Detach = "", true }, "pools or detaches nodes"},
		"cells":          {func(s *Spec) { s.LSTMs[0].Hidden = 0 }, "size 0"},
	} {
		s := spec()
		tt.change(&s)
		if err := s.Validate(); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if s.Equal(spec()) {
			t.Errorf("%s: Equal does not see the change", name)
		}
	}
}

// A spec of all kinds comes back from JSON, and a plain one has the JSON of before.
func TestSpecJSONOfKinds(t *testing.T) {
	norm := ActorCritic(4, 2, []int{8}, ReLU)
	norm.Towers[0].LayerNorm = true
	for _, want := range []Spec{
		norm, graphSpec(), GaussianActorCritic(4, 2, []int{8}, Tanh, -0.5), MultiDiscreteActorCritic(4, []int{2, 3}, []int{8}, Tanh),
		RecurrentActorCritic(4, 2, []int{8}, Tanh, 2, 6, SharedLSTM), WithLSTM(graphSpec(), 2, 6, SharedLSTM),
	} {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Spec
		if err := json.Unmarshal(b, &got); err != nil || !got.Equal(want) {
			t.Errorf("%s became %v, %v", b, got, err)
		}
	}
	got, err := json.Marshal(ActorCritic(4, 2, []int{8}, ReLU))
	want := `{"inputs":4,"towers":[{"name":"mlp_extractor.policy_net","hidden":[8],"activation":"relu"},` +
		`{"name":"mlp_extractor.value_net","hidden":[8],"activation":"relu"}],` +
		`"heads":[{"name":"action_net","tower":0,"size":2,"gain":0.01},{"name":"value_net","tower":1,"size":1,"gain":1}]}`
	if err != nil || string(got) != want {
		t.Errorf("JSON is %s, want %s", got, want)
	}
	if got := ActorCritic(4, 2, []int{8}, ReLU).String(); got != want {
		t.Errorf("String is %s, want %s", got, want)
	}
	if got := (Spec{Heads: []Head{{Gain: math.NaN()}}}).String(); !strings.Contains(got, "not valid") {
		t.Errorf("String of a gain that is no number is %s", got)
	}
}
