// Command benchresets measures a step and a reset of each registered environment with its default options, and
// prints a table in Markdown. It plays random permitted actions, and then replays and times them without the
// choice of actions.
//
// Usage: GOMAXPROCS=1 go run ./tools/benchresets
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/space"
)

func main() {
	seconds := flag.Float64("seconds", 0.5, "time for each environment, at least")
	most := flag.Int("steps", 1000, "most steps of an episode")
	prefix := flag.String("env", "", "beginning of the ids to measure; empty measures all")
	flag.Parse()
	if err := run(os.Stdout, *prefix, time.Duration(*seconds*float64(time.Second)), *most); err != nil {
		fmt.Fprintln(os.Stderr, "benchresets:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, prefix string, span time.Duration, most int) error {
	fmt.Fprintln(w, "| environment | ns per step | ns per reset | resets in steps |")
	fmt.Fprintln(w, "|---|--:|--:|--:|")
	for _, spec := range envs.Specs() {
		if !strings.HasPrefix(spec.ID, prefix) {
			continue
		}
		c, err := measure(spec, span, most)
		if err != nil {
			return fmt.Errorf("%s: %w", spec.ID, err)
		}
		fmt.Fprintf(w, "| `%s` | %.0f | %.0f | %.1f |\n", spec.ID, c.step, c.reset, c.reset/c.step)
	}
	return nil
}

// cost holds the times of a step and of a reset, in nanoseconds.
type cost struct{ step, reset float64 }

// measure plays episodes, and then replays and times each with the same actions, until span has passed. It
// returns the median reset, and the median of the episodes' mean steps.
func measure(spec *envs.Spec, span time.Duration, most int) (cost, error) {
	ctx := context.Background()
	v, err := envs.NewVec(spec, 1, envs.VecOptions{Autoreset: envs.Disabled, Shards: 1})
	if err != nil {
		return cost{}, err
	}
	defer v.Close()
	var resets, steps []float64
	begun := time.Now()
	for seed := uint64(1); seed <= 3 || time.Since(begun) < span; seed++ {
		actions, err := play(ctx, v, seed, most)
		if err != nil {
			return cost{}, err
		}
		from := time.Now()
		if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			return cost{}, err
		}
		at := time.Now()
		for _, a := range actions {
			if _, err := v.Step(ctx, a); err != nil {
				return cost{}, err
			}
		}
		steps = append(steps, float64(time.Since(at))/float64(len(actions)))
		resets = append(resets, float64(at.Sub(from)))
	}
	slices.Sort(steps)
	slices.Sort(resets)
	return cost{steps[len(steps)/2], resets[len(resets)/2]}, nil
}

// play plays an episode, or its first steps, and returns its actions.
func play(ctx context.Context, v *envs.Vec, seed uint64, most int) (actions [][]float32, err error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	_, act := v.Spaces()
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		return nil, err
	}
	for len(actions) < most {
		a := make([]float32, act.Size())
		act.Sample(rng, b.Mask[:space.MaskSize(act)], a)
		actions = append(actions, a)
		if b, err = v.Step(ctx, a); err != nil {
			return nil, err
		}
		if b.Terminated[0] || b.Truncated[0] {
			break
		}
	}
	return actions, nil
}
