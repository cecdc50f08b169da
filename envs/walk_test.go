package envs_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
)

// walk draws a number at each step and pays it, and does what a task can do wrong: by action 1 it
// pays NaN, by action 2 it fails. Action 3 is masked at odd steps.
type walk struct {
	rng      *rand.Rand
	k        int
	way      float64
	failing  bool // at Begin
	closings *int
}

var errWalk = errors.New("the way is closed")

func (*walk) Spaces() (obs, act space.Space) { return space.NewBox(0, 100, 1), space.Discrete{N: 4} }

func (w *walk) Begin(_ context.Context, _ cluster.Cluster, rng *rand.Rand) error {
	w.rng, w.k, w.way = rng, 0, rng.Float64()
	if w.failing {
		return errWalk
	}
	return nil
}

func (w *walk) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	switch action[0] {
	case 1:
		return envs.Outcome{Reward: math.NaN()}, nil
	case 2:
		return envs.Outcome{}, errWalk
	}
	w.k++
	d := w.rng.Float64()
	w.way += d
	return envs.Outcome{Reward: d}, nil
}

func (w *walk) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0] = float32(w.k)
	copy(mask, []bool{true, true, true, w.k%2 == 0})
}

func (w *walk) Info(_ *cluster.State, dst []float64) { dst[0] = w.way }
func (w *walk) MaxEpisodeSteps() int                 { return 5 }
func (w *walk) Notes() []string                      { return []string{"a.csv:3: a sample is missing"} }
func (w *walk) Close() error                         { *w.closings++; return nil }

func (w *walk) ResetOptions(opts map[string]any) error {
	if len(opts) != 1 || opts["failing"] == nil {
		return envs.ErrInvalidOption
	}
	w.failing = opts["failing"].(bool)
	return nil
}

func (w *walk) Clone(rng *rand.Rand) envs.Task {
	c := *w
	c.rng = rng
	return &c
}

func walkSpec(closings *int) *envs.Spec {
	return &envs.Spec{
		ID: "toy/Walk-v0", MaxEpisodeSteps: 50,
		Info: []envs.Column{{Name: "way", DType: "float64"}},
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &walk{closings: closings}, nil }, nil
		},
	}
}

