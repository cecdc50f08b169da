package envs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
)

// resumingWalk is a walk that writes its episodes. It counts the calls of Apply of all.
type resumingWalk struct {
	*walk
	applied *atomic.Int64
}

func (w resumingWalk) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	w.applied.Add(1)
	return w.walk.Apply(ctx, c, action)
}

func (w resumingWalk) AppendEpisode(dst []byte, _ *cluster.State) ([]byte, error) {
	data, err := json.Marshal([]any{w.k, w.way})
	return append(dst, data...), err
}

func (w resumingWalk) ResumeEpisode(_ context.Context, _ cluster.Cluster, data []byte) error {
	return json.Unmarshal(data, &[...]any{&w.k, &w.way})
}

// resumingWalks makes walks without a time limit unless opts give one.
func resumingWalks(t *testing.T, opts envs.VecOptions, applied *atomic.Int64) *envs.Vec {
	t.Helper()
	spec := walkSpec(new(int))
	spec.MaxEpisodeSteps, spec.Open = 0, func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) {
			w := resumingWalk{&walk{closings: new(int)}, applied}
			return struct { // no Limiter
				envs.Task
				envs.Resumer
				envs.InfoWriter
			}{w, w, w}, nil
		}, nil
	}
	v, err := envs.NewVec(spec, 2, opts)
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

// TestResumersTakeNoActionsAgain: the state of a Resumer's episode takes neither more bytes with its steps nor memory for
// its actions, has no bound of steps, and is loaded by one Begin. From there all is the same, to the end and beyond.
func TestResumersTakeNoActionsAgain(t *testing.T) {
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep, envs.Disabled} {
		var plain, portable int64
		var applied atomic.Int64
		ok := must(t)
		const limit = 1 << 18 // actions of one walk that replays
		resumingWalks(t, envs.VecOptions{Autoreset: mode, Admit: func(b int64) error { plain = b; return nil }}, &applied)
		opts := envs.VecOptions{Autoreset: mode, Portable: true, MaxEpisodeSteps: limit + 3, Admit: func(b int64) error { portable = b; return nil }}
		v := resumingWalks(t, opts, &applied)
		if plain != portable {
			t.Errorf("%d bytes, want the %d of a vector without states", portable, plain)
		}
		seed := uint64(4)
		ok(v.Reset(ctx, envs.VecResetOptions{Seed: &seed}))
		for range limit {
			if _, err := v.Step(ctx, []float32{0, 0}); err != nil {
				t.Fatal(err)
			}
		}
		for k := range 5 { // the episodes end with the third step
			state, err := v.AppendState(nil, 500)
			if err != nil {
				t.Fatalf("%v, step %d: %v", mode, k, err)
			}
			before := applied.Load()
			w := resumingWalks(t, opts, &applied)
			b, _, err := w.LoadState(ctx, state)
			if err != nil || applied.Load() != before {
				t.Fatalf("%v, step %d: LoadState: %v after %d actions", mode, k, err, applied.Load()-before)
			}
			if d := cmp.Diff(record(v.Last())[:7], record(b)[:7]); d != "" {
				t.Fatalf("%v, step %d: the batch (-want +got):\n%s", mode, k, d)
			}
			if again, err := w.AppendState(nil, 500); err != nil || !bytes.Equal(again, state) {
				t.Errorf("%v, step %d: the state of what was loaded differs: %v", mode, k, err)
			}
			if mode == envs.Disabled && k >= 3 {
				ok(v.Reset(ctx, envs.VecResetOptions{}))
				ok(w.Reset(ctx, envs.VecResetOptions{}))
			}
			want, got := ok(v.Step(ctx, []float32{0, 0})), ok(w.Step(ctx, []float32{0, 0}))
			for _, final := range []int{7, 8, 9} {
				if k != 2 || mode != envs.SameStep {
					want[final], got[final] = nil, nil // stale
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%v, step %d and one more (-want +got):\n%s", mode, k, d)
			}
		}
	}
}

// TestBadEpisodesAreRefused: so are episodes for a task that takes actions again. Actions, of a server that knows no
// Resumer, are taken. What was loaded has no Snapshot.
func TestBadEpisodesAreRefused(t *testing.T) {
	var applied atomic.Int64
	ok := must(t)
	v := resumingWalks(t, envs.VecOptions{Portable: true, MaxEpisodeSteps: 50}, &applied)
	seed := uint64(4)
	ok(v.Reset(ctx, envs.VecResetOptions{Seed: &seed}))
	ok(v.Step(ctx, []float32{0, 3}))
	state, err := v.AppendState(nil, roomy)
	if err != nil {
		t.Fatal(err)
	}
	replays := func() *envs.Vec {
		return walks(t, 2, envs.VecOptions{Portable: true, MaxEpisodeSteps: 50})
	}
	at := bytes.Index(state, []byte("[1,")) // the first episode, its length before it
	changed := func(at int, x byte) []byte {
		s := bytes.Clone(state)
		s[at] ^= x
		return s
	}
	for name, tc := range map[string]struct {
		w    *envs.Vec
		data []byte
		want string
	}{
		"a task that replays":  {replays(), state, "which this task cannot resume"},
		"beyond the limit":     {v, changed(at-11, 1|64), "64 steps"}, // 1 before
		"ended twice":          {v, changed(at-2, 2), "has ended 2 times"},
		"an unreadable one":    {v, changed(at, 1), "environment 0"},
		"another way":          {v, changed(at+3, 1), "another course"},
		"an actions' encoding": {v, changed(bytes.LastIndex(state[:at], []byte{2, 38, 'p', 'c', 'g'}), 1), "encoding 3"},
	} {
		if _, _, err := tc.w.LoadState(ctx, tc.data); !errors.Is(err, envs.ErrBadState) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	old := replays()
	ok(old.Reset(ctx, envs.VecResetOptions{Seed: &seed}))
	want := ok(old.Step(ctx, []float32{0, 3}))
	actions, err := old.AppendState(nil, roomy)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want[:7], must(t)(loaded(v, actions))[:7]); d != "" {
		t.Errorf("a state with actions (-want +got):\n%s", d)
	}
	logged := resumingWalks(t, envs.VecOptions{Log: true, MaxEpisodeSteps: 50}, &applied)
	ok(loaded(logged, state))
	if _, err := logged.Snapshot(); !errors.Is(err, envs.ErrNoLog) {
		t.Errorf("Snapshot after LoadState: %v, want ErrNoLog", err)
	}
}

func loaded(v *envs.Vec, state []byte) (*envs.Batch, error) {
	b, _, err := v.LoadState(ctx, state)
	return b, err
}
