package all_test

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
)

// Example has the block of the repository's README.
func Example() {
	ctx := context.Background()
	policy := func(_ []float32, mask []bool) []float32 { // the last permitted action
		actions, width := make([]float32, 64), len(mask)/64
		for i := range actions {
			for a, permitted := range mask[i*width : (i+1)*width] {
				if permitted {
					actions[i] = float32(a)
				}
			}
		}
		return actions
	}
	v, err := envs.Make("k8s/GangWindow-v0", 64, envs.VecOptions{Autoreset: envs.SameStep})
	seed := uint64(1)
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}) // environment i gets seed 1+i
	for range 100 {
		b, err = v.Step(ctx, policy(b.Obs, b.Mask)) // b.Reward, b.Terminated, b.Truncated, b.Info …
	}
	fmt.Println(len(b.Reward), err)
	// Output: 64 <nil>
}
