package envs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"

	"math/rand/v2"
)

var ctx = context.Background()

func register(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if _, err := envs.Lookup(id); err == nil {
			continue // by an earlier run of -count
		}
		s := envcheck.Identity(2)
		s.ID = id
		envs.Register(s)
	}
}

// worlds counts the clusters that a spec's backend makes.
type worlds struct {
	*sim.Cluster
	closed *int
}

func (w worlds) Close() error { *w.closed++; return nil }

// TestBackend: a spec's backend makes the clusters, once for each environment, by the options of
// the environment; VecOptions.NewCluster takes precedence.
func TestBackend(t *testing.T) {
	made, closed := 0, 0
	spec := *envcheck.Timing(3, 0)
	spec.Backend = func(opts map[string]any) (func() (cluster.Cluster, error), error) {
		if len(opts) > 0 {
			return nil, fmt.Errorf("%w: %v", envs.ErrInvalidOption, opts)
		}
		return func() (cluster.Cluster, error) { made++; return worlds{sim.New(), &closed}, nil }, nil
	}
	for _, given := range []bool{false, true} {
		var opts envs.VecOptions
		if given {
			opts.NewCluster = func() (cluster.Cluster, error) { return sim.New(), nil }
		}
		v, err := envs.NewVec(&spec, 3, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if made != 3 || closed != 3 {
		t.Errorf("%d clusters made and %d closed, want 3 for the first and none for the second", made, closed)
	}
	spec.Open = func(map[string]any) (envs.Maker, error) { return envcheck.Timing(3, 0).Open(nil) }
	if _, err := envs.NewVec(&spec, 1, envs.VecOptions{Options: map[string]any{"x": 1}}); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("an option that the backend refuses: %v, want ErrInvalidOption", err)
	}
}

func TestLookup(t *testing.T) {
	register(t, "test/Balance-v0", "test/Balance-v2", "test/Packing-v0")
	for _, tc := range []struct{ id, want string }{
		{"test/Balance-v0", "test/Balance-v0"},
		{"test/Balance", "test/Balance-v2"}, // no version means the highest
	} {
		s, err := envs.Lookup(tc.id)
		if err != nil || s.ID != tc.want {
			t.Errorf("Lookup(%q) = %v, %v, want %s", tc.id, s, err, tc.want)
		}
	}
	for _, tc := range []struct {
		id   string
		want []string
	}{
		{"test/Balence-v2", []string{"test/Balance-v0", "test/Balance-v2"}},
		{"test/balance-v1", []string{"test/Balance-v0", "test/Balance-v2"}},
		{"Packing-v0", []string{"test/Packing-v0"}},
		{"test/Zzzzzzzzzzzz-v0", nil},
	} {
		_, err := envs.Lookup(tc.id)
		var unknown *envs.UnknownIDError
		if !errors.As(err, &unknown) {
			t.Fatalf("Lookup(%q): %v, want an UnknownIDError", tc.id, err)
		}
		if diff := cmp.Diff(tc.want, unknown.Suggestions); diff != "" {
			t.Errorf("Lookup(%q) suggests (-want +got):\n%s", tc.id, diff)
		}
		for _, s := range tc.want {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("the message %q lacks %q", err, s)
			}
		}
	}
}

func TestRegisterPanics(t *testing.T) {
	register(t, "test/Taken-v0")
	open := envcheck.Identity(2).Open
	for _, tc := range []struct {
		name string
		spec envs.Spec
	}{
		{"no version", envs.Spec{ID: "test/NoVersion", Open: open}},
		{"taken", envs.Spec{ID: "test/Taken-v0", Open: open}},
		{"no Open", envs.Spec{ID: "test/NoOpen-v0"}},
		{"metric without column", envs.Spec{ID: "test/Metric-v0", Open: open, Metrics: []envs.Metric{{Column: "x"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("Register did not panic")
				}
			}()
			envs.Register(&tc.spec)
		})
	}
}

type options struct {
	Windows int     `opt:"windows" doc:"longest window"`
	Penalty float64 `opt:"penalty" doc:"of a plan, in seconds"`
	Split   string  `opt:"split" doc:"train or heldout"`
	Noise   bool    `opt:"noise" doc:"random durations"`
}

