package envs_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// fickle observes a random number of its episode and the step. Action 1 fails, 2 panics in the middle of the next
// observation, 3 makes the next beginning of the process fail, 4 ends the episode.
type fickle struct {
	broken bool // by a failure: nothing may use it again
	panics bool // at the next observation
	rng    *rand.Rand
	obs    [2]float32
}

var failBegins atomic.Int64

func fickleSpec() *envs.Spec {
	return &envs.Spec{ID: "test/Fickle-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return &fickle{}, nil }, nil
	}}
}

func (f *fickle) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 1e9, 2), space.Discrete{N: 5}
}

func (f *fickle) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	f.rng, f.obs = rng, [2]float32{float32(rng.IntN(1e6)), 0}
	if f.broken {
		return errors.New("used after a failure")
	}
	if failBegins.Add(-1) >= 0 {
		f.broken = true
		return errors.New("no beginning")
	}
	return nil
}

func (f *fickle) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	f.obs[1]++
	switch action[0] {
	case 1:
		f.broken = true
		return envs.Outcome{}, errors.New("failed by its action")
	case 2:
		f.broken, f.panics = true, true
	case 3:
		failBegins.Store(1)
	}
	return envs.Outcome{Reward: 1, Terminated: action[0] == 4}, nil
}

func (f *fickle) Observe(_ *cluster.State, obs []float32, mask []bool) {
	if obs[0] = f.obs[0]; f.panics {
		obs[1] = -1
		panic("panicked by its action")
	}
	obs[1] = f.obs[1]
	space.PermitAll(mask)
}

