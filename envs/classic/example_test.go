package classic_test

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/classic"
)

// Example has the block of README.md. Gymnasium's CartPole rewards each step with 1.
func Example() {
	ctx := context.Background()
	v, err := envs.Make("classic/CartPole-v1", 8, envs.VecOptions{Autoreset: envs.SameStep})
	seed := uint64(0)
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}) // environment i as Gymnasium's reset(seed=i)
	b, err = v.Step(ctx, []float32{0, 1, 1, 0, 1, 0, 0, 1})
	fmt.Println(b.Reward, err)
	// Output: [1 1 1 1 1 1 1 1] <nil>
}
