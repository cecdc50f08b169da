package envs_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/envs"
)

const roomy = 1 << 20

// TestStateReturns: after LoadState, a vector returns what the saved one returns. Its rows are in the middle of an episode, at
// its end, after it, or before their first reset. The number of shards does not matter, nor do isolated failures.
func TestStateReturns(t *testing.T) {
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep, envs.Disabled} {
		for step := range 8 { // the episodes of two rows end with step 5
			for _, isolate := range []bool{false, true} {
				opts := envs.VecOptions{Autoreset: mode, Portable: true, Isolate: isolate}
				v, ok := walks(t, 3, opts), must(t)
				seed := uint64(9)
				ok(v.Reset(ctx, envs.VecResetOptions{Seed: &seed, Mask: []bool{true, step > 0, true}}))
				actions := []float32{0, 3, 0}
				for k := range step {
					if mode == envs.Disabled && k == 5 {
						ok(v.Reset(ctx, envs.VecResetOptions{}))
					}
					if k == 2 { // an episode that is younger than the others, without a seed
						ok(v.Reset(ctx, envs.VecResetOptions{Mask: []bool{false, true, false}, Options: map[string]any{"failing": false}}))
					}
					ok(v.Step(ctx, actions))
				}
				last := record(v.Last())
				state, err := v.AppendState([]byte("before"), roomy)
				if err != nil || !bytes.HasPrefix(state, []byte("before")) {
					t.Fatalf("AppendState: %v", err)
				}
				opts.Shards = 3
				w := walks(t, 3, opts)
				ok(w.Reset(ctx, envs.VecResetOptions{}))
				b, seeded, err := w.LoadState(ctx, state[len("before"):])
				if err != nil {
					t.Fatalf("%v, step %d: LoadState: %v", mode, step, err)
				}
				if d := cmp.Diff([]bool{true, step > 0, true}, seeded); d != "" {
					t.Errorf("seeded (-want +got):\n%s", d)
				}
				got := record(b)
				for _, final := range []int{7, 8, 9} { // not part of a state
					got[final], last[final] = nil, nil
				}
				if d := cmp.Diff(last, got); d != "" {
					t.Fatalf("%v, step %d: the batch after LoadState (-want +got):\n%s", mode, step, d)
				}
				again, err := w.AppendState(nil, roomy)
				if err != nil || !bytes.Equal(again, state[len("before"):]) {
					t.Errorf("%v, step %d: the state of what was loaded differs: %v", mode, step, err)
				}
				if step == 0 || mode == envs.Disabled && step == 5 {
					for _, x := range []*envs.Vec{v, w} {
						ok(x.Reset(ctx, envs.VecResetOptions{}))
					}
				}
				for k := range 4 {
					if mode == envs.Disabled && step+k >= 5 {
						break
					}
					want, got := ok(v.Step(ctx, actions)), ok(w.Step(ctx, actions))
					want[7], want[8], want[9], got[7], got[8], got[9] = nil, nil, nil, nil, nil, nil // stale in most rows
					if d := cmp.Diff(want, got); d != "" {
						t.Fatalf("%v, step %d and %d more (-want +got):\n%s", mode, step, k+1, d)
					}
				}
			}
		}
	}
}