func isolating(t *testing.T, n int, mode envs.AutoresetMode) *envs.Vec {
	t.Helper()
	failBegins.Store(0)
	v, err := envs.NewVec(fickleSpec(), n, envs.VecOptions{Autoreset: mode, Isolate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	seed := uint64(1)
	if _, err := v.Reset(context.Background(), envs.VecResetOptions{Seed: &seed}); err != nil {
		t.Fatal(err)
	}
	return v
}

func batchOf(t *testing.T) func(*envs.Batch, error) *envs.Batch {
	return func(b *envs.Batch, err error) *envs.Batch {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// TestIsolate: a failing row is truncated with its last observation and starts again as its mode says; the other rows
// are those of a vector in which nothing failed.
func TestIsolate(t *testing.T) {
	ctx := context.Background()
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep, envs.Disabled} {
		for action, text := range map[float32]string{1: "failed by its action", 2: "panicked by its action"} {
			t.Run(mode.String()+" "+text, func(t *testing.T) {
				v, quiet := isolating(t, 3, mode), isolating(t, 3, mode)
				step := func(v *envs.Vec, a ...float32) *envs.Batch { t.Helper(); return batchOf(t)(v.Step(ctx, a)) }
				others := func(what string, got, want *envs.Batch) {
					t.Helper()
					if diff := cmp.Diff(want.Obs[:4], got.Obs[:4]) + cmp.Diff(want.Reward[:2], got.Reward[:2]); diff != "" {
						t.Errorf("%s: rows 0 and 1 (-want +got):\n%s", what, diff)
					}
				}
				step(quiet, 0, 0, 0)
				step(v, 0, 0, 0)
				before := append([]float32(nil), v.Last().Obs[4:]...)
				b := step(v, 0, 0, action)
				others("the failing step", b, step(quiet, 0, 0, 0))
				if b.Failed[2] == nil || !strings.Contains(b.Failed[2].Error(), text) || b.Failed[0] != nil || b.Failed[1] != nil {
					t.Fatalf("failures %v, want one of row 2 with %q", b.Failed, text)
				}
				if b.Reward[2] != 0 || b.Terminated[2] || !b.Truncated[2] || b.EpisodeReturn[2] != 1 || b.EpisodeLength[2] != 1 {
					t.Errorf("row 2: reward %v, terminated %v, truncated %v, return %v, length %d; want 0, false, true, 1, 1",
						b.Reward[2], b.Terminated[2], b.Truncated[2], b.EpisodeReturn[2], b.EpisodeLength[2])
				}
				last := b.Obs[4:]
				if mode == envs.SameStep {
					last = b.FinalObs[4:]
					if b.Obs[4] == before[0] || b.Obs[5] != 0 {
						t.Errorf("observation %v, want the first of another episode than %v", b.Obs[4:], before)
					}
				}
				if diff := cmp.Diff(before, append([]float32(nil), last...)); diff != "" {
					t.Errorf("last observation (-want +got):\n%s", diff)
				}
				if mode == envs.Disabled {
					if _, err := v.Step(ctx, []float32{0, 0, 0}); !errors.Is(err, envs.ErrResetNeeded) {
						t.Errorf("Step: %v, want ErrResetNeeded", err)
					}
					batchOf(t)(v.Reset(ctx, envs.VecResetOptions{Mask: []bool{false, false, true}}))
				}
				b = step(v, 0, 0, 0)
				others("the next step", b, step(quiet, 0, 0, 0))
				if want := map[envs.AutoresetMode]float32{envs.NextStep: 0, envs.SameStep: 1, envs.Disabled: 1}[mode]; b.Failed[2] != nil || b.Obs[5] != want || b.Obs[4] == before[0] {
					t.Errorf("row 2 after it: failure %v, observation %v; want none, and step %v of another episode than %v", b.Failed[2], b.Obs[4:], want, before)
				}
			})
		}
	}
}

// An environment that fails where an episode begins is tried again, thrice in all.
func TestIsolateBeginnings(t *testing.T) {
	ctx := context.Background()
	v := isolating(t, 1, envs.SameStep)
	failBegins.Store(2)
	b := batchOf(t)(v.Step(ctx, []float32{4}))
	if b.Failed[0] == nil || !b.Terminated[0] || b.Truncated[0] || b.FinalObs[1] != 1 || b.Obs[1] != 0 || b.Reward[0] != 1 {
		t.Errorf("after two failures: %v, terminated %v, final %v, next %v", b.Failed, b.Terminated, b.FinalObs, b.Obs)
	}
	failBegins.Store(3)
	if _, err := v.Step(ctx, []float32{4}); err == nil || !strings.Contains(err.Error(), "no beginning") {
		t.Errorf("after three failures: %v, want the failure", err)
	}
	failBegins.Store(1)
	seed := uint64(1)
	if b = batchOf(t)(v.Reset(ctx, envs.VecResetOptions{Seed: &seed})); b.Failed[0] == nil {
		t.Error("a reset in which the first try fails reports nothing")
	}
	next := b.Obs[0]
	if b = batchOf(t)(v.Reset(ctx, envs.VecResetOptions{Seed: &seed})); b.Failed[0] != nil {
		t.Errorf("a reset without a failure reports %v", b.Failed[0])
	}
	if b.Obs[0] == next {
		t.Error("the second try of a reset begins the episode that failed")
	}
}

// The environment in the place of a failed one continues its random stream, of its own seed.
func TestIsolateContinuesTheStream(t *testing.T) {
	v := isolating(t, 2, envs.SameStep)
	b := batchOf(t)(v.Step(context.Background(), []float32{1, 1}))
	w := isolating(t, 2, envs.SameStep)
	c := batchOf(t)(w.Step(context.Background(), []float32{4, 4})) // which ends without a failure
	if diff := cmp.Diff(c.Obs, b.Obs); diff != "" || b.Obs[0] == b.Obs[2] {
		t.Errorf("next observations after failures (-after ends +after failures), want different rows:\n%s", diff)
	}
}

// Two failures in a row are borne, the third is the vector's. A step between them resets the count.
func TestIsolateCounts(t *testing.T) {
	ctx := context.Background()
	v := isolating(t, 2, envs.SameStep)
	for i, a := range []float32{1, 1, 0, 1, 1} {
		if _, err := v.Step(ctx, []float32{0, a}); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if _, err := v.Step(ctx, []float32{0, 1}); err == nil || !strings.Contains(err.Error(), "environment 1: failed 3 times") {
		t.Errorf("the third failure in a row: %v", err)
	}
	if _, err := v.Step(ctx, []float32{0, 0}); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("afterwards: %v, want ErrResetNeeded", err)
	}
}

// An end of the context and an action outside the space are no failures.
func TestIsolateLeavesOtherErrors(t *testing.T) {
	v := isolating(t, 1, envs.NextStep)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := v.Step(ended, []float32{0}); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if _, err := v.Step(context.Background(), []float32{7}); !errors.Is(err, envs.ErrInvalidAction) {
		t.Errorf("action 7: %v", err)
	}
}
