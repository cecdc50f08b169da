package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// The names of activation functions.
const (
	Tanh = "tanh"
	ReLU = "relu"
)

// HiddenGain is the gain of the orthogonal initialization of hidden layers, as in
// Stable-Baselines3.
const HiddenGain = math.Sqrt2

// Limits of a [Spec]. They bound the memory that a spec from a file can allocate.
const (
	MaxWidth      = 1 << 20 // of the inputs and of each layer
	MaxParameters = 1 << 28 // of a whole network: 1 GiB as float32
)

// ErrSpec is wrapped by the errors of [Spec.Validate] and of its callers.
var ErrSpec = errors.New("models: invalid spec")

// A Spec describes the function of a network. It is plain data: equal specs describe equal
// functions, given equal parameters. A row of Inputs numbers passes through each tower, and each
// head is an affine function of its tower's last layer.
//
// In a network of plain dense layers, Nodes, LSTMs and the fields that refer to them are zero and
// do not appear in its JSON.
type Spec struct {
	Inputs int     `json:"inputs"`          // numbers in one observation
	Nodes  *Nodes  `json:"nodes,omitempty"` // rows of nodes in an observation; nil: none
	LSTMs  []LSTM  `json:"lstms,omitempty"`
	Towers []Tower `json:"towers"`
	Heads  []Head  `json:"heads"` // in the order of a row of outputs
}

// A Tower is a stack of layers, each followed by the activation. A tower without hidden layers
// passes its input through.
//
// It reads the observation, or by name one of:
//   - [NodeRows]: each node's row followed by the globals, which are the numbers of the
//     observation that belong to no node or edge, and by the results of an LSTM, if Beside
//     names one. All nodes share the layers, so that the parameters do not depend on the
//     number of nodes. Such a tower is a node tower.
//   - an LSTM.
//   - a node tower before this one: its results, pooled over the nodes by Pool.
type Tower struct {
	Name       string `json:"name"`                 // PyTorch's name, such as "mlp_extractor.policy_net"
	Hidden     []int  `json:"hidden"`               // widths
	Activation string `json:"activation"`           // Tanh or ReLU; may be empty if Hidden is
	LayerNorm  bool   `json:"layer_norm,omitempty"` // torch.nn.LayerNorm between each layer and its activation
	Reads      string `json:"reads,omitempty"`      // empty: the observation
	Pool       string `json:"pool,omitempty"`       // Mean, Max or MeanMax, if and only if Reads is a node tower
	Layer      string `json:"layer,omitempty"`      // empty: dense; SAGE or GCN in a node tower of a spec with edges
	Detach     bool   `json:"detach,omitempty"`     // no gradient reaches the LSTM or node tower that it reads
	Beside     string `json:"beside,omitempty"`     // the LSTM that a node tower reads with each node's row; empty for none
}

// A Head is a layer without activation. Its results are a part of the outputs. The head of a node
// tower has Size results for each node, one node after another. A free head is an array of
// parameters that every row of outputs repeats, such as the log_std of Stable-Baselines3's Gaussian
// policies; its gradient is the sum over the rows.
type Head struct {
	Name   string  `json:"name"`             // PyTorch's name, such as "action_net"
	Tower  int     `json:"tower"`            // index of the tower that it reads; 0 if it is free
	Size   int     `json:"size"`             // numbers in its part of an output row, for each node if it reads a node tower
	Gain   float64 `json:"gain"`             // of the orthogonal initialization, greater than 0; 0 if it is free
	Joined bool    `json:"joined,omitempty"` // it continues the head before it: after N logits of nodes, that of the action that waits
	Blocks []int   `json:"blocks,omitempty"` // sizes of the categorical distributions side by side in a multi-discrete head; they sum to Size
	Free   bool    `json:"free,omitempty"`
	Value  float64 `json:"value,omitempty"` // the first value of all numbers of a free head
}

// String returns s as JSON.
func (s Spec) String() string {
	text, err := json.Marshal(s)
	if err != nil { // a gain is NaN or infinite
		return fmt.Sprintf("a spec that is not valid: %v", err)
	}
	return string(text)
}

