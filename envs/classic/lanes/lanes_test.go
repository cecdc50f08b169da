package lanes_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/envs/classic/lanes"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Each instruction set makes the steps that a task makes alone, which are compared with Gymnasium's, to the last bit:
// from small and large angles, beyond π/4 too, for every number of rows, also where an episode has ended long ago.
func TestBits(t *testing.T) {
	for set, name := range lanes.Sets() {
		t.Run(name, func(t *testing.T) {
			defer lanes.Use(set)()
			steps := 0
			for _, bound := range []float64{0, 1e-300, 1e-5, 0.05, 0.3, 0.78, 0.79, 6, 1e12} {
				for n := 1; n <= lanes.Rows; n++ {
					steps += playTogether(t, bound, n)
				}
			}
			t.Logf("%d steps compared", steps)
		})
	}
}

func same[T float32 | float64](a, b T) bool { return a == b || a != a && b != b }

func playTogether(t *testing.T, bound float64, n int) (steps int) {
	t.Helper()
	rng := rand.New(pcg.New(uint64(n)))
	opts := classic.CartPoleOptions{SuttonBartoReward: n%2 == 0}
	begun := func() *classic.CartPole {
		p := classic.NewCartPole(opts)
		if err := p.ResetOptions(map[string]any{"low": -bound, "high": bound}); err != nil {
			t.Fatal(err)
		}
		return p
	}
	const all = 2 * lanes.Rows // rows of the batch, of which some step
	b := &envs.Batch{Obs: make([]float32, 4*all), Reward: make([]float64, all), Terminated: make([]bool, all)}
	var rows []int32
	var tasks []envs.Task
	var alone []*classic.CartPole
	for k := range n {
		one := begun()
		if err := one.Begin(t.Context(), nil, rng); err != nil {
			t.Fatal(err)
		}
		tasks, alone = append(tasks, one.Clone(nil)), append(alone, one)
		rows = append(rows, int32(all-2*n+2*k+k%2))
	}
	actions, obs := make([]float32, all), make([]float32, 4)
	for range 40 {
		for i := range actions {
			actions[i] = float32(rng.IntN(2))
			b.Reward[i] = 77
		}
		tasks[0].(envs.Batcher).ApplyBatch(b, rows, tasks, actions)
		for k, i := range rows {
			want, err := alone[k].Apply(t.Context(), nil, actions[i:i+1])
			if err != nil {
				t.Fatal(err)
			}
			alone[k].Observe(nil, obs, nil)
			got, wanted := tasks[k].(*classic.CartPole).State(), alone[k].State()
			if !slices.EqualFunc(got[:], wanted[:], same) {
				t.Fatalf("within ±%v, row %d of %d: state %v, want %v", bound, k, n, got, wanted)
			}
			if got := b.Obs[4*i : 4*i+4]; !slices.EqualFunc(got, obs, same) {
				t.Fatalf("within ±%v, row %d of %d: observation %v, want %v", bound, k, n, got, obs)
			}
			if b.Reward[i] != want.Reward || b.Terminated[i] != want.Terminated {
				t.Fatalf("within ±%v, row %d of %d: reward %v, terminated %v, want %+v", bound, k, n, b.Reward[i], b.Terminated[i], want)
			}
		}
		steps += n
	}
	for i, r := range b.Reward {
		if r != 77 != slices.Contains(rows, int32(i)) {
			t.Errorf("row %d has the reward %v; rows %v were stepped", i, r, rows)
		}
	}
	return steps
}
