package client

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

// TestStateOfParts: the state of a vector on two servers makes a vector on one other server the same, in every mode of
// autoreset, in the middle of an episode, at its end and after it, returns and lengths included; also if that server is
// killed at once.
func TestStateOfParts(t *testing.T) {
	ctx := context.Background()
	first := []string{hosttest.Start(t).WS, hosttest.Start(t).WS}
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep, envs.Disabled} {
		opts := Options{Autoreset: mode, MaxEpisodeSteps: 4, Weights: []float64{2, 1}}
		v, err := Spread(ctx, first, "classic/CartPole-v1", 3, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		seed := uint64(5)
		if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
		step := func(x envs.VecEnv) string {
			t.Helper()
			b, err := x.Step(ctx, []float32{1, 0, 1})
			if errors.Is(err, envs.ErrResetNeeded) && mode == envs.Disabled {
				b, err = x.Reset(ctx, envs.VecResetOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			return batchText(b)
		}
		for k := range 7 {
			if k == 3 && mode != envs.Disabled { // episodes of different ages
				if _, err := v.Reset(ctx, envs.VecResetOptions{Mask: []bool{false, true, false}}); err != nil {
					t.Fatal(err)
				}
			}
			step(v)
			last := batchText(v.batch)
			state, err := v.State(ctx)
			if err != nil {
				t.Fatal(err)
			}
			sizes, err := StateSizes(state)
			if err != nil || !slices.Equal(sizes, []int{2, 1}) {
				t.Fatalf("sizes %v, %v; want 2 and 1", sizes, err)
			}
			urls, kill := chain(t, 2)
			w, err := Spread(ctx, urls, "classic/CartPole-v1", 3, Options{Autoreset: mode, MaxEpisodeSteps: 4, Sizes: sizes})
			if err != nil {
				t.Fatal(err)
			}
			b, err := w.LoadState(ctx, state)
			if err != nil {
				t.Fatal(err)
			}
			if got := batchText(b); got != last {
				t.Fatalf("%v, step %d: the batch of LoadState is\n%s\nwant\n%s", mode, k, got, last)
			}
			if again, err := w.State(ctx); err != nil || !bytes.Equal(again, state) {
				t.Errorf("%v, step %d: the state of what was loaded differs: %v", mode, k, err)
			}
			if k == 1 {
				kill()
			}
			var rest []string
			for range 6 {
				rest = append(rest, step(w))
			}
			if _, err := v.LoadState(ctx, state); err != nil { // in the vector itself
				t.Fatal(err)
			}
			for _, p := range v.parts {
				if n := len(p.journal.entries); n != 2 {
					t.Errorf("%v, step %d: %d requests to repeat, want make and load", mode, k, n)
				}
			}
			for i, got := range rest {
				if want := step(v); got != want {
					t.Fatalf("%v, step %d and %d more:\n%s\nwant\n%s", mode, k, i+1, got, want)
				}
			}
			if _, err := v.LoadState(ctx, state); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestStateErrors: bytes that are no state of such a vector are refused, before anything changes where the client sees it, and
// environments that must be reset have no state.
func TestStateErrors(t *testing.T) {
	ctx := context.Background()
	url := hosttest.Start(t).WS
	open := func(id string, n int, opts Options) *VecEnv {
		t.Helper()
		v, err := Dial(ctx, url, id, n, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = v.Close() })
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := open("classic/CartPole-v1", 2, Options{})
	state, err := v.State(ctx)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(state)
	changed[bytes.Index(state, []byte("kstate"))+8] ^= 1 // of the checksum
	for name, tc := range map[string]struct {
		v    *VecEnv
		data []byte
		want string
	}{
		"nothing":        {v, nil, "no vector has written"},
		"no sizes":       {v, state[:len(savedMagic)+1], "no vector has written"},
		"no rows":        {v, state[:len(savedMagic)+2], "part 0 has 2 environments"},
		"cut":            {v, state[:len(state)-1], "end too early"},
		"longer":         {v, append(bytes.Clone(state), 0), "after the end"},
		"another number": {open("classic/CartPole-v1", 3, Options{}), state, "want 3 environments"},
		"another id":     {open("k8s/GangWindow-v0", 2, Options{}), state, "CartPole"},
		"another course": {open("classic/CartPole-v1", 2, Options{}), changed, "another course"},
		"not resumed":    {open("classic/CartPole-v1", 2, Options{Reconnect: -1}), state, "has none"},
	} {
		if _, err := tc.v.LoadState(ctx, tc.data); !errors.Is(err, envs.ErrBadState) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		_, err := tc.v.Step(ctx, make([]float32, tc.v.NumEnvs()))
		if lost := name == "another id" || name == "another course"; lost != errors.Is(err, envs.ErrResetNeeded) || !lost && err != nil {
			t.Errorf("%s: Step afterwards: %v", name, err)
		}
	}
	torn := open("classic/CartPole-v1", 2, Options{})
	torn.rows.invalidate()
	if _, err := torn.State(ctx); !errors.Is(err, envs.ErrNoState) {
		t.Errorf("State of environments that must be reset: %v", err)
	}
	if _, err := open("classic/CartPole-v1", 2, Options{Reconnect: -1}).State(ctx); !errors.Is(err, envs.ErrNoState) {
		t.Errorf("State of a session that is not resumed: %v", err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.State(ctx); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("State after Close: %v", err)
	}
	if _, err := v.LoadState(ctx, state); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("LoadState after Close: %v", err)
	}
	if _, err := Spread(ctx, []string{url}, "classic/CartPole-v1", 2, Options{Sizes: []int{1, 2}}); err == nil || !strings.Contains(err.Error(), "parts of [1 2]") {
		t.Errorf("Spread with sizes of 3: %v", err)
	}
}
