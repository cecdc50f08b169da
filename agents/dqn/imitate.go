package dqn

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/imitation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models/optim"
)

// imitateMargin is the margin by which the value of the teacher's action should exceed all others,
// as in Hester et al.
const imitateMargin = 0.8

var _ imitation.Learner = (*Learner)(nil)

// Imitate implements [imitation.Learner] by the pre-training of DQfD. The teacher's transitions fill the replay buffer,
// and gradient steps on them add a large margin loss to that of Q-learning: the highest value of a permitted action,
// plus 0.8 for all but the teacher's, less the value of the teacher's action. The transitions stay in the buffer until
// newer ones replace them.
//
// Source: Hester et al., "Deep Q-learning from Demonstrations", arXiv:1704.03732, equations 2
// and 3 with λ2 = 1. Weight decay takes the place of the L2 loss. The training after the pre-training, in which
// demonstrations keep their place and their loss, is left out.
func (l *Learner) Imitate(ctx context.Context, d imitation.Demonstration) (agents.Metrics, error) {
	err := d.Play(ctx, func(b *envs.Batch, actions []float32) {
		copy(l.obs, b.Obs)
		copy(l.mask, b.Mask)
		copy(l.actions, actions)
	}, func(next *envs.Batch) error {
		if err := agents.CheckRewards(Algo, next.Reward, l.counts.Timesteps); err != nil {
			return fmt.Errorf("imitate: %w", err)
		}
		l.buf.Add(l.obs, l.mask, l.actions, next)
		return nil
	})
	if err != nil {
		return nil, err
	}
	// The target network is updated after as many gradient steps as in training.
	perUpdate := float64(l.cfg.TrainFreq * len(l.actions)) // environment steps
	gradientSteps := float64(l.cfg.GradientSteps)
	if l.cfg.GradientSteps < 0 {
		gradientSteps = perUpdate
	}
	every := max(int(float64(l.cfg.TargetUpdateInterval)*gradientSteps/perUpdate), 1)
	steps := d.Epochs * ((l.buf.Len() + l.cfg.BatchSize - 1) / l.cfg.BatchSize)
	l.margin = imitateMargin
	defer func() { l.margin = 0 }()
	var sum imitated // over the last epoch
	for k := range steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if k%(steps/d.Epochs) == 0 {
			sum = imitated{}
		}
		loss, err := l.gradient(1)
		if err != nil {
			return nil, err
		}
		sum.loss, sum.right, sum.steps = sum.loss+loss, sum.right+l.right, sum.steps+1
		optim.ClipGradNorm(l.nets.Params, l.cfg.MaxGradNorm)
		rate := d.Rate(k, steps, l.cfg.LearningRate.At(1))
		if d.WeightDecay > 0 {
			optim.Decay(l.nets.Params, rate, d.WeightDecay)
		}
		l.nets.Adam.Step(rate)
		if (k+1)%every == 0 {
			l.updateTarget()
		}
	}
	l.nets.CopyToTarget() // training begins with equal networks
	return agents.Metrics{"imitation/loss": sum.loss / sum.steps, "imitation/accuracy": sum.right / sum.steps}, nil
}

// imitated holds sums over gradient steps.
type imitated struct{ loss, right, steps float64 }

// marginLoss returns the large margin loss of row i of the batch with the action values q and the
// given weight, and adds its gradient to dOut.
func (l *Learner) marginLoss(i int, q, dOut []float32, weight float64) float64 {
	m, taught := l.head.Actions, int(l.batch.Action[i])
	best, most := taught, float64(q[taught])
	for a, permitted := range l.batch.Mask[i*m : (i+1)*m] {
		if x := float64(q[a]) + l.margin; permitted && a != taught && x > most {
			best, most = a, x
		}
	}
	if best == taught {
		l.right += 1 / float64(len(l.td))
		return 0
	}
	if q[best] < q[taught] {
		l.right += 1 / float64(len(l.td))
	}
	l.head.Backward(dOut, best, weight)
	l.head.Backward(dOut, taught, -weight)
	return weight * (most - float64(q[taught]))
}
