// Package distribution gives the distributions of actions that policy networks describe, by
// the kind of the action space: categorical for Discrete, one categorical for each part of a
// MultiDiscrete, Bernoulli for each element of a MultiBinary, and a Gaussian with independent
// elements for Box.
//
// All work in float64 on one row of outputs at a time and allocate nothing.
package distribution

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// The heads of a policy network's Spec, by Stable-Baselines3's names. The second is for Box
// actions only.
const (
	ActionHead = "action_net" // logits, or means
	LogStdHead = "log_std"    // logarithms of the standard deviations
)

// A Distribution of an action is conditioned on one row of a network's outputs. It is not safe for
// concurrent use.
type Distribution interface {
	// Condition reads a row of outputs and the mask that goes with it, which must stay as they are
	// while the distribution is in use. A nil or empty mask permits everything; one that permits
	// nothing is a programmer's mistake and panics.
	Condition(out []float32, mask []bool)

	// Sample draws an action and Mode takes the most probable one. Where the space is a Box
	// the action may lie outside it.
	Sample(rng *rand.Rand, action []float32)
	Mode(action []float32)

	// Probabilities writes one probability for each element of a mask, and returns false, writing
	// nothing, if the action has a density instead.
	Probabilities(p []float32) bool

	// LogProb returns the logarithm of the action's probability or density, and Entropy the
	// entropy in nats.
	LogProb(action []float32) float64
	Entropy() float64

	// Grad adds to dOut the gradient with respect to the row of
	// dLogProb·LogProb(action) + dEntropy·Entropy().
	Grad(dOut []float32, action []float32, dLogProb, dEntropy float64)
}

// New returns the distribution of actions in act that the outputs of spec parametrize.
func New(act space.Space, spec models.Spec) (Distribution, error) {
	from, size := spec.Head(ActionHead)
	want := size
	var d Distribution
	switch a := act.(type) {
	case space.Discrete:
		want, d = a.N, newCategoricals(from, []int{a.N})
	case space.MultiDiscrete:
		want, d = space.MaskSize(a), newCategoricals(from, a.NVec)
	case space.MultiBinary:
		want, d = a.N, &bernoullis{from: from, logits: make([]float64, a.N)}
	case space.Box:
		logStd, n := spec.Head(LogStdHead)
		if n != a.Size() {
			return nil, fmt.Errorf("distribution: %d outputs %s for %d-dimensional actions", n, LogStdHead, a.Size())
		}
		want, d = a.Size(), newGaussian(from, logStd, n)
	default:
		return nil, fmt.Errorf("distribution: actions of kind %s, want discrete, multi_discrete, multi_binary or box", act.Describe().Kind)
	}
	if size != want {
		return nil, fmt.Errorf("distribution: %d outputs %s for actions that need %d", size, ActionHead, want)
	}
	return d, nil
}

// gaussian has independent elements with means and deviations from the network.
//
// Source: the normal density; the derivatives are those of its logarithm
// −(a−μ)²/(2σ²) − log σ − log √(2π) and of its entropy ½ + log √(2π) + log σ.
type gaussian struct {
	from, logStd int
	mean, std    []float64
	logs         []float64
}

func newGaussian(from, logStd, n int) *gaussian {
	return &gaussian{from, logStd, make([]float64, n), make([]float64, n), make([]float64, n)}
}

func (g *gaussian) Condition(out []float32, _ []bool) {
	for i := range g.mean {
		g.mean[i], g.logs[i] = float64(out[g.from+i]), float64(out[g.logStd+i])
		g.std[i] = math.Exp(g.logs[i])
	}
}

func (g *gaussian) Sample(rng *rand.Rand, action []float32) {
	for i, m := range g.mean {
		action[i] = float32(m + g.std[i]*rng.NormFloat64())
	}
}

func (g *gaussian) Mode(action []float32) {
	for i, m := range g.mean {
		action[i] = float32(m)
	}
}

func (g *gaussian) Probabilities([]float32) bool { return false }

var logSqrt2Pi = math.Log(2*math.Pi) / 2

func (g *gaussian) LogProb(action []float32) float64 {
	sum := 0.0
	for i, m := range g.mean {
		z := (float64(action[i]) - m) / g.std[i]
		sum -= z*z/2 + g.logs[i] + logSqrt2Pi
	}
	return sum
}

func (g *gaussian) Entropy() float64 {
	h := 0.0
	for _, l := range g.logs {
		h += 0.5 + logSqrt2Pi + l
	}
	return h
}

func (g *gaussian) Grad(dOut []float32, action []float32, dLogProb, dEntropy float64) {
	for i, m := range g.mean {
		z := (float64(action[i]) - m) / g.std[i]
		dOut[g.from+i] += float32(dLogProb * z / g.std[i])
		dOut[g.logStd+i] += float32(dLogProb*(z*z-1) + dEntropy)
	}
}