func TestDecodeOptions(t *testing.T) {
	got := options{Windows: 3, Penalty: 15, Split: "train"}
	// Numbers arrive as float64 from JSON and as int64 or uint8 from msgpack.
	opts := map[string]any{"windows": 5.0, "penalty": int64(2), "noise": true}
	if err := envs.DecodeOptions(opts, &got); err != nil {
		t.Fatal(err)
	}
	if want := (options{Windows: 5, Penalty: 2, Split: "train", Noise: true}); got != want {
		t.Errorf("DecodeOptions = %+v, want %+v", got, want)
	}
	for _, tc := range []struct {
		opts map[string]any
		want string
	}{
		{map[string]any{"window": 3}, `unknown option "window"; did you mean "windows"?`},
		{map[string]any{"zzz": 3}, `the options are windows, penalty, split, noise`},
		{map[string]any{"windows": 2.5}, `option "windows" is 2.5, want a whole number`},
		{map[string]any{"windows": "many"}, `windows`},
		{map[string]any{"noise": "maybe"}, `noise`},
	} {
		err := envs.DecodeOptions(tc.opts, &options{})
		if !errors.Is(err, envs.ErrInvalidOption) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("DecodeOptions(%v): %v, want ErrInvalidOption with %q", tc.opts, err, tc.want)
		}
	}
}

// step is a batch of one environment.
type step struct {
	Obs           float32
	Reward        float64
	Term, Trunc   bool
	Final, Return float64
	Length        int64
}