func walks(t *testing.T, n int, opts envs.VecOptions) *envs.Vec {
	t.Helper()
	v, err := envs.NewVec(walkSpec(new(int)), n, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// record returns copies of what a batch holds.
func record(b *envs.Batch) []any {
	return []any{slices.Clone(b.Obs), slices.Clone(b.Mask), slices.Clone(b.Info), slices.Clone(b.Reward), slices.Clone(b.Terminated), slices.Clone(b.Truncated),
		slices.Clone(b.Invalid), slices.Clone(b.FinalObs), slices.Clone(b.FinalMask), slices.Clone(b.FinalInfo), slices.Clone(b.EpisodeReturn), slices.Clone(b.EpisodeLength)}
}

// must returns what a batch holds, and fails on an error.
func must(t *testing.T) func(b *envs.Batch, err error) []any {
	return func(b *envs.Batch, err error) []any {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return record(b)
	}
}

// What a vector returns after Load, after Fork and in another vector after Restore is what it
// returned the first time: of rows in the middle of an episode, at its end, and after it.
func TestSavedStatesReturn(t *testing.T) {
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep} {
		for step := 4; step <= 6; step++ { // the episodes end with step 5
			opts := envs.VecOptions{Autoreset: mode, Log: true, Shards: 7}
			v, ok := walks(t, 3, opts), must(t)
			seed := uint64(9)
			ok(v.Reset(ctx, envs.VecResetOptions{Seed: &seed}))
			for range step {
				ok(v.Step(ctx, []float32{0, 3, 0}))
			}
			saved, err := v.Save(ctx)
			if err != nil {
				t.Fatal(err)
			}
			data, err := v.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			now := record(v.Last())
			play := func(v *envs.Vec) (seen [][]any) {
				for range 12 {
					seen = append(seen, ok(v.Step(ctx, []float32{3, 0, 0})))
				}
				return seen
			}
			want := play(v)
			if d := cmp.Diff(now, ok(v.Load(saved))); d != "" {
				t.Errorf("%v, step %d, Load (-want +got):\n%s", mode, step, d)
			}
			if d := cmp.Diff(want, play(v)); d != "" {
				t.Errorf("%v, step %d, steps after Load (-want +got):\n%s", mode, step, d)
			}
			other := walks(t, 3, opts)
			restored := ok(other.Restore(ctx, data))
			for _, final := range []int{7, 8, 9} { // Restore gives no final observations
				restored[final], now[final] = nil, nil
			}
			if d := cmp.Diff(now, restored); d != "" {
				t.Errorf("%v, step %d, Restore (-want +got):\n%s", mode, step, d)
			}
			if d := cmp.Diff(want[len(want)-1][:4], play(other)[len(want)-1][:4]); d != "" {
				t.Errorf("%v, step %d, steps after Restore (-want +got):\n%s", mode, step, d)
			}
			// A fork is a copy in a snapshot, too.
			ok(v.Load(saved))
			ok(v.Fork(0, []int{0, 2}))
			if data, err = v.Snapshot(); err != nil {
				t.Fatal(err)
			}
			if got, want := ok(other.Restore(ctx, data))[0].([]float32), record(v.Last())[0].([]float32); !cmp.Equal(got, want) || got[0] != got[2] {
				t.Errorf("%v, step %d: observations %v of a restored fork, want %v", mode, step, got, want)
			}
			rewards := ok(other.Step(ctx, []float32{0, 0, 0}))[3].([]float64)
			if rewards[0] != rewards[2] {
				t.Errorf("%v, step %d: rewards %v after a restored fork, want the first and the last equal", mode, step, rewards)
			}
		}
	}
}

// Without a seed the first episode is that of seed 0, and later resets continue the stream.
func TestFirstSeedIs0(t *testing.T) {
	a, b, ok := walks(t, 1, envs.VecOptions{}), walks(t, 1, envs.VecOptions{}), must(t)
	zero := uint64(0)
	for i, opts := range []envs.VecResetOptions{{Seed: &zero}, {}, {}} {
		if d := cmp.Diff(ok(a.Reset(ctx, opts)), ok(b.Reset(ctx, envs.VecResetOptions{}))); d != "" {
			t.Errorf("reset %d (-with seed 0 first +without):\n%s", i, d)
		}
	}
}

// A snapshot that does not fit, or cannot be replayed, is an error, and those that were never reset stay so.
func TestRestoreOfWhatDoesNotFit(t *testing.T) {
	v, ok := walks(t, 2, envs.VecOptions{Log: true}), must(t)
	fresh, err := v.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	ok(v.Reset(ctx, envs.VecResetOptions{Options: map[string]any{"failing": false}}))
	ok(v.Step(ctx, []float32{0, 3}))
	data, err := v.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Restore(ctx, []byte("no snapshot")); err == nil || !strings.HasPrefix(err.Error(), "envs: snapshot: ") {
		t.Errorf("Restore of other bytes: %v, want an error about the snapshot", err)
	}
	if i := slices.Index(data, '{'); i < 0 { // the options, as JSON
		t.Fatal("no options in the snapshot")
	} else {
		broken := slices.Clone(data)
		broken[i] = '['
		if _, err := v.Restore(ctx, broken); err == nil || !strings.Contains(err.Error(), "restore environment 0") {
			t.Errorf("Restore with broken options: %v, want an error about environment 0", err)
		}
	}
	if _, err := v.Restore(ctx, []byte(strings.Replace(string(data), "failing", "falling", 1))); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("Restore with an unknown option: %v, want ErrInvalidOption", err)
	}
	other := walks(t, 2, envs.VecOptions{Log: true})
	ok(other.Restore(ctx, fresh))
	if _, err := other.Step(ctx, []float32{0, 0}); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Step after Restore of what was never reset: %v, want ErrResetNeeded", err)
	}
}

