package classic

import "github.com/kubernasium/kubernasium/envs/classic/lanes"

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
	f := forceOf(action)
	sin, cos := lanes.SinCos(state[posTheta])
	omega := state[velTheta]
	temp := (f + float64(float64(poleMassLength*float64(omega*omega))*sin)) / massTotal
	thetaAcc := (float64(gravity*sin) - float64(cos*temp)) /
		(halfLength * (4.0/3.0 - float64(massPole*float64(cos*cos))/massTotal))
	xAcc := temp - float64(float64(poleMassLength*thetaAcc)*cos)/massTotal

	state[posX] += float64(tau * state[velX])
	state[velX] += float64(tau * xAcc)
	state[posTheta] += float64(tau * omega)
	state[velTheta] += float64(tau * thetaAcc)
	return terminal(state)
}

// forceOf returns the force that an action names, in N.
func forceOf(action int) float64 {
	if action == 1 {
		return force
	}
	return -force
}

func terminal(state *[4]float64) bool {
	x, theta := state[posX], state[posTheta]
	return x < -xLimit || x > xLimit || theta < -thetaLimit || theta > thetaLimit
}
