package rollout

import "fmt"

// NonFiniteSource describes, for an error about a loss that is not finite, where the loss comes from.
// It names the last return that is not finite of the first environment that has one, because such a
// return spreads to those of earlier steps. If all returns are finite, it names the parameters.
func (b *Buffer) NonFiniteSource() string {
	for i := range b.N {
		for t := b.T - 1; t >= 0; t-- {
			if x := b.Ret[t*b.N+i]; x-x != 0 {
				return fmt.Sprintf("the return %v of environment %d at step %d of the rollout", x, i, t)
			}
		}
	}
	return "the network's parameters, as all returns are finite"
}
