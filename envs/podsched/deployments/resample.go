package deployments

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

// Resample draws the pods after the first n again. Pod n-1 is the current one: the number of replicas of its deployment
// is known, their usage is not. The error wraps [envs.ErrCannotResample] for files and recordings, and if pods have
// lifetimes, since the cluster holds the times at which they end.
func (in *Stream) Resample(n int, rng *rand.Rand) error {
	if c := in.config; c.Recorded != nil || c.File != nil || c.Lifetime > 0 {
		return fmt.Errorf("%w: pods are of a file, or have lifetimes", envs.ErrCannotResample)
	}
	in.Seed = rng.Uint64()
	in.src.Seed(in.Seed)
	if n == 0 {
		in.pods, in.next = nil, 0
		return nil
	}
	present, end := in.pods[n-1].Index, n
	for end < len(in.pods) && in.pods[end].Index == present {
		end++
	}
	in.pods, in.next = slices.Clone(in.pods[:end]), present+1
	for i := n; i < end && in.config.UsageMin < 1; i++ {
		in.pods[i].Usage = in.drawUsage(in.rng, in.pods[i].Requests)
	}
	return nil
}
