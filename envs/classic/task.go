package classic

import (
	"context"
	"math"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// CartPole is the [envs.Task] of classic/CartPole-v1. It puts nothing on its cluster and does
// not advance it: its state is its own.
type CartPole struct {
	opts   CartPoleOptions
	bounds resetBounds // of the next Begin
	state  [4]float64
}

var (
	_ envs.Task          = (*CartPole)(nil)
	_ envs.Batcher       = (*CartPole)(nil)
	_ envs.ResetOptioner = (*CartPole)(nil)
	_ envs.Renderer      = (*CartPole)(nil)
	_ envs.Cloner        = (*CartPole)(nil)
	_ envs.Resumer       = (*CartPole)(nil)
)

// NewCartPole returns the task with the given options.
func NewCartPole(opts CartPoleOptions) *CartPole {
	return &CartPole{opts: opts, bounds: defaultBounds}
}

// State returns position and velocity of the cart (m, m/s) and angle and angular velocity of
// the pole (rad, rad/s), of which the observation is the nearest float32.
func (p *CartPole) State() [4]float64 { return p.state }

// Spaces implements [envs.Task]. The bounds are twice those of the termination, so that the
// last observation is inside. Those of the velocities bound nothing: the largest float32, since
// checkers advise against infinity.
func (p *CartPole) Spaces() (obs, act space.Space) {
	vel := float32(math.MaxFloat32)
	if p.opts.InfiniteBounds {
		vel = float32(math.Inf(1))
	}
	return space.Box{
		Low:   []float32{-2 * xLimit, -vel, -2 * thetaLimit, -vel},
		High:  []float32{2 * xLimit, vel, 2 * thetaLimit, vel},
		Shape: []int{4},
	}, space.Discrete{N: 2}
}

// Apply implements [envs.Task].
func (p *CartPole) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	terminated := CartPoleStep(&p.state, int(action[0]))
	return envs.Outcome{Reward: p.reward(terminated), Terminated: terminated}, nil
}
