package deployments

import (
	"math"
	"math/rand/v2"
	"time"
)

// hintStream separates the errors of hints from the other draws, so that hints change no pod.
const hintStream = 0x68696e7473

// hint returns the hint for pod i of the stream, or of the recording: its lifetime times a factor. The factor's
// logarithm is uniform between −log HintError and +log HintError. It depends on the pod's number, since a pod may be
// read more than once.
func (in *Stream) hint(i int, lifetime time.Duration) time.Duration {
	if in.config.HintError == 0 || lifetime == 0 {
		return 0
	}
	var src rand.PCG
	src.Seed(in.Seed^hintStream, uint64(i))
	u := float64(src.Uint64()>>11) / (1 << 53)
	return duration(float64(lifetime) * math.Pow(in.config.HintError, 2*u-1))
}
