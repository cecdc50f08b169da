// Package agents defines how agents act and learn. Each algorithm is a package below it.
package agents

import (
	"io"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
)

// A Policy chooses actions.
type Policy interface {
	// Act writes one action for each row of b to actions, whose length is the number of rows
	// times the size of the action space. It chooses only actions that b.Mask permits.
	Act(b *envs.Batch, actions []float32) error
}

// A Scorer is a Policy that rates every action.
type Scorer interface {
	Policy

	// Scores writes for each row of b one number for each action to scores: a logit or a value. Act
	// chooses the permitted action with the highest score, the first of equals. Scores returns an
	// error if actions are not Discrete.
	Scores(b *envs.Batch, scores []float32) error
}

// A Valuer is a Scorer whose scores are logits, and that values observations.
type Valuer interface {
	Scorer

	// Values writes the value of each row's observation to values. The state of a recurrent policy does not change.
	Values(b *envs.Batch, values []float32) error
}

// A Sampler is a policy that describes a distribution of actions. Policies of action values do not.
type Sampler interface {
	// Sample draws an action for each row of b, where Act takes the most probable one.
	Sample(b *envs.Batch, rng *rand.Rand, actions []float32) error

	// Probabilities writes for each row of b one probability for each element of its mask: for each action of a
	// Discrete, each value of each element of a MultiDiscrete, and 0 and 1 of each element of a MultiBinary. Masked
	// ones have probability 0. The state of a recurrent policy does not change. Probabilities returns an error if the
	// action space is a Box.
	Probabilities(b *envs.Batch, p []float32) error
}

// A Learner is a Policy that improves from experience. Its Act explores; Greedy returns the
// policy to evaluate and to ship. The trainer calls, in turn, Act, Observe and Update.
// Environments must reset in the mode [envs.SameStep].
type Learner interface {
	Policy

	// Observe records the result of the last Act: next is the batch that its actions led to.
	// A reward that is not finite is an error.
	Observe(next *envs.Batch) error

	// Update learns once enough steps were observed, and returns metrics such as
	// "train/value_loss", or nil if it did not learn.
	Update() (Metrics, error)

	// Greedy returns the policy that takes the action of the highest probability or value. It
	// shares the learner's parameters; do not use it while Update runs.
	Greedy() Policy

	// Save writes the parameters and the state of the optimizer and of the random generators;
	// Load restores them, so that training resumes bit for bit as if it had not stopped.
	// Both are called between an Update that returned metrics and the next Act.
	Save(w io.Writer) error
	Load(r io.Reader) error
}

// A NetworkBuilder makes a network with fresh parameters.
type NetworkBuilder = func(models.Spec) (models.Network, error)

// Given returns a NetworkBuilder that returns the given networks one after another, whatever the spec.
func Given(nets ...models.Network) NetworkBuilder {
	return func(models.Spec) (models.Network, error) {
		net := nets[0]
		nets = nets[1:]
		return net, nil
	}
}

// Metrics are numbers to log, with Stable-Baselines3's names.
type Metrics map[string]float64