// Equal reports whether s and t are the same description.
func (s Spec) Equal(t Spec) bool {
	return s.Inputs == t.Inputs && s.Nodes.equal(t.Nodes) && slices.Equal(s.LSTMs, t.LSTMs) &&
		slices.EqualFunc(s.Towers, t.Towers, Tower.equal) && slices.EqualFunc(s.Heads, t.Heads, Head.equal)
}

func (t Tower) equal(u Tower) bool {
	return t.Name == u.Name && slices.Equal(t.Hidden, u.Hidden) && t.Activation == u.Activation &&
		t.LayerNorm == u.LayerNorm && t.Reads == u.Reads && t.Pool == u.Pool && t.Layer == u.Layer && t.Detach == u.Detach &&
		t.Beside == u.Beside
}

func (h Head) equal(g Head) bool {
	return h.Name == g.Name && h.Tower == g.Tower && h.Size == g.Size && h.Gain == g.Gain && h.Joined == g.Joined &&
		slices.Equal(h.Blocks, g.Blocks) && h.Free == g.Free && h.Value == g.Value
}

// Outputs returns the length of an output row, the sum of the widths of the heads.
func (s Spec) Outputs() int {
	n := 0
	for i := range s.Heads {
		n += s.HeadWidth(i)
	}
	return n
}

// Head returns offset and size of the named head in an output row, including the heads joined to
// it. The size is 0 if there is no such head.
func (s Spec) Head(name string) (offset, size int) {
	for i, h := range s.Heads {
		if h.Name == name {
			size = s.HeadWidth(i)
			for j := i + 1; j < len(s.Heads) && s.Heads[j].Joined; j++ {
				size += s.HeadWidth(j)
			}
			return offset, size
		}
		offset += s.HeadWidth(i)
	}
	return 0, 0
}

// HeadWidth returns the number of outputs of head i in a row.
func (s Spec) HeadWidth(i int) int {
	h := s.Heads[i]
	if !h.Free && h.Tower >= 0 && h.Tower < len(s.Towers) && s.PerNode(h.Tower) {
		return h.Size * s.Nodes.N
	}
	return h.Size
}

// PerNode reports whether tower i is a node tower.
func (s Spec) PerNode(i int) bool { return s.Nodes != nil && s.Towers[i].Reads == NodeRows }

// NodeInputs returns the width of a node's row with the globals, in a valid spec with nodes.
func (s Spec) NodeInputs() int { return s.Nodes.Features + s.globals() }

// TowerInputs returns the width of the input of tower i of a valid spec. For a node tower, the
// input is a node's row with the globals and the results of an LSTM beside it.
func (s Spec) TowerInputs(i int) int {
	t := s.Towers[i]
	switch {
	case t.Reads == "":
		return s.Inputs
	case s.PerNode(i) && t.Beside != "":
		return s.NodeInputs() + s.LSTMs[s.lstm(t.Beside)].Hidden
	case s.PerNode(i):
		return s.NodeInputs()
	}
	if l := s.lstm(t.Reads); l >= 0 {
		return s.LSTMs[l].Hidden
	}
	return len(poolings[t.Pool]) * s.TowerOutputs(s.tower(t.Reads))
}

// TowerOutputs returns the width of the results of tower i of a valid spec.
func (s Spec) TowerOutputs(i int) int {
	if hidden := s.Towers[i].Hidden; len(hidden) > 0 {
		return hidden[len(hidden)-1]
	}
	return s.TowerInputs(i)
}

// Source returns the indices of the LSTM and of the node tower that tower i reads, -1 for none. A
// node tower may read an LSTM beside the nodes.
func (s Spec) Source(i int) (lstm, tower int) {
	t := s.Towers[i]
	switch {
	case s.PerNode(i):
		return s.lstm(t.Beside), -1
	case t.Reads == "":
		return -1, -1
	}
	return s.lstm(t.Reads), s.tower(t.Reads)
}

func (s Spec) lstm(name string) int {
	return slices.IndexFunc(s.LSTMs, func(l LSTM) bool { return l.Name == name })
}

func (s Spec) tower(name string) int {
	return slices.IndexFunc(s.Towers, func(t Tower) bool { return t.Name == name })
}
