// Package classic implements CartPole-v1 exactly as Gymnasium does, to compare trainers, servers and clients with the
// published results of other learners. It schedules nothing.
//
// A pole stands on a cart by a joint without friction. The agent pushes the cart to the left or to the right, 50 times
// a second, and must keep the pole upright and the cart on its track.
//
// # Action
//
// Discrete(2): 0 pushes the cart to the left, 1 to the right, with 10 N. Both are always
// permitted.
//
// # Observation
//
// Box of shape (4,) and dtype float32. The bounds of position and angle are twice the limits
// of the termination, so that an episode's last observation is inside.
//
//	Index  Meaning                        Unit   Min       Max
//	0      position of the cart           m      -4.8      4.8
//	1      velocity of the cart           m/s    -3.4e38   3.4e38
//	2      angle of the pole, right is +  rad    -0.419    0.419 (24°)
//	3      angular velocity of the pole   rad/s  -3.4e38   3.4e38
//
// The bounds of the velocities are the largest float32, as they were in Gymnasium before 1.0,
// since its checker and others advise against infinite ones. With the option infinite_bounds they
// are infinite, and the space equals that of current Gymnasium: libraries that compare spaces then
// accept a model of one CartPole for the other.
//
// The state is kept in float64; the observation is the nearest float32.
//
// # Reward
//
// 1 for every step, the terminating one included. With the option sutton_barto_reward, 0 for
// every step and -1 for the one that terminates.
//
// # Start
//
// Each element of the state is uniform in [-0.05, 0.05), drawn from the environment's stream
// as NumPy's Generator.uniform draws it. Equal seeds give Gymnasium's states, and a reset
// without a seed continues the stream, as Gymnasium's does.
//
// # End
//
// Terminated when the position leaves [-2.4, 2.4] m or the angle leaves [-12°, 12°].
// Truncated after 500 steps. The task counts as solved at a mean return of 475.
//
// # Options
//
// When made: sutton_barto_reward (bool, default false), as under Reward. At a reset: low and
// high (float, defaults -0.05 and 0.05) bound the initial state of that episode. Gymnasium
// ignores other options; here they are errors.
//
// # Baselines
//
// lean pushes to the side that the pole leans to; pole-angle to the side that it will lean to
// in half a second at its present angular velocity, which reaches the optimum of 500.
//
// # Versions
//
// v1 is Gymnasium 1.4.0's CartPole-v1. There is no v0 here.
//
// # Source
//
// Barto, Sutton and Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult Learning
// Control Problems", IEEE Transactions on Systems, Man, and Cybernetics SMC-13, 1983;
// gymnasium/envs/classic_control/cartpole.py of Gymnasium 1.4.0.
package classic
