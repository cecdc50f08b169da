package classic

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
)

// The system, in SI units.
const (
	gravity        = 9.8
	massPole       = 0.1
	massTotal      = 0.1 + 1.0 // pole and cart
	halfLength     = 0.5       // of the pole
	poleMassLength = massPole * halfLength
	force          = 10.0
	tau            = 0.02 // seconds between state updates

	xLimit     = 2.4
	thetaLimit = 0.20943951023931953 // 12°: 24*π/360 with each operation rounded, as Python has it
)

// Indices of a state.
const (
	posX     = iota // position of the cart, m
	velX            // m/s
	posTheta        // angle of the pole from the vertical, rad
	velTheta        // rad/s
)

// CartPoleStep advances state (x, ẋ, θ, θ̇) by 20 ms of the force that action names, 0 to the
// left and 1 to the right, by Euler's method, and reports whether the new state is terminal.
// It allocates nothing.
//
// The order of its operations is Gymnasium's. The conversions to float64 keep the compiler
// from fusing a product with a sum, which would round differently on some architectures.
//
// Source: Barto, Sutton and Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult
// Learning Control Problems", IEEE SMC-13, 1983, appendix; Florian, "Correct equations for
// the dynamics of the cart-pole system", 2007, without friction.
func CartPoleStep(state *[4]float64, action int) (terminated bool) {
	f := -force
	if action == 1 {
		f = force
	}
	sin, cos := sincos(state[posTheta])
	omega := state[velTheta]
	temp := (f + float64(float64(poleMassLength*float64(omega*omega))*sin)) / massTotal
	thetaAcc := (float64(gravity*sin) - float64(cos*temp)) /
		(halfLength * (4.0/3.0 - float64(massPole*float64(cos*cos))/massTotal))
	xAcc := temp - float64(float64(poleMassLength*thetaAcc)*cos)/massTotal

	state[posX] += float64(tau * state[velX])
	state[velX] += float64(tau * xAcc)
	state[posTheta] += float64(tau * omega)
	state[velTheta] += float64(tau * thetaAcc)

	x, theta := state[posX], state[posTheta]
	return x < -xLimit || x > xLimit || theta < -thetaLimit || theta > thetaLimit
}

// CartPoleOptions are the options of classic/CartPole-v1.
type CartPoleOptions struct {
	SuttonBartoReward bool `opt:"sutton_barto_reward" doc:"reward 0 for each step and -1 for the one that terminates, as Sutton and Barto have it, in place of 1 for each step"`
	InfiniteBounds    bool `opt:"infinite_bounds" doc:"bounds of the velocities: infinite, as Gymnasium has them since 1.0, in place of the largest float32, as it had them before"`
}

// defaultBounds are those of the uniform law of the initial state's elements.
var defaultBounds = resetBounds{Low: -0.05, High: 0.05}

// resetBounds are the options of a reset.
type resetBounds struct {
	Low  float64 `opt:"low" doc:"lower bound of each element of the initial state"`
	High float64 `opt:"high" doc:"upper bound of each element of the initial state"`
}

// CartPole is the [envs.Task] of classic/CartPole-v1. It puts nothing on its cluster and does
// not advance it: its state is its own.
type CartPole struct {
	opts   CartPoleOptions
	bounds resetBounds // of the next Begin
	state  [4]float64
}

var (
	_ envs.Task          = (*CartPole)(nil)
	_ envs.ResetOptioner = (*CartPole)(nil)
	_ envs.Renderer      = (*CartPole)(nil)
	_ envs.Cloner        = (*CartPole)(nil)
)

// NewCartPole returns the task with the given options.
func NewCartPole(opts CartPoleOptions) *CartPole {
	return &CartPole{opts: opts, bounds: defaultBounds}
}

// State returns position and velocity of the cart (m, m/s) and angle and angular velocity of
// the pole (rad, rad/s), of which the observation is the nearest float32.
func (p *CartPole) State() [4]float64 { return p.state }

// Clone implements [envs.Cloner].
func (p *CartPole) Clone(*rand.Rand) envs.Task {
	c := *p
	return &c
}

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

// ResetOptions implements [envs.ResetOptioner]: "low" and "high" bound the initial state of
// the next episode only.
func (p *CartPole) ResetOptions(opts map[string]any) error {
	b := defaultBounds
	if err := envs.DecodeOptions(opts, &b); err != nil {
		return err
	}
	if !(b.Low <= b.High) || math.IsInf(b.High-b.Low, 0) {
		return fmt.Errorf("%w: low %v and high %v, want finite numbers and low <= high", envs.ErrInvalidOption, b.Low, b.High)
	}
	p.bounds = b
	return nil
}

// Begin implements [envs.Task]. It takes four outputs of rng.
func (p *CartPole) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	for i := range p.state {
		p.state[i] = pcg.Scale(rng.Uint64(), p.bounds.Low, p.bounds.High)
	}
	p.bounds = defaultBounds
	return nil
}

// Apply implements [envs.Task].
func (p *CartPole) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	terminated := CartPoleStep(&p.state, int(action[0]))
	reward := 1.0
	if p.opts.SuttonBartoReward {
		reward = 0
		if terminated {
			reward = -1
		}
	}
	return envs.Outcome{Reward: reward, Terminated: terminated}, nil
}

// Observe implements [envs.Task]. Both actions are always permitted.
func (p *CartPole) Observe(_ *cluster.State, obs []float32, mask []bool) {
	for i, v := range p.state {
		obs[i] = float32(v)
	}
	for i := range mask {
		mask[i] = true
	}
}
