package envs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/classic"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

func newAsync(t *testing.T, v *envs.Vec) *envs.Async {
	t.Helper()
	a := envs.NewAsync(v, context.Background, func() {})
	t.Cleanup(a.Wait)
	return a
}

// rowText is everything in a step about row i, without diagnostics.
func rowText(b *envs.Batch, i int) string {
	n := len(b.Reward)
	k := len(b.Obs) / n
	s := fmt.Sprint(b.Obs[i*k:(i+1)*k], b.Reward[i], b.Terminated[i], b.Truncated[i], b.EpisodeReturn[i], b.EpisodeLength[i])
	if b.FinalObs != nil && b.Done(i) {
		s += fmt.Sprint(b.FinalObs[i*k : (i+1)*k])
	}
	return s
}

// TestAsyncEqualsLockStep: whatever the order in which rows are sent and received, each takes the steps of lock-step.
func TestAsyncEqualsLockStep(t *testing.T) {
	const n, steps = 5, 80
	ctx := context.Background()
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep} {
		action := func(i, k int) float32 { return float32((i*7 + k*k/3) % 2) }
		open := func() *envs.Vec {
			v, err := envs.Make("classic/CartPole-v1", n, envs.VecOptions{Autoreset: mode})
			if err != nil {
				t.Fatal(err)
			}
			seed := uint64(3)
			batchOf(t)(v.Reset(ctx, envs.VecResetOptions{Seed: &seed}))
			return v
		}
		lock := open()
		defer lock.Close()
		var want [n][]string
		for k := range steps {
			var a []float32
			for i := range n {
				a = append(a, action(i, k))
			}
			b := batchOf(t)(lock.Step(ctx, a))
			for i := range n {
				want[i] = append(want[i], rowText(b, i))
			}
		}
		v := open()
		defer v.Close()
		a := newAsync(t, v)
		var got [n][]string
		rng, idle := rand.New(rand.NewPCG(1, uint64(mode))), []int{0, 1, 2, 3, 4}
		for {
			var rows []int
			var actions []float32
			for _, i := range idle {
				if len(got[i]) < steps && (a.Pending() == 0 || rng.IntN(2) == 0) {
					rows, actions = append(rows, i), append(actions, action(i, len(got[i])))
				}
			}
			idle = slices.DeleteFunc(idle, func(i int) bool { return slices.Contains(rows, i) })
			if err := a.Send(rows, actions); err != nil {
				t.Fatal(err)
			}
			if a.Pending() == 0 {
				break
			}
			done, err := a.Recv(ctx, 1, 1+rng.IntN(n))
			if err != nil {
				t.Fatal(err)
			}
			part := v.Gather(nil, done)
			for j, i := range done {
				got[i] = append(got[i], rowText(part, j))
			}
			idle = append(idle, done...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: rows (-lock-step +async):\n%s", mode, diff)
		}
	}
}

// gated waits in its steps until its number is released.
type gated struct {
	fickle
	free chan struct{}
}

func (g *gated) Apply(ctx context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	if action[0] == 1 {
		return envs.Outcome{}, errors.New("failed")
	}
	select {
	case <-g.free:
		return envs.Outcome{Reward: 1}, nil
	case <-ctx.Done():
		return envs.Outcome{}, ctx.Err()
	}
}

func (g *gated) Spaces() (obs, act space.Space) { return space.NewBox(0, 1e9, 2), space.Discrete{N: 2} }

// TestAsyncOrder: rows that ended are received while others run, and calls out of order are refused and begin nothing.
func TestAsyncOrder(t *testing.T) {
	failBegins.Store(0)
	var made []*gated
	spec := &envs.Spec{ID: "test/Gated-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) {
			made = append(made, &gated{free: make(chan struct{}, 1)})
			return made[len(made)-1], nil
		}, nil
	}}
	v, err := envs.NewVec(spec, 3, envs.VecOptions{Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	life, end := context.WithCancel(context.Background())
	var begins, ends int
	a := envs.NewAsync(v, func() context.Context { begins++; return life }, func() { ends++ })
	ctx := context.Background()
	if err := a.Send([]int{0}, []float32{0}); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Send before Reset: %v", err)
	}
	batchOf(t)(v.Reset(ctx, envs.VecResetOptions{}))
	if _, err := a.Recv(ctx, 1, 3); !errors.Is(err, envs.ErrNotSent) {
		t.Errorf("Recv without Send: %v", err)
	}
	for name, tc := range map[string]struct {
		rows    []int
		actions []float32
		want    error
	}{
		"twice in one": {[]int{1, 1}, []float32{0, 0}, envs.ErrPending}, "an action outside": {[]int{0, 1}, []float32{0, 2}, envs.ErrInvalidAction},
		"a row outside": {[]int{0, 3}, []float32{0, 0}, envs.ErrInvalidAction}, "too few actions": {[]int{0, 1}, []float32{0}, envs.ErrInvalidAction},
	} {
		if err := a.Send(tc.rows, tc.actions); !errors.Is(err, tc.want) || a.Pending() != 0 {
			t.Errorf("%s: %v with %d pending, want %v and none", name, err, a.Pending(), tc.want)
		}
	}
	if err := a.Send([]int{2, 0, 1}, []float32{0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	made[1].free <- struct{}{}
	if rows, err := a.Recv(ctx, 1, 3); err != nil || !slices.Equal(rows, []int{1}) {
		t.Errorf("Recv = %v, %v; want row 1, the only one that was released", rows, err)
	}
	if rows, err := a.Take(3); err != nil || len(rows) != 0 {
		t.Errorf("Take = %v, %v; want nothing", rows, err)
	}
	if err := a.Send([]int{0}, []float32{0}); !errors.Is(err, envs.ErrPending) {
		t.Errorf("Send of a row that runs: %v", err)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := a.Recv(short, 1, 3); !errors.Is(err, context.Canceled) || a.Pending() != 2 {
		t.Errorf("Recv with an ended context: %v with %d pending, want Canceled and 2", err, a.Pending())
	}
	made[0].free <- struct{}{}
	made[2].free <- struct{}{}
	if rows, err := a.Recv(ctx, 9, 3); err != nil || !slices.Equal(rows, []int{0, 2}) {
		t.Errorf("Recv of more than there are = %v, %v; want 0 and 2 in ascending order", rows, err)
	}
	if err := a.Send([]int{0, 1}, []float32{1, 0}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Recv(ctx, 1, 1); err == nil || a.Pending() != 1 {
		t.Errorf("Recv of a row that failed: %v with %d pending, want its error and 1", err, a.Pending())
	}
	end()
	a.Wait()
	if _, err := a.Recv(ctx, 1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Recv after the end of the context: %v, want Canceled", err)
	}
	if begins != 2 || ends != 2 {
		t.Errorf("begun %d times, ended %d times; want 2 and 2", begins, ends)
	}
}
