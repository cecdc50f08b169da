package dqn

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/policies"
	"github.com/kubernasium/kubernasium/models"
)

// Config holds the hyperparameters of DQN, with the names and defaults of
// Stable-Baselines3 2.9; those that it lacks have the names of Stable-Baselines 2.
type Config struct {
	LearningRate           agents.Schedule `json:"learning_rate"`            // of Adam; default 1e-4
	BufferSize             int             `json:"buffer_size"`              // transitions kept, in at most MaxReplayBytes; default 1,000,000
	LearningStarts         int             `json:"learning_starts"`          // environment steps of random actions before the first update; default 100
	BatchSize              int             `json:"batch_size"`               // transitions of a gradient step; default 32
	Tau                    float64         `json:"tau"`                      // weight of the online network in a target update, in (0, 1]; default 1
	Gamma                  float64         `json:"gamma"`                    // discount, in [0, 1]; default 0.99
	TrainFreq              int             `json:"train_freq"`               // steps of the vector of environments between updates; default 4
	GradientSteps          int             `json:"gradient_steps"`           // of an update; -1: one for each transition since the last update; default 1
	NSteps                 int             `json:"n_steps"`                  // rewards in a return; default 1
	TargetUpdateInterval   int             `json:"target_update_interval"`   // environment steps between target updates; default 10,000
	ExplorationFraction    float64         `json:"exploration_fraction"`     // part of the training over which ε falls; default 0.1
	ExplorationInitialEps  float64         `json:"exploration_initial_eps"`  // first ε; default 1
	ExplorationFinalEps    float64         `json:"exploration_final_eps"`    // last ε; default 0.05
	ExplorationDecay       float64         `json:"exploration_decay"`        // ε is multiplied by it in each environment step, in place of ExplorationFraction; default 0: off
	MaxGradNorm            float64         `json:"max_grad_norm"`            // bound of the gradient's norm; default 10
	Policy                 string          `json:"policy"`                   // "MlpPolicy" (default), "NodePolicy", "SAGEPolicy" or "GCNPolicy"
	NetArch                []int           `json:"net_arch"`                 // widths of the hidden layers; default 64, 64
	ActivationFn           string          `json:"activation_fn"`            // "relu" (default) or "tanh"
	LayerNorm              bool            `json:"layer_norm"`               // between each hidden layer and its activation; default false
	Pool                   string          `json:"pool"`                     // pooling of nodes for the action that waits and the state's value: "mean", "max" or "mean+max" (default)
	DoubleQ                bool            `json:"double_q"`                 // the online network chooses the target's action; default false
	Dueling                bool            `json:"dueling"`                  // separate heads for value and advantages; default false
	PrioritizedReplay      bool            `json:"prioritized_replay"`       // sampling by the size of TD errors; default false
	PrioritizedReplayAlpha float64         `json:"prioritized_replay_alpha"` // exponent of the priorities; default 0.6
	PrioritizedReplayBeta0 float64         `json:"prioritized_replay_beta0"` // first exponent of the importance weights, in [0, 1], which rises to 1; default 0.4
	PrioritizedReplayEps   float64         `json:"prioritized_replay_eps"`   // added to the size of a TD error; default 1e-6
	CheckpointReplayBuffer bool            `json:"checkpoint_replay_buffer"` // Save also writes the replay buffer, compressed; resuming is exact only with it; default true
	agents.Horizon
}

// Defaults returns Stable-Baselines3's defaults.
func Defaults() Config {
	return Config{
		LearningRate: agents.Constant(1e-4), BufferSize: 1_000_000, LearningStarts: 100, BatchSize: 32,
		Tau: 1, Gamma: 0.99, TrainFreq: 4, GradientSteps: 1, NSteps: 1, TargetUpdateInterval: 10_000,
		ExplorationFraction: 0.1, ExplorationInitialEps: 1, ExplorationFinalEps: 0.05, MaxGradNorm: 10,
		Policy: policies.Mlp, NetArch: []int{64, 64}, ActivationFn: models.ReLU, Pool: models.MeanMax,
		PrioritizedReplayAlpha: 0.6, PrioritizedReplayBeta0: 0.4, PrioritizedReplayEps: 1e-6,
		CheckpointReplayBuffer: true,
	}
}