// Errors of a task name the environment and its action, and ask for a reset.
func TestErrorsOfTasks(t *testing.T) {
	for action, want := range map[float32]string{1: "the reward is NaN", 2: errWalk.Error()} {
		v, ok := walks(t, 2, envs.VecOptions{}), must(t)
		ok(v.Reset(ctx, envs.VecResetOptions{}))
		_, err := v.Step(ctx, []float32{0, action})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "environment 1: step 0 of toy/Walk-v0") {
			t.Errorf("Step with action %v: %v, want %q of environment 1", action, err, want)
		}
		if _, err := v.Step(ctx, []float32{0, 0}); !errors.Is(err, envs.ErrResetNeeded) {
			t.Errorf("Step afterwards: %v, want ErrResetNeeded", err)
		}
	}
	v := walks(t, 2, envs.VecOptions{})
	if _, err := v.Reset(ctx, envs.VecResetOptions{Options: map[string]any{"failing": true}}); !errors.Is(err, errWalk) || !strings.Contains(err.Error(), "begin toy/Walk-v0") {
		t.Errorf("Reset of a task that cannot begin: %v, want its error", err)
	}
	if _, err := v.Step(ctx, []float32{0, 0}); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Step afterwards: %v, want ErrResetNeeded", err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{Options: map[string]any{"x": 1}}); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("Reset with an unknown option: %v, want ErrInvalidOption", err)
	}
}

// broken is a cluster that cannot be reset.
type broken struct{ *sim.Cluster }

func (broken) Reset(context.Context) error { return cluster.ErrUnavailable }

// A single environment reports errors of its cluster and closes what it has once.
func TestEnvCloses(t *testing.T) {
	closings, closed := 0, 0
	spec := walkSpec(&closings)
	e := envs.NewEnv(spec, &walk{closings: &closings}, worlds{sim.New(), &closed}, 0)
	if n := e.MaxEpisodeSteps(); n != 5 {
		t.Errorf("a time limit of %d, want the task's 5", n)
	}
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if closings != 1 || closed != 1 {
		t.Errorf("the task was closed %d times, the cluster %d times; want once each", closings, closed)
	}
	if err := e.Reset(ctx, envs.ResetOptions{}); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("Reset after Close: %v, want ErrClosed", err)
	}
	if _, err := e.Step(ctx, []float32{0}); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("Step after Close: %v, want ErrClosed", err)
	}
	e = envs.NewEnv(spec, &walk{closings: &closings}, broken{sim.New()}, 7)
	if n := e.MaxEpisodeSteps(); n != 7 {
		t.Errorf("a time limit of %d, want the 7 given", n)
	}
	if err := e.Reset(ctx, envs.ResetOptions{}); !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("Reset of a cluster that is away: %v, want ErrUnavailable", err)
	}
}

// A vector rejects a number below 1, another vector's state, and calls after Close.
func TestVecRefusals(t *testing.T) {
	if v, err := envs.NewVec(walkSpec(nil), 0, envs.VecOptions{}); err == nil || v != nil {
		t.Errorf("a vector of 0: %v, %v; want an error", v, err)
	}
	v := walks(t, 2, envs.VecOptions{})
	if got := v.Notes(); !cmp.Equal(got, []string{"a.csv:3: a sample is missing"}) {
		t.Errorf("notes %q, want the task's", got)
	}
	for _, i := range []int{-1, 2} {
		if _, err := v.RenderANSI(i); err == nil || !strings.Contains(err.Error(), "of 2") {
			t.Errorf("RenderANSI(%d): %v, want an error with the number", i, err)
		}
	}
	if _, err := v.RenderRGB(0); err == nil || !strings.Contains(err.Error(), "toy/Walk-v0 cannot render") {
		t.Errorf("RenderRGB: %v, want that the environment cannot", err)
	}
	saved, err := v.Save(ctx)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Load of another vector's state does not panic")
			}
		}()
		_, _ = walks(t, 2, envs.VecOptions{}).Load(saved)
	}()
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Load(saved); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("Load after Close: %v, want ErrClosed", err)
	}
}

