package evaluation_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/evaluation"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
)

var ctx = context.Background()

// policy is a function as a policy.
type policy func(b *envs.Batch, actions []float32) error

func (p policy) Act(b *envs.Batch, actions []float32) error { return p(b, actions) }

// always returns the policy of one action.
func always(a float32) policy {
	return func(_ *envs.Batch, actions []float32) error {
		for i := range actions {
			actions[i] = a
		}
		return nil
	}
}

func newVec(t *testing.T, spec *envs.Spec, n int, mode envs.AutoresetMode) *envs.Vec {
	t.Helper()
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: mode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

func play(t *testing.T, spec *envs.Spec, p policy, seeds []uint64) *evaluation.Result {
	t.Helper()
	r, err := evaluation.Play(ctx, newVec(t, spec, len(seeds), envs.SameStep), p, seeds)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSeeds(t *testing.T) {
	if diff := cmp.Diff([]uint64{5, 6, 7}, evaluation.Seeds(5, 3)); diff != "" {
		t.Errorf("Seeds(5, 3) (-want +got):\n%s", diff)
	}
}

// TestPlayTiming: step k is worth k, so that n steps are worth n(n+1)/2.
func TestPlayTiming(t *testing.T) {
	for _, tc := range []struct {
		name          string
		length, limit int
		ret           float64
		steps         int64
	}{
		{"terminated", 4, 0, 10, 4},
		{"truncated", 100, 6, 21, 6},
		{"both at once", 5, 5, 15, 5},
		{"one step", 1, 0, 1, 1},
	} {
		got := play(t, envcheck.Timing(tc.length, tc.limit), always(0), evaluation.Seeds(1, 3))
		want := &evaluation.Result{
			Returns: []float64{tc.ret, tc.ret, tc.ret}, Lengths: []int64{tc.steps, tc.steps, tc.steps},
			Info: [][]float64{{}, {}, {}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// lottery has episodes of 1 to 9 steps. Each step is worth a random number plus a hundredth of
// the action, and the diagnostics are the steps so far and the length drawn.
type lottery struct {
	rng       *rand.Rand
	k, length int
}

func (l *lottery) Spaces() (obs, act space.Space) { return space.NewBox(0, 9, 1), space.Discrete{N: 2} }

func (l *lottery) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	l.rng, l.k, l.length = rng, 0, 1+rng.IntN(9)
	return nil
}

func (l *lottery) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	l.k++
	return envs.Outcome{Reward: float64(l.rng.IntN(1000)) + float64(action[0])/128, Terminated: l.k == l.length}, nil
}

func (l *lottery) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0], mask[0], mask[1] = float32(l.k), true, true
}

func (l *lottery) Info(_ *cluster.State, dst []float64) {
	dst[0], dst[1] = float64(l.k), float64(l.length)
}

var lotterySpec = &envs.Spec{
	ID: "toy/Lottery-v0", Info: []envs.Column{{Name: "steps", DType: "int64"}, {Name: "length", DType: "int64"}},
	Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return &lottery{}, nil }, nil
	},
}

// alone plays one episode in an environment of its own, step by step.
func alone(t *testing.T, seed uint64, action float32) (ret float64, length int64) {
	t.Helper()
	v := newVec(t, lotterySpec, 1, envs.Disabled)
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
		t.Fatal(err)
	}
	for {
		b, err := v.Step(ctx, []float32{action})
		if err != nil {
			t.Fatal(err)
		}
		ret += b.Reward[0]
		if length++; b.Done(0) {
			return ret, length
		}
	}
}

// TestPlayCountsOneEpisodeOfEach: environments that end before others play on, and none of that
// may count. The reference is each episode alone.
func TestPlayCountsOneEpisodeOfEach(t *testing.T) {
	seeds := []uint64{11, 3, 8, 100, 3, 42, 7, 1}
	r := play(t, lotterySpec, always(1), seeds)
	lengths := map[int64]bool{}
	for i, seed := range seeds {
		ret, length := alone(t, seed, 1)
		if r.Returns[i] != ret || r.Lengths[i] != length {
			t.Errorf("seed %d: return %v in %d steps, want %v in %d", seed, r.Returns[i], r.Lengths[i], ret, length)
		}
		if diff := cmp.Diff([]float64{float64(length), float64(length)}, r.Info[i]); diff != "" {
			t.Errorf("seed %d: diagnostics of the last step (-want +got):\n%s", seed, diff)
		}
		if got := r.Column(1)[i]; got != float64(length) {
			t.Errorf("seed %d: Column(1) = %v, want %d", seed, got, length)
		}
		lengths[length] = true
	}
	if len(lengths) < 3 {
		t.Errorf("episodes of %d lengths, want some that differ", len(lengths))
	}
}