// TestAutoreset plays Timing, whose reward at step k is k and whose observation is k/10. The
// expected rows are worked by hand from Gymnasium's definition of the three modes.
func TestAutoreset(t *testing.T) {
	for _, tc := range []struct {
		name          string
		mode          envs.AutoresetMode
		length, limit int
		want          []step
	}{
		{"next step, terminated", envs.NextStep, 2, 0, []step{
			{.1, 1, false, false, 0, 1, 1}, {.2, 2, true, false, 0, 3, 2}, {0, 0, false, false, 0, 0, 0}, {.1, 1, false, false, 0, 1, 1}}},
		{"next step, truncated", envs.NextStep, 9, 2, []step{
			{.1, 1, false, false, 0, 1, 1}, {.2, 2, false, true, 0, 3, 2}, {0, 0, false, false, 0, 0, 0}}},
		{"same step, terminated", envs.SameStep, 2, 0, []step{
			{.1, 1, false, false, 0, 1, 1}, {0, 2, true, false, .2, 3, 2}, {.1, 1, false, false, .2, 1, 1}}},
		{"same step, both at once", envs.SameStep, 2, 2, []step{
			{.1, 1, false, false, 0, 1, 1}, {0, 2, true, true, .2, 3, 2}}},
		{"disabled", envs.Disabled, 2, 0, []step{
			{.1, 1, false, false, 0, 1, 1}, {.2, 2, true, false, 0, 3, 2}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := envs.NewVec(envcheck.Timing(tc.length, tc.limit), 1, envs.VecOptions{Autoreset: tc.mode})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
				t.Fatal(err)
			}
			var got []step
			for range tc.want {
				b, err := v.Step(ctx, []float32{0})
				if err != nil {
					t.Fatal(err)
				}
				s := step{b.Obs[0], b.Reward[0], b.Terminated[0], b.Truncated[0], 0, b.EpisodeReturn[0], b.EpisodeLength[0]}
				if b.FinalObs != nil {
					s.Final = float64(int(b.FinalObs[0]*10+.5)) / 10
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFinalMask plays Timing(3), which permits action 1 at odd moments: at moment 3, the last of
// the episode, but not at moment 0 of the next one.
func TestFinalMask(t *testing.T) {
	v, err := envs.NewVec(envcheck.Timing(3, 0), 1, envs.VecOptions{Autoreset: envs.SameStep})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := v.Reset(ctx, envs.VecResetOptions{})
	for k := 0; k < 3 && err == nil; k++ {
		b, err = v.Step(ctx, []float32{0})
	}
	if err != nil {
		t.Fatal(err)
	}
	if !b.Done(0) || !cmp.Equal(b.FinalMask, []bool{true, true}) || !cmp.Equal(b.Mask, []bool{true, false}) {
		t.Errorf("done %v, final mask %v, mask %v; want true, [true true], [true false]", b.Done(0), b.FinalMask, b.Mask)
	}
}

func TestMaskedActionIsFlagged(t *testing.T) {
	v, err := envs.NewVec(envcheck.Timing(9, 0), 2, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	b, err := v.Step(ctx, []float32{1, 0}) // action 1 is masked out at step 0
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{true, false}, b.Invalid); diff != "" {
		t.Errorf("Invalid (-want +got):\n%s", diff)
	}
}

func TestInvalidActionNamesItself(t *testing.T) {
	v, err := envs.NewVec(envcheck.Identity(4), 3, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = v.Step(ctx, []float32{0, 17, 0})
	if want := "environment 1: envs: invalid action: 17 not in Discrete(4)"; err == nil || err.Error() != want {
		t.Errorf("Step: %v, want %s", err, want)
	}
}

// faulty panics or fails as its action says.
type faulty struct{}

func (faulty) Spaces() (obs, act space.Space)                           { return space.NewBox(0, 1, 1), space.Discrete{N: 3} }
func (faulty) Begin(context.Context, cluster.Cluster, *rand.Rand) error { return nil }
func (faulty) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0], mask[0], mask[1], mask[2] = 0, true, true, true
}

func (faulty) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	switch action[0] {
	case 1:
		panic("the task is broken")
	case 2:
		return envs.Outcome{}, errors.New("the cluster is gone")
	}
	return envs.Outcome{}, nil
}

// TestFaultyTask sees that neither a panic nor an error ends the process, in any shard, and
// that the environment can be reset afterwards.
func TestFaultyTask(t *testing.T) {
	spec := &envs.Spec{ID: "test/Faulty-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return faulty{}, nil }, nil
	}}
	v, err := envs.NewVec(spec, 4, envs.VecOptions{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, tc := range []struct {
		actions []float32
		want    string
	}{
		{[]float32{0, 0, 0, 1}, "environment 3: panic: the task is broken"},
		{[]float32{0, 2, 0, 1}, "environment 1: step 0 of test/Faulty-v0 with action [2]: the cluster is gone"},
	} {
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Step(ctx, tc.actions); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("Step(%v): %v, want %s …", tc.actions, err, tc.want)
		}
		if _, err := v.Step(ctx, make([]float32, 4)); !errors.Is(err, envs.ErrResetNeeded) {
			t.Errorf("Step after the fault: %v, want ErrResetNeeded", err)
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	for _, shards := range []int{1, 2} {
		v, err := envs.NewVec(envcheck.Timing(9, 0), 64, envs.VecOptions{Autoreset: envs.SameStep, Shards: shards})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
		actions := make([]float32, 64)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := v.Step(ctx, actions); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("a step in %d shards allocates %v times, want 0", shards, n)
		}
	}
}

func TestSnapshotErrors(t *testing.T) {
	without, err := envs.NewVec(envcheck.Identity(2), 1, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if _, err := without.Snapshot(); !errors.Is(err, envs.ErrNoLog) {
		t.Errorf("Snapshot without a log: %v, want ErrNoLog", err)
	}
	with, err := envs.NewVec(envcheck.Identity(2), 2, envs.VecOptions{Log: true})
	if err != nil {
		t.Fatal(err)
	}
	defer with.Close()
	data, err := with.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := without.Restore(ctx, data); err == nil || !strings.Contains(err.Error(), "snapshot of 2 × toy/Identity-v0") {
		t.Errorf("Restore of another number of environments: %v", err)
	}
	if _, err := with.Restore(ctx, data[:len(data)/2]); err == nil {
		t.Error("Restore of half a snapshot: no error")
	}
}

// FuzzRestore sees that no bytes panic, allocate without bound or leave the Vec unusable.
func FuzzRestore(f *testing.F) {
	v, err := envs.NewVec(envcheck.Timing(5, 0), 2, envs.VecOptions{Log: true})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		f.Fatal(err)
	}
	data, err := v.Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = v.Restore(ctx, data)
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkVecStep(b *testing.B) {
	for _, n := range []int{1, 64, 1024} {
		v, err := envs.NewVec(envcheck.Timing(100, 0), n, envs.VecOptions{Autoreset: envs.SameStep})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			b.Fatal(err)
		}
		actions := make([]float32, n)
		b.Run(map[int]string{1: "1", 64: "64", 1024: "1024"}[n], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Step(ctx, actions); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "steps/s")
		})
		v.Close()
	}
}

// TestBegins plays episodes of three steps in each mode, and compares when observations begin
// one: after a reset, which in NextStep takes a step of its own.
func TestBegins(t *testing.T) {
	for mode, want := range map[envs.AutoresetMode][]bool{
		envs.SameStep: {true, false, false, true, false, false, true},
		envs.NextStep: {true, false, false, false, true, false, false},
		envs.Disabled: {true, false, false, false},
	} {
		v, err := envs.NewVec(envcheck.Timing(3, 0), 2, envs.VecOptions{Autoreset: mode})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		b, err := v.Reset(context.Background(), envs.VecResetOptions{})
		for k := range want {
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				if b.Begins(i) != want[k] {
					t.Errorf("%v: Begins(%d) = %v after %d steps, want %v", mode, i, b.Begins(i), k, want[k])
				}
			}
			if k+1 < len(want) {
				b, err = v.Step(context.Background(), make([]float32, 2))
			}
		}
	}
}

// TestCheckOptions: the first that is wrong is named with what was given and what would be right;
// NaN is out of every range.
func TestCheckOptions(t *testing.T) {
	right, steps := envs.OneOf("x", "b", "a", "b"), 0
	for want, checks := range map[string][]envs.Check{
		`envs: invalid option: y is "", want one of ["a" "b"]`: {right, envs.OneOf("y", "", "a", "b"), envs.OneOf("z", "c", "a")},
		`envs: invalid option: y is 0, want 1 to 1000000`:      {envs.Between("x", 1, 1, 2), envs.Between("y", steps, 1, 1e6), envs.Between("z", 0, 1, 2)},
		`envs: invalid option: x is NaN, want -1 to 0.5`:       {right, envs.Between("x", math.NaN(), -1, 0.5)},
	} {
		if err := envs.CheckOptions(nil, checks...); !errors.Is(err, envs.ErrInvalidOption) || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := envs.CheckOptions(nil, right, envs.Between("x", 2.0, 1, 2)); err != nil {
		t.Errorf("what is right: %v", err)
	}
}

// closing counts the calls of Close. It panics in the first if it is stuck.
type closing struct {
	envs.Task
	closed *int
	stuck  bool
}

func (c closing) Close() error {
	if *c.closed++; c.stuck && *c.closed == 1 {
		panic("stuck")
	}
	return nil
}

// TestCloseOfFaultyTask: a task that panics as it is closed ends neither the process nor the closing of the others.
func TestCloseOfFaultyTask(t *testing.T) {
	closed := 0
	identity, err := envcheck.Identity(2).Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := &envs.Spec{ID: "test/Stuck-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) {
			task, err := identity()
			return closing{task, &closed, true}, err
		}, nil
	}}
	v, err := envs.NewVec(spec, 3, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err == nil || !strings.Contains(err.Error(), "panic: stuck") || closed != 3 {
		t.Errorf("Close: %v with %d tasks closed, want the panic and 3", err, closed)
	}
}

// TestNewVecClosesTasks: where the second environment's cluster cannot be made, both tasks are
// closed, that one's too.
func TestNewVecClosesTasks(t *testing.T) {
	made, closed, broken := 0, 0, errors.New("no world")
	identity, err := envcheck.Identity(2).Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := &envs.Spec{ID: "test/Closing-v0", Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) {
			task, err := identity()
			return closing{task, &closed, false}, err
		}, nil
	}}
	_, err = envs.NewVec(spec, 3, envs.VecOptions{NewCluster: func() (cluster.Cluster, error) {
		if made++; made == 2 {
			return nil, broken
		}
		return sim.New(), nil
	}})
	if !errors.Is(err, broken) || closed != 2 {
		t.Errorf("%v with %d tasks closed, want %v and 2", err, closed, broken)
	}
}

// TestNewVecPanics: if the third environment's cluster panics as it is made, the two before it are closed.
func TestNewVecPanics(t *testing.T) {
	made, closed := 0, 0
	defer func() {
		if p := recover(); p != "no world" || closed != 2 {
			t.Errorf("panic %v with %d clusters closed, want no world and 2", p, closed)
		}
	}()
	_, err := envs.NewVec(envcheck.Identity(2), 4, envs.VecOptions{NewCluster: func() (cluster.Cluster, error) {
		if made++; made == 3 {
			panic("no world")
		}
		return worlds{sim.New(), &closed}, nil
	}})
	t.Errorf("NewVec returns %v", err)
}
