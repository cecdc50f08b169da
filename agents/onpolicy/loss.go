package onpolicy

import (
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/distribution"
	"github.com/kubernasium/kubernasium/models"
)

// Losses are the parts of an actor-critic's loss; Entropy is the negative of the entropy's mean.
type Losses struct{ Policy, Value, Entropy float64 }

// Check returns an error for a loss that is not finite; source describes the update and the step
// that the loss comes from.
func (s Losses) Check(algo string, entCoef, vfCoef float64, source func() string) error {
	if loss := s.Policy + entCoef*s.Entropy + vfCoef*s.Value; math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("%s: loss %v at %s (policy %v, value %v, entropy %v)", algo, loss, source(), s.Policy, s.Value, s.Entropy)
	}
	return nil
}

// Metrics returns the metrics of an update with the losses at a learning rate.
func (s Losses) Metrics(rate, explainedVariance float64, updates int) agents.Metrics {
	return agents.Metrics{
		"train/policy_loss": s.Policy, "train/value_loss": s.Value, "train/entropy_loss": s.Entropy,
		"train/explained_variance": explainedVariance, "train/learning_rate": rate, "train/n_updates": float64(updates),
	}
}

// Taken is an action with its advantage and return.
type Taken struct {
	Action []float32
	Mask   []bool
	Adv    float64 // advantage
	Ret    float32 // return, which the value learns
}

// AddLoss adds to s the loss −adv·log π(a|o) − ent_coef·H + vf_coef·(V − ret)² of a row of outputs with
// the given weight, and to dOut the gradient with respect to the row. The value loss is the mean
// square, without a half, as Stable-Baselines3's.
func (a *Actor) AddLoss(s *Losses, t Taken, out, dOut []float32, weight, entCoef, vfCoef float64) {
	s.Add(a.Loss(a.Dist, t, out, dOut, weight, entCoef, vfCoef))
}

// Add adds the losses of other rows.
func (s *Losses) Add(x Losses) {
	s.Policy += x.Policy
	s.Value += x.Value
	s.Entropy += x.Entropy
}

// Loss returns the losses of a row that AddLoss adds. Several workers may compute those of different rows, each with
// one of Dists.
func (a *Actor) Loss(dist distribution.Distribution, t Taken, out, dOut []float32, weight, entCoef, vfCoef float64) (s Losses) {
	dist.Condition(out, t.Mask)
	s.Policy = -weight * t.Adv * dist.LogProb(t.Action)
	s.Entropy = -weight * dist.Entropy()
	dist.Grad(dOut, t.Action, -weight*t.Adv, -weight*entCoef)
	d := float64(out[a.Value]) - float64(t.Ret)
	s.Value = weight * d * d
	dOut[a.Value] += float32(weight * vfCoef * 2 * d)
	return s
}

// A GradientSum adds up the gradients of several passes through a network, which itself keeps only
// the last.
type GradientSum struct {
	params []models.Param
	sum    [][]float32
}

// NewGradientSum returns a sum of 0 for the parameters.
func NewGradientSum(params []models.Param) *GradientSum {
	g := &GradientSum{params: params}
	for _, p := range params {
		g.sum = append(g.sum, make([]float32, len(p.Grad)))
	}
	return g
}

// Clear sets the sum to 0.
func (g *GradientSum) Clear() {
	for _, s := range g.sum {
		clear(s)
	}
}

// Add adds the gradient that the parameters hold.
func (g *GradientSum) Add() {
	for i, p := range g.params {
		for j, x := range p.Grad {
			g.sum[i][j] += x
		}
	}
}

// Set copies the sum to the parameters' gradients.
func (g *GradientSum) Set() {
	for i, p := range g.params {
		copy(p.Grad, g.sum[i])
	}
}