// TestPlayPairs: the episode of a seed is the same for each policy, in each row, and again.
func TestPlayPairs(t *testing.T) {
	v := newVec(t, lotterySpec, 6, envs.SameStep)
	results := make([]*evaluation.Result, 3)
	for k, a := range []float32{0, 1, 0} {
		var err error
		if results[k], err = evaluation.Play(ctx, v, always(a), evaluation.Seeds(50, 6)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(results[0], results[2]); diff != "" {
		t.Errorf("the same policy again (-first +again):\n%s", diff)
	}
	if diff := cmp.Diff(results[0].Lengths, results[1].Lengths); diff != "" {
		t.Errorf("lengths for another policy (-first +other):\n%s", diff)
	}
	for i, n := range results[0].Lengths {
		if got, want := results[1].Returns[i]-results[0].Returns[i], float64(n)/128; got != want {
			t.Errorf("episode %d: action 1 is worth %v more than action 0, want %v", i, got, want)
		}
	}
	reversed := play(t, lotterySpec, always(0), []uint64{55, 54, 53, 52, 51, 50})
	for i := range 6 {
		if got, want := reversed.Returns[5-i], results[0].Returns[i]; got != want {
			t.Errorf("seed %d in another row: return %v, want %v", 50+i, got, want)
		}
	}
}

func TestPlayErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.Disabled} {
		if _, err := evaluation.Play(ctx, newVec(t, lotterySpec, 2, mode), always(0), evaluation.Seeds(0, 2)); err == nil || !strings.Contains(err.Error(), "SameStep") {
			t.Errorf("%v: error %v, want one that asks for SameStep", mode, err)
		}
	}
	v := newVec(t, lotterySpec, 2, envs.SameStep)
	if _, err := evaluation.Play(ctx, v, always(0), evaluation.Seeds(0, 3)); err == nil || !strings.Contains(err.Error(), "3 seeds for 2") {
		t.Errorf("3 seeds for 2 environments: error %v", err)
	}
	calls := 0
	if _, err := evaluation.Play(ctx, v, policy(func(*envs.Batch, []float32) error {
		if calls++; calls == 2 {
			return broken
		}
		return nil
	}), evaluation.Seeds(1, 2)); !errors.Is(err, broken) {
		t.Errorf("error %v, want the policy's", err)
	}
	if _, err := evaluation.Play(ctx, v, always(2), evaluation.Seeds(0, 2)); !errors.Is(err, envs.ErrInvalidAction) {
		t.Errorf("action 2 of Discrete(2): error %v, want %v", err, envs.ErrInvalidAction)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := evaluation.Play(ctx, v, always(0), evaluation.Seeds(0, 2)); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("closed environments: error %v, want %v", err, envs.ErrClosed)
	}
}

// TestPlayCanBeCancelled plays an episode of a million steps, none of which waits on ctx.
func TestPlayCanBeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	steps := 0
	_, err := evaluation.Play(ctx, newVec(t, envcheck.Timing(1_000_000, 0), 1, envs.SameStep), policy(func(*envs.Batch, []float32) error {
		if steps++; steps == 10 {
			cancel()
		}
		return nil
	}), []uint64{1})
	if !errors.Is(err, context.Canceled) || steps != 10 {
		t.Errorf("error %v after %d steps, want %v after 10", err, steps, context.Canceled)
	}
}

// drawn is a lottery that can be copied, and counts the episodes drawn and those whose baselines may keep what they compute.
type drawn struct {
	lottery
	begun, kept *int
}

func (d *drawn) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	*d.begun++
	return d.lottery.Begin(ctx, c, rng)
}

func (d *drawn) Clone(rng *rand.Rand) envs.Task {
	c := *d
	c.rng = rng
	return &c
}

func (d *drawn) CacheBaselines() { *d.kept++ }

// TestEpisodes: the episodes of a policy are those of its seeds, in any order of policies, and where environments can be
// copied none is drawn again. Those that follow an episode's end are drawn each time.
func TestEpisodes(t *testing.T) {
	seeds := []uint64{7, 9, 30, 4}
	var begun, kept int
	spec := *lotterySpec
	spec.Open = func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return &drawn{begun: &begun, kept: &kept}, nil }, nil
	}
	for name, s := range map[string]*envs.Spec{"copied": &spec, "begun by seeds": lotterySpec} {
		v, err := envs.NewVec(s, len(seeds), envs.VecOptions{Autoreset: envs.SameStep, Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		e, err := evaluation.Begin(ctx, v, seeds)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []float32{1, 0, 1} {
			before := begun
			got, err := e.Play(ctx, always(a))
			if err != nil {
				t.Fatal(err)
			}
			again := begun - before
			before = begun
			want, err := evaluation.Play(ctx, v, always(a), seeds)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, action %v (-by seeds +from the beginnings):\n%s", name, a, diff)
			}
			if s == &spec && again != begun-before-len(seeds) {
				t.Errorf("%d episodes were drawn, want all but the first %d of %d", again, len(seeds), begun-before)
			}
		}
	}
	if kept != len(seeds) {
		t.Errorf("%d episodes may keep what baselines compute, want %d", kept, len(seeds))
	}
}