// Where there is no state, the error says why.
func TestNoState(t *testing.T) {
	reset := func(v *envs.Vec) {
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	step := func(v *envs.Vec, actions ...float32) { _, _ = v.Step(ctx, actions) } // may fail by its actions
	for name, tc := range map[string]struct {
		opts envs.VecOptions
		do   func(v *envs.Vec)
		most int
		want string
	}{
		"not recorded":    {envs.VecOptions{}, reset, roomy, "not recorded"},
		"failed":          {envs.VecOptions{Portable: true}, func(v *envs.Vec) { reset(v); step(v, 0, 2) }, roomy, "environment 1 has failed"},
		"failed isolated": {envs.VecOptions{Portable: true, Isolate: true}, func(v *envs.Vec) { reset(v); step(v, 0, 2) }, roomy, "environment 1 has failed"},
		"failed, begun":   {envs.VecOptions{Portable: true, Isolate: true, Autoreset: envs.SameStep}, func(v *envs.Vec) { reset(v); step(v, 0, 2) }, roomy, "environment 1 has failed"},
		"too large":       {envs.VecOptions{Portable: true}, func(v *envs.Vec) { reset(v); step(v, 0, 0) }, 100, "want at most 100"},
	} {
		v := walks(t, 2, tc.opts)
		tc.do(v)
		if _, err := v.AppendState(nil, tc.most); !errors.Is(err, envs.ErrNoState) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		reset(v)
		step(v, 0, 0)
		if _, err := v.AppendState(nil, roomy); (err == nil) != tc.opts.Portable {
			t.Errorf("%s: after a reset: %v", name, err)
		}
	}
	random := walkSpec(new(int))
	random.Nondeterministic = true
	v, err := envs.NewVec(random, 1, envs.VecOptions{Portable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.AppendState(nil, roomy); v.Portable() || !errors.Is(err, envs.ErrNoState) {
		t.Errorf("not deterministic: %v, want ErrNoState", err)
	}
}

// An episode of more actions than a vector keeps, of 4,096 in each of 128 environments without a time limit, has no
// state. The next one has.
func TestStateOfLongEpisodes(t *testing.T) {
	const n = 128
	actions := make([]float32, n)
	spec := walkSpec(new(int))
	open := spec.Open
	spec.MaxEpisodeSteps, spec.Open = 0, func(o map[string]any) (envs.Maker, error) {
		maker, err := open(o)
		return func() (envs.Task, error) { task, err := maker(); return bare{task}, err }, err
	}
	var plain, portable int64
	for _, opts := range []envs.VecOptions{
		{Admit: func(b int64) error { plain = b; return nil }},
		{Admit: func(b int64) error { portable = b; return nil }, Portable: true},
	} {
		v, err := envs.NewVec(spec, n, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if !opts.Portable {
			continue
		}
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
		for k := range 4097 {
			if k%2048 == 0 {
				if _, err := v.AppendState(nil, roomy<<2); err != nil {
					t.Fatalf("after %d steps: %v", k, err)
				}
			}
			if _, err := v.Step(ctx, actions); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := v.AppendState(nil, roomy<<2); !errors.Is(err, envs.ErrNoState) || !strings.Contains(err.Error(), "more than 4096 actions") {
			t.Errorf("after 4,097 steps: %v", err)
		}
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.AppendState(nil, roomy<<2); err != nil {
			t.Errorf("after a reset: %v", err)
		}
	}
	if got := portable - plain; got != n*4096*4*5/4 { // float32, and a quarter more for append
		t.Errorf("states take %d bytes more, want %d", got, n*4096*4*5/4)
	}
}

// TestBadStates: bytes that are no state change nothing, and a state whose episodes take another course leaves
// environments that need a reset.
func TestBadStates(t *testing.T) {
	v := walks(t, 2, envs.VecOptions{Portable: true})
	seed := uint64(1)
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := v.Step(ctx, []float32{0, 3}); err != nil {
			t.Fatal(err)
		}
	}
	state, err := v.AppendState(nil, roomy)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(at int, x byte) []byte {
		s := bytes.Clone(state)
		s[at] ^= x
		return s
	}
	w := walks(t, 2, envs.VecOptions{Portable: true})
	for name, tc := range map[string]struct {
		w    *envs.Vec
		data []byte
		want string
	}{
		"nothing":        {w, nil, "none of this version"},
		"another format": {w, changed(6, 3), "none of this version"},
		"cut":            {w, state[:len(state)-1], "end too early"},
		"cut head":       {w, state[:20], "end too early"},
		"longer":         {w, append(bytes.Clone(state), 0), "1 bytes after the end"},
		"another mode":   {walks(t, 2, envs.VecOptions{Autoreset: envs.SameStep}), state, "in mode 0"},
		"another number": {walks(t, 3, envs.VecOptions{}), state, "2 × "},
		"another limit":  {walks(t, 2, envs.VecOptions{MaxEpisodeSteps: 9}), state, "a limit of 5 steps"},
		"checksum":       {w, changed(8, 1), "another course"},
		"generator":      {w, changed(bytes.Index(state, []byte("pcg64:"))+20, 1), "another course"},
		"no generator":   {w, changed(bytes.Index(state, []byte("pcg64:")), 1), "pcg"},
		"failing action": {w, changed(bytes.LastIndex(state, []byte{3, 3, 3}), 1), "environment 1"}, // 2 fails
	} {
		if _, _, err := tc.w.LoadState(ctx, tc.data); !errors.Is(err, envs.ErrBadState) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if _, err := tc.w.Step(ctx, make([]float32, tc.w.NumEnvs())); !errors.Is(err, envs.ErrResetNeeded) {
			t.Errorf("%s: Step afterwards: %v, want ErrResetNeeded", name, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := w.LoadState(ended, state); !errors.Is(err, context.Canceled) {
		t.Errorf("LoadState with an ended context: %v", err)
	}
	if _, _, err := w.LoadState(ctx, state); err != nil {
		t.Errorf("LoadState after all that: %v", err)
	}
}

// FuzzLoadState: any bytes are refused with ErrBadState, or are a state that leads to itself.
func FuzzLoadState(f *testing.F) {
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep} {
		v, err := envs.NewVec(walkSpec(new(int)), 2, envs.VecOptions{Portable: true, Autoreset: mode})
		if err != nil {
			f.Fatal(err)
		}
		for k := range 7 {
			if state, err := v.AppendState(nil, roomy); err == nil {
				f.Add(state)
			}
			if k == 0 {
				_, err = v.Reset(ctx, envs.VecResetOptions{Options: map[string]any{"failing": false}})
			} else {
				_, err = v.Step(ctx, []float32{0, 3})
			}
			if err != nil {
				f.Fatal(err)
			}
		}
		if err := v.Close(); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep} {
			v := walks(t, 2, envs.VecOptions{Portable: true, Autoreset: mode})
			_, _, err := v.LoadState(ctx, data)
			if err != nil {
				if !errors.Is(err, envs.ErrBadState) {
					t.Errorf("%x: %v, want ErrBadState", data, err)
				}
				continue
			}
			state, err := v.AppendState(nil, roomy)
			if err != nil {
				continue // such as an episode that ended more than once
			}
			if _, _, err := v.LoadState(ctx, state); err != nil {
				t.Errorf("%x leads to %x: %v", data, state, err)
			}
		}
	})
}
