package envs_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// few is a context that permits so many goroutines, and notes how many look at it at once.
type few struct {
	context.Context
	workers int

	mu           sync.Mutex
	active, most int
}

func (f *few) Workers(int) int { return f.workers }

func (f *few) Err() error {
	f.mu.Lock()
	f.active++
	f.most = max(f.most, f.active)
	f.mu.Unlock()
	time.Sleep(5 * time.Millisecond) // for the others to come
	f.mu.Lock()
	f.active--
	f.mu.Unlock()
	return nil
}

// TestSharer: a context bounds the goroutines of a vector and of its policies, and every row is played still.
func TestSharer(t *testing.T) {
	for workers := 1; workers <= 3; workers++ {
		v, err := envs.NewVec(envcheck.Timing(100, 0), 8, envs.VecOptions{Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		seed := uint64(1)
		f := &few{Context: t.Context(), workers: workers}
		if _, err := v.Reset(f, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
		b, err := v.Step(f, make([]float32, 8))
		if err != nil {
			t.Fatal(err)
		}
		if want := slices.Repeat([]float64{1}, 8); !slices.Equal(b.Reward, want) { // the reward of step k is k
			t.Errorf("with %d goroutines the rewards are %v, want %v", workers, b.Reward, want)
		}
		if f.most > workers {
			t.Errorf("%d goroutines computed, want at most %d", f.most, workers)
		}
	}
}
