// Package qlearning holds the common parts of learners of action values: an online and a target
// network with their optimizer, and the greedy policy. The comments cite these details by number:
//
//	[1] Double Q-learning: van Hasselt, Guez and Silver, arXiv:1509.06461, equation 4.
//	[2] Dueling heads: Wang et al., arXiv:1511.06581, equation 9.
//	[3] The Huber loss with threshold 1, as torch's smooth_l1_loss.
//	[4] Weights and biases start with PyTorch's default, as Stable-Baselines3 leaves it for DQN,
//	    and not orthogonal. Action values then start near 0.
package qlearning

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/categorical"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

// NetworkSpec returns the network n of the learner algo: one tower with a head of action values or, if
// dueling, with heads of advantages and of one state value. The actions must be Discrete.
func NetworkSpec(algo string, n policies.Network, obs, act space.Space, dueling bool) (models.Spec, error) {
	if _, ok := act.(space.Discrete); !ok {
		return models.Spec{}, fmt.Errorf("%s: actions of kind %s, want discrete", algo, act.Describe().Kind)
	}
	return n.ActionValues(obs, act, dueling)
}

// Networks holds the online and the target network of a learner. It is not safe for concurrent use.
type Networks struct {
	Head                 Head
	Online, Target       models.Network
	Params, TargetParams []models.Param
	Adam                 *optim.Adam // of the online network

	algo string
	q    []float32 // action values of one row
	best []int     // actions of next observations
}

// New takes two networks of spec from newNetwork, the online one and then the target network, and
// gives both the same first parameters, drawn from rng [4]. Batches have batchSize rows.
func New(algo string, spec models.Spec, newNetwork agents.NetworkBuilder, batchSize int, rng *rand.Rand) (*Networks, error) {
	n := &Networks{Head: NewHead(spec), algo: algo, best: make([]int, batchSize)}
	n.q = make([]float32, n.Head.Actions)
	var err error
	if n.Online, err = newNetwork(spec); err != nil {
		return nil, err
	}
	if n.Target, err = newNetwork(spec); err != nil {
		return nil, err
	}
	n.Params, n.TargetParams = n.Online.Params(), n.Target.Params()
	if len(n.Params) != len(n.TargetParams) {
		return nil, fmt.Errorf("%s: target network has %d parameters, want %d", algo, len(n.TargetParams), len(n.Params))
	}
	initialize(n.Params, rng)
	n.CopyToTarget()
	n.Adam = optim.NewAdam(n.Params, optim.DefaultAdam())
	return n, nil
}

// initialize draws each weight, and the bias after it, uniformly from ±1/√inputs, as
// torch.nn.Linear does. Layer norms keep their values.
func initialize(params []models.Param, rng *rand.Rand) {
	bound := 0.0
	for i, p := range params {
		if len(p.Shape) == 1 && (i == 0 || len(params[i-1].Shape) == 1) {
			continue // biases are initialized with their weights
		}
		if len(p.Shape) == 2 {
			bound = 1 / math.Sqrt(float64(p.Shape[0]))
		}
		for j := range p.Value {
			p.Value[j] = float32(bound * (2*rng.Float64() - 1))
		}
	}
}

// CopyToTarget copies the online network to the target network.
func (n *Networks) CopyToTarget() {
	for i, p := range n.Params {
		copy(n.TargetParams[i].Value, p.Value)
	}
}

// NextValues sets next to the target network's values of the best permitted actions at obs. With
// doubleQ, the online network chooses these actions [1].
func (n *Networks) NextValues(next, obs []float32, mask []bool, doubleQ bool) error {
	m := n.Head.Actions
	if doubleQ {
		out, err := n.Online.Forward(obs, len(next))
		if err != nil {
			return fmt.Errorf("%s: choice of next actions: %w", n.algo, err)
		}
		for i := range next {
			n.best[i] = categorical.Mode(n.Head.Values(n.q, out, i), mask[i*m:(i+1)*m])
		}
	}
	out, err := n.Target.Forward(obs, len(next))
	if err != nil {
		return fmt.Errorf("%s: value of next observations: %w", n.algo, err)
	}
	for i := range next {
		q := n.Head.Values(n.q, out, i)
		if !doubleQ {
			n.best[i] = categorical.Mode(q, mask[i*m:(i+1)*m])
		}
		next[i] = q[n.best[i]]
	}
	return nil
}

// Huber returns d²/2 where |d| < 1, and |d| − 1/2 elsewhere, with the derivative [3].
func Huber(d float64) (loss, slope float64) {
	if math.Abs(d) < 1 {
		return d * d / 2, d
	}
	return math.Abs(d) - 0.5, math.Copysign(1, d)
}

// targetPrefix begins the names of the target network's parameters.
const targetPrefix = models.StatePrefix + "target."

// Save adds the optimizer and the target network to a checkpoint, which holds the parameters.
func (n *Networks) Save(f *models.File) {
	n.Adam.Save(f)
	for _, p := range n.TargetParams {
		f.PutState(targetPrefix, p, p.Value)
	}
}

// Load reads both networks and the optimizer from a checkpoint. They are unchanged after an error.
func (n *Networks) Load(f models.File) error {
	params, target := agents.Blank(n.Params), agents.Blank(n.TargetParams)
	if err := f.Params(params); err != nil {
		return err
	}
	for _, p := range target {
		if err := f.State(targetPrefix, p, p.Value); err != nil {
			return err
		}
	}
	if err := n.Adam.Load(f); err != nil {
		return err
	}
	for i := range params { // nothing can fail from here on
		copy(n.Params[i].Value, params[i].Value)
		copy(n.TargetParams[i].Value, target[i].Value)
	}
	return nil
}
