//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all" // registers the witness's environment
)

const witnessEnv, witnessEnvs = "classic/CartPole-v1", 4

// A witness plays beside a fault, and then knows whether one of its own steps was lost or taken twice.
type witness struct {
	stop  context.CancelFunc
	done  chan struct{}
	steps []uint64 // a hash of each step's results
	slow  []time.Duration
	err   error
	pause time.Duration // between steps
}

// watch starts a witness on a server. It pauses between steps, so that it uses little CPU.
func (p *probe) watch(url string) *witness {
	ctx, stop := context.WithCancel(p.ctx)
	w := &witness{stop: stop, done: make(chan struct{}), pause: 2 * time.Millisecond}
	go func() {
		defer close(w.done)
		w.err = w.play(ctx, url)
	}()
	return w
}

func (w *witness) play(ctx context.Context, url string) error {
	v, err := client.Dial(ctx, url, witnessEnv, witnessEnvs, client.Options{})
	if err != nil {
		return err
	}
	w.steps, err = follow(v, func() bool { return ctx.Err() == nil }, func(took time.Duration) {
		w.slow = append(w.slow, took)
		time.Sleep(w.pause)
	})
	return errors.Join(err, v.Close())
}

// follow plays a vector from one seed, with actions that depend on the number of the step, until more returns
// false.
func follow(v envs.VecEnv, more func() bool, after func(time.Duration)) (steps []uint64, err error) {
	seed := uint64(7)
	ctx := context.Background()
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
		return nil, err
	}
	actions := make([]float32, witnessEnvs)
	for more() {
		for i := range actions {
			actions[i] = float32((len(steps)>>i ^ len(steps) ^ i) & 1)
		}
		begin := time.Now()
		b, err := v.Step(ctx, actions)
		if err != nil {
			return steps, fmt.Errorf("step %d: %w", len(steps), err)
		}
		steps = append(steps, digest(b))
		after(time.Since(begin))
	}
	return steps, nil
}

// digest hashes the results of a step.
func digest(b *envs.Batch) uint64 {
	h := fnv.New64a()
	for _, x := range b.Obs {
		bits := math.Float32bits(x)
		_, _ = h.Write([]byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)}) // it cannot fail
	}
	for i, x := range b.Reward {
		_, _ = fmt.Fprint(h, x, b.Terminated[i], b.Truncated[i], b.EpisodeLength[i])
	}
	return h.Sum64()
}

// join ends the witness and counts its lost and doubled steps. It returns the 99th percentile of their times in
// milliseconds, or 0 after a failure.
func (w *witness) join(p *probe) (p99 float64) {
	w.stop()
	<-w.done
	p.failOn(w.err, "the session beside")
	if len(w.steps) < 10 {
		p.fail("the session beside made %d steps", len(w.steps))
		return 0
	}
	spec, err := envs.Lookup(witnessEnv)
	if p.failOn(err, "lookup") {
		return 0
	}
	v, err := envs.NewVec(spec, witnessEnvs, envs.VecOptions{})
	if p.failOn(err, "the undisturbed session") {
		return 0
	}
	defer v.Close()
	n := 0
	want, err := follow(v, func() bool { n++; return n <= len(w.steps)+8 }, func(time.Duration) {})
	p.failOn(err, "the undisturbed session")
	lost, doubled := differ(w.steps, want)
	p.lost += lost
	p.doubled += doubled
	slices.Sort(w.slow)
	p99 = ms(w.slow[len(w.slow)*99/100])
	p.figure("session beside: %d steps, p99 %.1f ms, longest %.0f ms", len(w.steps), p99, ms(w.slow[len(w.slow)-1]))
	return p99
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// differ compares the steps of a disturbed session with those of an undisturbed, longer one. If the server took
// a step whose reply the client never saw, the sequence is one ahead; if it answered a step twice, the sequence
// is one behind.
func differ(got, want []uint64) (lost, doubled int) {
	j := 0
	for i := range got {
		switch {
		case j < len(want) && got[i] == want[j]:
			j++
		case j > 0 && got[i] == want[j-1]:
			doubled++
		default:
			lost++
			for k := j + 1; k < min(j+9, len(want)); k++ {
				if got[i] == want[k] {
					lost += k - j - 1
					j = k
					break
				}
			}
			j++
		}
	}
	return lost, doubled
}
