// Package imitation lets learners start from the actions of a teacher, such as a baseline of the
// environment, before they act themselves.
package imitation

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
)

// A Demonstration is a teacher in environments of its own.
type Demonstration struct {
	Envs    envs.VecEnv   // as many as the learner has, with autoreset mode SameStep
	Teacher agents.Policy // of Envs
	Steps   int           // of all environments together, rounded up to whole steps of the vector
	Epochs  int           // passes of the learner over them
	Seed    uint64        // of the episodes

	// LearningRate of the gradient steps; linear schedules fall over the epochs. Zero selects the
	// learner's default: the rate of its training for DQN, 0.001 for others.
	LearningRate agents.Schedule

	// WeightDecay is that of torch.optim.AdamW, at least 0: each gradient step first multiplies weights and biases by
	// 1 − learning rate · WeightDecay. It keeps a learner from overfitting to few demonstrations.
	WeightDecay float64
}

// A Learner can imitate a teacher.
type Learner interface {
	agents.Learner

	// Imitate watches the demonstration and learns from it, before the first Act. Its steps count
	// neither as timesteps nor as updates of the training.
	Imitate(ctx context.Context, d Demonstration) (agents.Metrics, error)
}

// StepsPerEnv returns the steps of each environment.
func (d Demonstration) StepsPerEnv() int { return (d.Steps + d.Envs.NumEnvs() - 1) / d.Envs.NumEnvs() }

// Rate returns the learning rate of gradient step k of steps, or other if the demonstration has
// none.
func (d Demonstration) Rate(k, steps int, other float64) float64 {
	if d.LearningRate == (agents.Schedule{}) {
		return other
	}
	return d.LearningRate.At(1 - float64(k)/float64(steps))
}

// Play lets the teacher play. It calls act with each batch and the teacher's actions, and observe
// with the batch that they led to. A masked action is an error, since learners cannot take it.
func (d Demonstration) Play(ctx context.Context, act func(b *envs.Batch, actions []float32), observe func(next *envs.Batch) error) error {
	if d.Steps < 1 || d.Epochs < 1 {
		return fmt.Errorf("imitation: %d steps and %d epochs, want at least 1 of each", d.Steps, d.Epochs)
	}
	b, err := d.Envs.Reset(ctx, envs.VecResetOptions{Seed: &d.Seed})
	if err != nil {
		return err
	}
	_, space := d.Envs.Spaces()
	actions := make([]float32, d.Envs.NumEnvs()*space.Size())
	for step := range d.StepsPerEnv() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.Teacher.Act(b, actions); err != nil {
			return err
		}
		act(b, actions)
		if b, err = d.Envs.Step(ctx, actions); err != nil {
			return err
		}
		for i, invalid := range b.Invalid {
			if invalid {
				return fmt.Errorf("imitation: the teacher's action %v in environment %d at step %d is masked out",
					actions[i*space.Size():(i+1)*space.Size()], i, step)
			}
		}
		if err := observe(b); err != nil {
			return err
		}
	}
	return nil
}
