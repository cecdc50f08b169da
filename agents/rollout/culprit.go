package rollout

import "fmt"

// Culprit names, for the error about a loss that is not finite, the row of the rollout that it
// comes from: the last in time of the first environment whose returns are not finite, since
// what is not finite spreads to the returns before it; or else the parameters.
func (b *Buffer) Culprit() string {
	for i := range b.N {
		for t := b.T - 1; t >= 0; t-- {
			if x := b.Ret[t*b.N+i]; x-x != 0 {
				return fmt.Sprintf("the return %v of environment %d at step %d of the rollout", x, i, t)
			}
		}
	}
	return "the network's parameters, as all returns are finite"
}
