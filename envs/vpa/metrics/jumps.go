package metrics

import "math"

// leastJump is the change from one step to the next, in logarithms, that counts as a jump.
const leastJump = 0.15

// Jumps tracks the sudden changes of an amount: how long ago the last one was, and how long the level before it lasted.
type Jumps struct {
	Since, Before int // steps since the last jump, or since the first amount; steps between the last two jumps, 0 without
	last          float64
	seen          bool
	jumped        bool
}

// Observe adds the amount of a step.
func (j *Jumps) Observe(v float64) {
	if j.seen && math.Abs(math.Log((v+1)/(j.last+1))) > leastJump {
		if j.jumped {
			j.Before = j.Since + 1
		}
		j.Since, j.jumped = 0, true
	} else if j.seen {
		j.Since++
	}
	j.last, j.seen = v, true
}
