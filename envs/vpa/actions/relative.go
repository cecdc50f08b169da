package actions

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/vpa/pods"
)

// relativeRange is the greatest factor of a relative action: element x is relativeRange^x.
const relativeRange = 4

// References are the amounts that the elements of a relative action multiply: CPU in millicores and
// memory in bytes.
type References [elements][2]float64

// Decode returns the recommendation that a relative action encodes.
func (refs *References) Decode(action []float32) (r pods.Recommendation) {
	for i, v := range amounts(&r) {
		v.MilliCPU = int64(math.Round(refs[i][0] * math.Pow(relativeRange, float64(action[i]))))
		v.MemoryBytes = int64(math.Round(refs[i][1] * math.Pow(relativeRange, float64(action[elements+i]))))
	}
	return r
}

// Encode writes the relative action nearest to r.
func (refs *References) Encode(r *pods.Recommendation, action []float32) {
	for i, v := range amounts(r) {
		action[i], action[elements+i] = Relative(float64(v.MilliCPU), refs[i][0]), Relative(float64(v.MemoryBytes), refs[i][1])
	}
}

// Relative returns the element of a relative action that encodes the amount, clipped to ±1.
func Relative(amount, reference float64) float32 {
	if amount <= 0 {
		return -1
	}
	return float32(min(max(math.Log(amount/reference)/math.Log(relativeRange), -1), 1))
}