// RolloutSteps returns the environment steps of one step of all environments: training can pause
// after any.
func (c *Config) RolloutSteps(numEnvs int) int { return numEnvs }

// ReplayCheckpoints reports whether checkpoints hold the replay buffer, and the number of
// environment steps before learning begins with an empty buffer.
func (c *Config) ReplayCheckpoints() (held bool, learningStarts int) {
	return c.CheckpointReplayBuffer, c.LearningStarts
}

// validate reports the first hyperparameter that is out of its range, for numEnvs
// environments.
func (c *Config) validate(numEnvs int) error {
	if err := agents.Validate(Algo,
		agents.Above("learning_rate", c.LearningRate.Initial, 0),
		agents.AtLeast("buffer_size", c.BufferSize, 1),
		agents.AtLeast("learning_starts", c.LearningStarts, 0),
		agents.AtLeast("batch_size", c.BatchSize, 1),
		agents.Hyperparameter{Name: "tau", Value: c.Tau, OK: c.Tau > 0 && c.Tau <= 1, Range: "in (0, 1]"},
		agents.Fraction("gamma", c.Gamma),
		agents.AtLeast("train_freq", c.TrainFreq, 1),
		agents.Hyperparameter{Name: "gradient_steps", Value: c.GradientSteps, OK: c.GradientSteps > 0 || c.GradientSteps == -1, Range: "at least 1, or -1"},
		agents.AtLeast("n_steps", c.NSteps, 1),
		agents.AtLeast("target_update_interval", c.TargetUpdateInterval, 1),
		agents.Fraction("exploration_fraction", c.ExplorationFraction),
		agents.Fraction("exploration_initial_eps", c.ExplorationInitialEps),
		agents.Fraction("exploration_final_eps", c.ExplorationFinalEps),
		agents.Fraction("exploration_decay", c.ExplorationDecay),
		agents.Above("max_grad_norm", c.MaxGradNorm, 0),
		agents.AtLeast("prioritized_replay_alpha", c.PrioritizedReplayAlpha, 0),
		agents.Fraction("prioritized_replay_beta0", c.PrioritizedReplayBeta0),
		agents.Above("prioritized_replay_eps", c.PrioritizedReplayEps, 0),
		agents.Timesteps("total_timesteps", c.TotalTimesteps),
	); err != nil {
		return err
	}
	if c.BufferSize < numEnvs {
		return fmt.Errorf("dqn: buffer_size is %d, want at least n_envs, %d", c.BufferSize, numEnvs)
	}
	return nil
}

// explorationRate returns ε with progressRemaining of the training left, from 1 down to 0. ε falls
// linearly over the first ExplorationFraction or, with an ExplorationDecay, by that factor in each
// environment step.
func (c *Config) explorationRate(progressRemaining float64) float64 {
	done := 1 - progressRemaining
	if c.ExplorationDecay > 0 {
		return max(c.ExplorationFinalEps, c.ExplorationInitialEps*math.Pow(c.ExplorationDecay, done*float64(c.TotalTimesteps)))
	}
	if done >= c.ExplorationFraction {
		return c.ExplorationFinalEps
	}
	return c.ExplorationInitialEps + done/c.ExplorationFraction*(c.ExplorationFinalEps-c.ExplorationInitialEps)
}

// beta returns the exponent of the importance weights, which rises linearly to 1.
func (c *Config) beta(progressRemaining float64) float64 {
	return 1 - max(0, progressRemaining)*(1-c.PrioritizedReplayBeta0)
}
