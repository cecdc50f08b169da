// Package algorithms lists the algorithms that can be trained. A further algorithm is one folder
// below agents and one line in All.
package algorithms

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/a2c"
	"github.com/kubernasium/kubernasium/agents/bc"
	"github.com/kubernasium/kubernasium/agents/cql"
	"github.com/kubernasium/kubernasium/agents/dqn"
	"github.com/kubernasium/kubernasium/agents/forecast"
	"github.com/kubernasium/kubernasium/agents/onpolicy"
	"github.com/kubernasium/kubernasium/agents/ppo"
	"github.com/kubernasium/kubernasium/agents/reinforce"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
)

// All lists the algorithms in the order in which messages and documents name them.
var All = []Algorithm{
	entry(ppo.Algo, ppo.Defaults, ppo.New, onpolicy.NewPolicy),
	entry(a2c.Algo, a2c.Defaults, a2c.New, onpolicy.NewPolicy),
	offPolicy(dqn.Algo, dqn.Defaults, dqn.New, dqn.NewPolicy),
	entry(reinforce.Algo, reinforce.Defaults, reinforce.New, onpolicy.NewPolicy),
	entry(ppo.RecurrentAlgo, ppo.RecurrentDefaults, ppo.NewRecurrent, onpolicy.NewPolicy),
}

// Offline lists the algorithms that learn from recorded transitions alone. Their timesteps are gradient
// steps.
var Offline = []Algorithm{
	offline(bc.Algo, bc.Defaults, bc.New, bc.NewPolicy),
	offline(cql.Algo, cql.Defaults, cql.New, cql.NewPolicy),
}

// An Algorithm makes learners and reads the models that they save.
type Algorithm struct {
	Name      string // in checkpoints, on the command line and in the names of folders
	OffPolicy bool   // its learners implement OffPolicyLearner
	Offline   bool   // its learners implement RecordedLearner, and play no environment
	Timesteps int    // default of a training; 0: the trainer's default

	// Defaults returns the default hyperparameters.
	Defaults func() Config

	// New returns a learner with hyperparameters that Defaults made, for the environments, over
	// timesteps environment steps. It makes its networks with newNetwork; the caller closes them.
	// All random numbers come from seed, except the networks' first parameters. New does not change
	// the hyperparameters.
	New func(c Config, timesteps int, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (Learner, error)

	// NewPolicy returns the greedy policy of a checkpoint, whose parameters net holds. The error
	// wraps [models.ErrMismatch].
	NewPolicy func(net models.Network, f models.File) (agents.Policy, error)
}

// Config points to the hyperparameters of an algorithm: a struct whose JSON names are those of
// files and of the command line.
type Config interface {
	// SetTotalTimesteps sets the environment steps over which linear schedules fall.
	SetTotalTimesteps(n int)

	// RolloutSteps returns the multiples of environment steps at which a training in numEnvs
	// environments can pause; 0 if they depend on the episodes.
	RolloutSteps(numEnvs int) int
}

// An OffPolicyConfig is the Config of an algorithm with a replay buffer.
type OffPolicyConfig interface {
	Config

	// ReplayCheckpoints reports whether checkpoints hold the replay buffer, and the number of
	// environment steps before learning begins with an empty buffer.
	ReplayCheckpoints() (held bool, learningStarts int)
}

// A Learner counts its timesteps. The learners of All implement [imitation.Learner], too.
type Learner interface {
	agents.Learner

	// NumTimesteps returns the number of environment steps observed; of an offline learner, the number of gradient
	// steps.
	NumTimesteps() int
}

// A RecordedLearner learns from recorded transitions.
type RecordedLearner interface {
	Learner

	// Record sets the transitions to learn from, or fills the replay buffer with them before the first
	// Act. It returns how many it took.
	Record(t replay.Transitions) (int, error)
}

// An OffPolicyLearner also learns from the actions of other policies.
type OffPolicyLearner interface {
	RecordedLearner

	// Take records that another policy takes the given permitted actions at b. It replaces a call of Act.
	Take(b *envs.Batch, actions []float32)
}

// Names returns the names of the algorithms of All that match, in its order. A nil match matches all.
func Names(match func(Algorithm) bool) []string {
	var names []string
	for _, a := range All {
		if match == nil || match(a) {
			names = append(names, a.Name)
		}
	}
	return names
}

// OfflineNames returns the names of the algorithms of Offline.
func OfflineNames() []string {
	var names []string
	for _, a := range Offline {
		names = append(names, a.Name)
	}
	return names
}

// Get returns the algorithm of the given name, offline ones included. Its error lists all names.
func Get(name string) (Algorithm, error) {
	for _, a := range slices.Concat(All, Offline) {
		if a.Name == name {
			return a, nil
		}
	}
	return Algorithm{}, fmt.Errorf("no algorithm %q; there is %s, and from datasets %s", name, strings.Join(Names(nil), ", "), strings.Join(OfflineNames(), ", "))
}

// PolicyReader returns the NewPolicy of the named algorithm. It also knows the models of package
// forecast, which has its own training.
func PolicyReader(name string) (func(net models.Network, f models.File) (agents.Policy, error), error) {
	if name == forecast.Algo {
		return func(net models.Network, f models.File) (agents.Policy, error) { return forecast.NewPolicy(net, f) }, nil
	}
	a, err := Get(name)
	return a.NewPolicy, err
}

// pointer is a pointer to the hyperparameters C.
type pointer[C any] interface {
	*C
	Config
}

// offPolicyPointer is a pointer to the hyperparameters C of an algorithm with a replay buffer.
type offPolicyPointer[C any] interface {
	*C
	OffPolicyConfig
}

// entry describes an algorithm whose models newPolicy reads.
func entry[C any, P pointer[C], L Learner](name string, defaults func() C,
	newLearner func(c C, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (L, error),
	newPolicy func(net models.Network, f models.File) (agents.Policy, error)) Algorithm {
	return Algorithm{
		Name:     name,
		Defaults: func() Config { c := defaults(); return P(&c) },
		New: func(c Config, timesteps int, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (Learner, error) {
			cfg := *c.(P)
			P(&cfg).SetTotalTimesteps(timesteps)
			return newLearner(cfg, env, newNetwork, seed)
		},
		NewPolicy: newPolicy,
	}
}

// offPolicy describes an algorithm with a replay buffer.
func offPolicy[C any, P offPolicyPointer[C], L OffPolicyLearner](name string, defaults func() C,
	newLearner func(c C, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (L, error),
	newPolicy func(net models.Network, f models.File) (agents.Policy, error)) Algorithm {
	a := entry[C, P](name, defaults, newLearner, newPolicy)
	a.OffPolicy = true
	return a
}

// offline describes an algorithm that learns from recorded transitions alone.
func offline[C any, P pointer[C], L RecordedLearner](name string, defaults func() C,
	newLearner func(c C, env agents.EnvInfo, newNetwork agents.NetworkBuilder, seed uint64) (L, error),
	newPolicy func(net models.Network, f models.File) (agents.Policy, error)) Algorithm {
	a := entry[C, P](name, defaults, newLearner, newPolicy)
	a.Offline, a.Timesteps = true, offlineTimesteps
	return a
}

// offlineTimesteps is the default number of gradient steps. d3rlpy's examples on images make ten times as many.
const offlineTimesteps = 100_000
