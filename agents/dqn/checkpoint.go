package dqn

import (
	"errors"
	"fmt"
	"io"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/qlearning"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/models"
)

// Algo is the name of the algorithm in checkpoints and on the command line.
const Algo = "dqn"

// counts are the numbers of a learner's state.
type counts struct {
	Timesteps   int `json:"num_timesteps"` // environment steps observed
	NUpdates    int `json:"n_updates"`     // gradient steps made
	Steps       int `json:"n_calls"`       // steps of the vector of environments
	SinceUpdate int `json:"since_update"`  // Steps since the last update was due
	BufferFrom  int `json:"buffer_from"`   // timestep at which the replay buffer was empty
}

var errNegative = errors.New("a number is negative")

// Save implements [agents.Learner]. Call it only when an Act would come next. If
// CheckpointReplayBuffer is false, it saves as SaveWithoutReplayBuffer does.
func (l *Learner) Save(w io.Writer) error { return l.save(w, l.cfg.CheckpointReplayBuffer) }

// SaveWithoutReplayBuffer saves a model to play. A training resumes from it as in Stable-Baselines3
// without a saved buffer: not bit for bit.
func (l *Learner) SaveWithoutReplayBuffer(w io.Writer) error { return l.save(w, false) }

func (l *Learner) save(w io.Writer, replayBuffer bool) error {
	if l.acted {
		return fmt.Errorf("dqn: save at timestep %d between Act and Observe", l.counts.Timesteps)
	}
	f, err := l.env.NewFile(agents.Record{
		Algo: Algo, Spec: l.spec, Config: l.cfg, State: l.counts, Seed: l.seed, Timesteps: l.counts.Timesteps,
	}, l.nets.Params)
	if err != nil {
		return err
	}
	l.nets.Save(&f)
	if err := agents.PutSource(&f, l.src); err != nil {
		return err
	}
	if replayBuffer {
		if err := l.buf.SaveCompressed(&f); err != nil {
			return fmt.Errorf("dqn: save: replay buffer: %w", err)
		}
	}
	return models.Write(w, f)
}

// Load implements [agents.Learner]. The checkpoint must be of the same environment, spaces and
// network, and its replay buffer, if it has one, of the same size and number of environments;
// hyperparameters are those given to New. Without a buffer, learning starts again LearningStarts
// steps later; exploration continues. The learner is unchanged after an error.
func (l *Learner) Load(r io.Reader) error {
	var s counts
	f, err := l.env.ReadFile(r, Algo, l.spec, &s)
	if err != nil {
		return err
	}
	if min(s.Timesteps, s.NUpdates, s.Steps, s.SinceUpdate, s.BufferFrom) < 0 {
		return fmt.Errorf("dqn: load: %w: state: %w", models.ErrMismatch, errNegative)
	}
	restored, err := agents.Source(f)
	if err != nil {
		return err
	}
	buf, err := l.buf.LoadCompressed(f)
	if err != nil {
		return err
	}
	if !replay.InCheckpoint(f) {
		s.BufferFrom, s.SinceUpdate = s.Timesteps, 0
	}
	if err := l.nets.Load(f); err != nil { // last, since it can fail
		return err
	}
	*l.src = restored
	l.counts, l.buf, l.acted = s, buf, false
	return nil
}

// Greedy implements [agents.Learner].
func (l *Learner) Greedy() agents.Policy { return qlearning.NewGreedy(Algo, l.nets.Online, l.spec) }

// NewPolicy returns the greedy policy of a checkpoint of this package, whose parameters net holds.
// The error wraps [models.ErrMismatch].
func NewPolicy(net models.Network, f models.File) (agents.Policy, error) {
	return qlearning.NewPolicy(Algo, net, f)
}