// Errors about names help: they list what there is, the nearest first.
func TestNamesInErrors(t *testing.T) {
	spec := walkSpec(nil)
	if _, err := spec.Baseline("best"); !errors.Is(err, envs.ErrUnknownBaseline) || !strings.Contains(err.Error(), "toy/Walk-v0 has no baselines") {
		t.Errorf("of an environment without baselines: %v", err)
	}
	spec.Baselines = []envs.Baseline{{Name: "greedy"}, {Name: "exact"}}
	if _, err := spec.Baseline("best"); !errors.Is(err, envs.ErrUnknownBaseline) || !strings.Contains(err.Error(), "it has greedy, exact") {
		t.Errorf("of an environment with two baselines: %v, want their names", err)
	}
	register(t, "test/Packer-v0", "test/Picker-v0", "test/Packing-v0")
	_, err := envs.Lookup("test/Packe-v0")
	var unknown *envs.UnknownIDError
	if !errors.As(err, &unknown) || unknown.Suggestions[0] != "test/Packer-v0" || !strings.Contains(err.Error(), "did you mean test/Packer-v0") {
		t.Errorf("Lookup of Packe: %v, want Packer first", err)
	}
	if _, err := envs.Lookup("test/Zzzzzzzzzzzz-v0"); err == nil || strings.Contains(err.Error(), "did you mean") {
		t.Errorf("Lookup of what resembles nothing: %v, want no suggestion", err)
	}
	if err := envs.DecodeOptions(map[string]any{"x": 1}, &struct{}{}); err == nil || !strings.Contains(err.Error(), "there are none") {
		t.Errorf("an option where there are none: %v", err)
	}
}

// The metric that ranks policies may depend on the options; the others keep their order.
func TestRanking(t *testing.T) {
	spec := &envs.Spec{Metrics: []envs.Metric{{Column: "a"}, {Column: "b"}, {Column: "c"}}}
	names := func(opts map[string]any) (names string) {
		for _, m := range spec.Ranking(opts) {
			names += m.Column
		}
		return names
	}
	if got := names(nil); got != "abc" {
		t.Errorf("without RankBy %q, want abc", got)
	}
	spec.RankBy = func(opts map[string]any) string { return opts["by"].(string) }
	for by, want := range map[string]string{"a": "abc", "b": "bac", "c": "cab", "": "abc"} {
		if got := names(map[string]any{"by": by}); got != want {
			t.Errorf("by %q: %q, want %q", by, got, want)
		}
	}
}

// Environment i is seeded with seed+i or with the i-th of a list, a mask leaves the others as they
// are, and infos are the task's: here the first number of each generator.
func TestSeedsAndMask(t *testing.T) {
	first := func(seed uint64) float64 { return rand.New(pcg.New(seed)).Float64() }
	v, ok := walks(t, 3, envs.VecOptions{}), must(t)
	seed := uint64(20)
	if got, want := ok(v.Reset(ctx, envs.VecResetOptions{Seed: &seed}))[2], []float64{first(20), first(21), first(22)}; !cmp.Equal(got, any(want)) {
		t.Errorf("infos %v with seed 20, want %v", got, want)
	}
	stepped := ok(v.Step(ctx, []float32{0, 0, 0}))
	got := ok(v.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{5, 6, 7}, Mask: []bool{true, false, true}}))
	if want := []float64{first(5), stepped[2].([]float64)[1], first(7)}; !cmp.Equal(got[2], any(want)) {
		t.Errorf("infos %v with seeds 5 and 7 and a row left out, want %v", got[2], want)
	}
	if want := []float64{0, 0, 0}; !cmp.Equal(got[3], any(want)) {
		t.Errorf("rewards %v after a reset, want %v", got[3], want)
	}
	if want := []int64{0, 1, 0}; !cmp.Equal(got[11], any(want)) {
		t.Errorf("lengths %v, want %v", got[11], want)
	}
	for name, actions := range map[string][]float32{"two": {0, 0}, "four": {0, 0, 0, 0}} {
		if _, err := v.Step(ctx, actions); !errors.Is(err, envs.ErrInvalidAction) {
			t.Errorf("Step with %s actions of 3: %v, want ErrInvalidAction", name, err)
		}
	}
}
