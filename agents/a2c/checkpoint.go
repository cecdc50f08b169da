package a2c

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/categorical"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/safetensors"
)

// Algo is the name of the algorithm in checkpoints and on the command line.
const Algo = "a2c"

// rngTensor holds the state of the learner's random generator.
const rngTensor = models.StatePrefix + "rng"

// scalars is the part of a learner's state that is no array.
type scalars struct {
	NumTimesteps int `json:"num_timesteps"`
	NUpdates     int `json:"n_updates"`
}

// Save implements [agents.Learner]. It is an error in the middle of a rollout.
func (l *Learner) Save(w io.Writer) error {
	if l.buf.Step() != 0 {
		return fmt.Errorf("a2c: save %d steps into a rollout, want before its first step", l.buf.Step())
	}
	meta, err := l.env.Checkpoint(Algo, l.spec)
	if err != nil {
		return err
	}
	if meta.Config, err = json.Marshal(l.cfg); err != nil {
		return fmt.Errorf("a2c: save: %w", err)
	}
	if meta.State, err = json.Marshal(scalars{l.numTimesteps, l.nUpdates}); err != nil {
		return fmt.Errorf("a2c: save: %w", err)
	}
	meta.Seed, meta.Timesteps = l.seed, int64(l.numTimesteps)
	f := models.File{Meta: meta}
	f.PutParams(l.params)
	l.optimizer.Save(&f)
	rng, err := l.src.MarshalBinary()
	if err != nil {
		return fmt.Errorf("a2c: save: %w", err)
	}
	f.Put(safetensors.Tensor{Name: rngTensor, Shape: []int{len(rng)}, Data: rng})
	return models.Write(w, f)
}

// Load implements [agents.Learner]. The checkpoint must be of the same environment, spaces and
// network, and from the same optimizer; other hyperparameters are those given to New. The learner
// is unchanged after an error.
func (l *Learner) Load(r io.Reader) error {
	f, err := models.Read(r)
	if err != nil {
		return err
	}
	want, err := l.env.Checkpoint(Algo, l.spec)
	if err != nil {
		return err
	}
	if err := f.Meta.Match(want); err != nil {
		return err
	}
	var s scalars
	if err := json.Unmarshal(f.Meta.State, &s); err != nil {
		return fmt.Errorf("a2c: load: %w: state: %w", models.ErrMismatch, err)
	}
	t, err := f.Tensor(rngTensor)
	if err != nil {
		return err
	}
	rng, err := safetensors.As[uint8](t)
	if err != nil {
		return fmt.Errorf("a2c: load: %w: %w", models.ErrMismatch, err)
	}
	restored := *l.src
	if err := restored.UnmarshalBinary(rng); err != nil {
		return fmt.Errorf("a2c: load: %w: %w", models.ErrMismatch, err)
	}
	params := slices.Clone(l.params)
	for i := range params {
		params[i].Value = make([]float32, len(l.params[i].Value))
	}
	if err := f.Params(params); err != nil {
		return err
	}
	if err := l.optimizer.Load(f); err != nil {
		return err
	}
	for i, p := range params { // only now, when nothing can fail
		copy(l.params[i].Value, p.Value)
	}
	*l.src = restored
	l.numTimesteps, l.nUpdates = s.NumTimesteps, s.NUpdates
	l.buf.Clear()
	return nil
}

// Greedy implements [agents.Learner].
func (l *Learner) Greedy() agents.Policy { return &greedy{net: l.net, spec: l.spec} }

// NewPolicy returns the greedy policy of a network that holds the parameters of a checkpoint
// of this package.
func NewPolicy(net models.Network, spec models.Spec) agents.Policy {
	return &greedy{net: net, spec: spec}
}

// greedy takes the most probable of the permitted actions.
type greedy struct {
	net  models.Network
	spec models.Spec
}

// Act implements [agents.Policy].
func (g *greedy) Act(b *envs.Batch, actions []float32) error {
	n, k := len(b.Reward), g.spec.Outputs()
	_, size := g.spec.Head("action_net")
	out, err := g.net.Forward(b.Obs, n)
	if err != nil {
		return fmt.Errorf("a2c: act: %w", err)
	}
	m := len(b.Mask) / n
	for i := range n {
		actions[i] = float32(categorical.Mode(out[i*k:i*k+size], b.Mask[i*m:(i+1)*m]))
	}
	return nil
}
