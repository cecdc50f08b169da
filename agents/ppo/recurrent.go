package ppo

import (
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/policies"
)

// RecurrentAlgo is the name of PPO with a recurrent policy: RL Zoo's name for sb3-contrib's
// RecurrentPPO.
const RecurrentAlgo = "ppo_lstm"

// RecurrentConfig holds the hyperparameters of PPO with a recurrent policy, with the names and
// defaults of sb3-contrib 2.9: as PPO's, but n_steps and batch_size are 128 and the policy is
// MlpLstmPolicy.
type RecurrentConfig struct {
	Config
	policies.LSTM
}

// RecurrentDefaults returns sb3-contrib's defaults.
func RecurrentDefaults() RecurrentConfig {
	c := RecurrentConfig{Config: Defaults(), LSTM: policies.DefaultLSTM()}
	c.NSteps, c.BatchSize, c.Policy = 128, 128, policies.MlpLSTM
	return c
}

// seqSteps returns the length of the sequences in a minibatch: the rollout of an environment or, if a
// minibatch is smaller, the whole minibatch.
func (c *RecurrentConfig) seqSteps() int { return min(c.NSteps, c.BatchSize) }

func (c *RecurrentConfig) validate(numEnvs int) error {
	if err := c.Config.validate(numEnvs); err != nil {
		return err
	}
	if s := c.seqSteps(); c.NSteps%s != 0 || c.BatchSize%s != 0 {
		return fmt.Errorf("ppo: n_steps %d and batch_size %d: want one to be a multiple of the other, as a recurrent policy learns from whole sequences", c.NSteps, c.BatchSize)
	}
	return nil
}

// NewRecurrent returns a learner for the environments. Its network, made by newNetwork, is a [models.Recurrent]: LSTMs
// with PyTorch's default initialization, and the layers of New on top of them or, over nodes, beside them. All random
// numbers come from seed, except the network's first parameters.
//
// A minibatch consists of sequences of n_steps steps of one environment, or of batch_size steps if
// that is less. Each epoch shuffles their order. The network evaluates a sequence again from the
// state that it had there in the rollout, reset where episodes begin, and the gradient goes back to
// the sequence's start. sb3-contrib instead rotates the rows of all environments by a random number
// of rows, cuts them anywhere and pads the sequences. With a minibatch of the whole rollout and a
// rotation of 0 both are the same, as a test checks.
func NewRecurrent(cfg RecurrentConfig, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (*Learner, error) {
	if err := cfg.validate(env.NumEnvs); err != nil {
		return nil, err
	}
	spec, err := cfg.Network.RecurrentActorCritic(env.Obs, env.Act, cfg.LSTM)
	if err != nil {
		return nil, err
	}
	return newLearner(cfg.Config, cfg.seqSteps(), onpolicy.Settings{
		Algo: RecurrentAlgo, Config: cfg, Normalize: cfg.Normalization, Gamma: cfg.Gamma, Env: env, Spec: spec, NewNetwork: newNetwork, Seed: seed,
	})
}

// gatherSequences returns the rows of the given sequences, of shape (steps, sequences), and gathers
// their states and the starts of episodes.
func (l *Learner) gatherSequences(sequences []int) []int {
	q, n, size := l.collector.Seq, l.collector.Buf.N, l.actor.Spec().StateSize()
	for j, s := range sequences {
		piece, env := s/n, s%n
		copy(l.batch.state[j*size:(j+1)*size], q.State[piece][env*size:])
	}
	l.eachOf(sequences, func(i, row int) {
		l.rows[i] = row
		l.batch.begins[i] = q.Begins[row]
	})
	return l.rows
}

// eachOf calls f for each row of the given sequences with its place in their minibatch. Sequence q is piece q/N of
// environment q%N.
func (l *Learner) eachOf(sequences []int, f func(i, row int)) {
	q, n := l.collector.Seq, l.collector.Buf.N
	for j, s := range sequences {
		piece, env := s/n, s%n
		for t := range q.Steps {
			f(t*len(sequences)+j, (piece*q.Steps+t)*n+env)
		}
	}
}
