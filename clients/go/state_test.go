package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
	"github.com/kubernasium/kubernasium/server/wire"
)

// statesEvery sets the time of requests after which clients ask for a state, whatever that costs, until the test ends.
func statesEvery(t *testing.T, d time.Duration) {
	t.Helper()
	every, share := stateEvery, stateShare
	stateEvery, stateShare = d, 0
	t.Cleanup(func() { stateEvery, stateShare = every, share })
}

// chain starts servers of which each is the stand-in of those before it. kill shuts the next of them down.
func chain(t *testing.T, n int) (urls []string, kill func()) {
	t.Helper()
	var servers []*hosttest.Instance
	for range n {
		s := hosttest.Start(t, func(c *host.Config) { c.DrainFor = time.Millisecond })
		servers, urls = append(servers, s), append(urls, s.WS)
	}
	return urls, func() {
		t.Helper()
		if err := servers[0].Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		servers = servers[1:]
	}
}

// pair returns a vector at the first of the servers, which the others stand in for, and its like in this process.
func pair(t *testing.T, urls []string, id string, n int, o envs.VecOptions) (*VecEnv, *envs.Vec) {
	t.Helper()
	v, err := Dial(t.Context(), urls[0], id, n, Options{Options: o.Options, Autoreset: o.Autoreset, MaxEpisodeSteps: o.MaxEpisodeSteps, Others: urls[1:]})
	if err != nil {
		t.Fatal(err)
	}
	w, err := envs.Make(id, n, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close(); w.Close() })
	return v, w
}

// player draws permitted actions.
type player struct {
	act  space.Space
	rng  *rand.Rand
	acts []float32
}

func newPlayer(v envs.VecEnv, seed uint64) *player {
	_, act := v.Spaces()
	return &player{act, rand.New(rand.NewPCG(seed, 1)), make([]float32, v.NumEnvs()*act.Size())}
}

func (p *player) actions(b *envs.Batch) []float32 {
	n := len(b.Reward)
	k, m := p.act.Size(), space.MaskSize(p.act)
	for i := range n {
		p.act.Sample(p.rng, b.Mask[i*m:(i+1)*m], p.acts[i*k:(i+1)*k])
	}
	return p.acts
}

// batchText describes a batch without the final observations, which are stale in most rows.
func batchText(b *envs.Batch) string {
	return fmt.Sprint(b.Obs, b.Mask, b.Reward, b.Terminated, b.Truncated, b.Invalid, b.Info, b.EpisodeReturn, b.EpisodeLength)
}

// TestStatesAreRestored: environments whose servers are killed again and again take the steps of a local vector, with
// states after nearly each request and requests to repeat after them, in every mode of autoreset, for several
// environments, after resets of all kinds.
func TestStatesAreRestored(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		id      string
		options map[string]any
		reset   map[string]any
	}{
		{"classic/CartPole-v1", nil, map[string]any{"low": 0, "high": 0.04}},
		{"k8s/GangWindow-v0", map[string]any{"steps": 25}, nil},
		{"k8s/GPUPodScheduling-v1", nil, nil},
		{"k8s/VerticalPodAutoscaler-v1", nil, nil},
	} {
		for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep, envs.Disabled} {
			t.Run(fmt.Sprintf("%s/%v", tc.id, mode), func(t *testing.T) {
				const n, kills, each = 3, 4, 14
				urls, kill := chain(t, kills+1)
				opts := envs.VecOptions{Options: tc.options, Autoreset: mode, MaxEpisodeSteps: 11}
				v, w := pair(t, urls, tc.id, n, opts)
				var got, want *envs.Batch
				var err error
				both := func(what string, do func(envs.VecEnv) (*envs.Batch, error)) {
					t.Helper()
					if want, err = do(w); err != nil {
						t.Fatal(err)
					}
					if got, err = do(v); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					if g, w := batchText(got), batchText(want); g != w {
						t.Fatalf("%s:\ngot  %s\nwant %s", what, g, w)
					}
				}
				reset := func(o envs.VecResetOptions) {
					t.Helper()
					both(fmt.Sprint("reset ", o), func(x envs.VecEnv) (*envs.Batch, error) { return x.Reset(ctx, o) })
				}
				seed := uint64(7)
				reset(envs.VecResetOptions{Seed: &seed})
				reset(envs.VecResetOptions{Mask: []bool{false, true, true}, Options: tc.reset})
				p := newPlayer(w, 5)
				states := 0
				statesEvery(t, 0)
				for k := range kills * each {
					if k%each == each-5 { // a young episode with options at the kill
						reset(envs.VecResetOptions{Mask: []bool{want.Done(0), true, want.Done(2)}, Options: tc.reset})
					}
					if k%each == each-3 { // the next server gets a state and two steps after it
						stateEvery = time.Hour
					}
					if k%each == each-1 {
						kill()
						stateEvery = 0
					}
					if mode == envs.Disabled && slices.ContainsFunc([]int{0, 1, 2}, want.Done) {
						mask := make([]bool, n)
						for i := range mask {
							mask[i] = want.Done(i)
						}
						reset(envs.VecResetOptions{Mask: mask})
					} else {
						actions := p.actions(want)
						both(fmt.Sprint("step ", k), func(x envs.VecEnv) (*envs.Batch, error) { return x.Step(ctx, actions) })
					}
					if e := v.journal.entries; len(e) > 1 && e[1].want == wire.TypeLoad+wire.OK {
						states++
						if len(e) > 4 {
							t.Fatalf("step %d: %d requests to repeat, want make, the state and at most two", k, len(e))
						}
					}
				}
				if states < kills*each*3/4 {
					t.Errorf("%d of %d steps had a state before them", states, kills*each)
				}
			})
		}
	}
}

// TestStatesBeforeAllAreReset: a state of which a row has no stream yet: its first reset has the seed of the Go client.
func TestStatesBeforeAllAreReset(t *testing.T) {
	statesEvery(t, 0)
	ctx := context.Background()
	urls, kill := chain(t, 2)
	v, w := pair(t, urls, "classic/CartPole-v1", 2, envs.VecOptions{})
	for k, mask := range [][]bool{{false, true}, {true, false}, {true, true}} {
		want, err := w.Reset(ctx, envs.VecResetOptions{Mask: mask})
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Reset(ctx, envs.VecResetOptions{Mask: mask})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Obs, want.Obs) {
			t.Errorf("reset %v: %v, want %v", mask, got.Obs, want.Obs)
		}
		if k == 0 {
			kill()
		}
	}
}

// TestOldServersHaveNoState: with a server of 1.6 the journal alone rebuilds the environments.
func TestOldServersHaveNoState(t *testing.T) {
	statesEvery(t, 0)
	minor = 6
	defer func() { minor = wire.Minor }()
	ctx := context.Background()
	urls, kill := chain(t, 2)
	v, w := pair(t, urls, "classic/CartPole-v1", 1, envs.VecOptions{})
	seed := uint64(3)
	for _, x := range []envs.VecEnv{v, w} {
		if _, err := x.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
	}
	for k := range 30 {
		if k == 20 {
			kill()
		}
		want, err := w.Step(ctx, []float32{float32(k % 2)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Step(ctx, []float32{float32(k % 2)})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Obs, want.Obs) {
			t.Fatalf("step %d: %v, want %v", k, got.Obs, want.Obs)
		}
	}
	if n := len(v.journal.entries); n != 32 {
		t.Errorf("%d requests to repeat, want make, reset and 30 steps", n)
	}
}

// TestStatesWhenDue: a client asks for a state after so much time of requests or so many of their bytes, at most for
// the fiftieth part of the time, and not where no state would help.
func TestStatesWhenDue(t *testing.T) {
	ctx := context.Background()
	v, err := Dial(ctx, hosttest.Start(t).WS, "classic/CartPole-v1", 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	seed := uint64(1)
	step := func() int {
		t.Helper()
		if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
		return len(v.journal.entries)
	}
	for _, tc := range []struct {
		what string
		set  func()
		want bool
	}{
		{"at the beginning", func() {}, false},
		{"after a second", func() { v.journal.cost = time.Second }, true},
		{"after a second, with dear states", func() { v.journal.cost, v.stateFor = 2*time.Second, time.Second/10 }, false},
		{"after five seconds, with dear states", func() { v.journal.cost, v.stateFor = 5*time.Second, time.Second/10 }, true},
		{"after many bytes", func() { v.journal.asked = len(v.journal.data) - stateBytes }, true},
		{"while random actions continue their stream", func() { v.journal.cost, v.journal.unresettable = time.Hour, true }, false},
	} {
		if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
		v.stateFor = 0
		tc.set()
		v.keepState(ctx)
		if got := v.journal.entries[len(v.journal.entries)-1].want == wire.TypeLoad+wire.OK; got != tc.want {
			t.Errorf("%s: a state %v, want %v", tc.what, got, tc.want)
		}
	}
	v.journal.unresettable = false
	if n := step(); n != 2 {
		t.Errorf("%d requests after a reset of all with seeds, want make and reset", n)
	}
}

// TestStateThatDoesNotFit: another server that refuses a state, here by its checksum, cannot rebuild the environments,
// and the error says so.
func TestStateThatDoesNotFit(t *testing.T) {
	statesEvery(t, 0)
	ctx := context.Background()
	urls, kill := chain(t, 2)
	v, err := Dial(ctx, urls[0], "classic/CartPole-v1", 1, Options{Others: urls[1:]})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	seed := uint64(1)
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Step(ctx, []float32{1}); err != nil {
		t.Fatal(err)
	}
	i := strings.Index(string(v.journal.data), "kstate1\n")
	v.journal.data[i+8] ^= 1 // of the checksum
	kill()
	if _, err := v.Step(ctx, []float32{1}); err == nil || !strings.Contains(err.Error(), "take another course here") {
		t.Errorf("Step: %v, want that the state does not fit", err)
	}
}

// TestStatesAfterBaselines: while a baseline acts there is no state. A reset of all with seeds forgets what it did, and once the
// episodes in which it acted are over, states work again: on servers that are killed the environments go on as here.
// So they do after a fork; after random actions of the server and a snapshot all requests are repeated.
func TestStatesAfterBaselines(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct{ id, baseline string }{
		{"k8s/GangWindow-v0", "dynamic_mpc"},
		{"k8s/GPUPodScheduling-v1", "FGD"},
	} {
		t.Run(tc.id, func(t *testing.T) {
			statesEvery(t, 0)
			const n, limit = 2, 5
			urls, kill := chain(t, 3)
			v, err := Dial(ctx, urls[0], tc.id, n, Options{Autoreset: envs.SameStep, MaxEpisodeSteps: limit, Others: urls[1:]})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			w, err := envs.Make(tc.id, n, envs.VecOptions{Autoreset: envs.SameStep, MaxEpisodeSteps: limit})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			here, err := envs.NewPolicies(w, tc.baseline, 0)
			if err != nil {
				t.Fatal(err)
			}
			there := v.Baseline(tc.baseline, 0)
			seed := uint64(3)
			same := func(want *envs.Batch, wantErr error) func(got *envs.Batch, err error) {
				t.Helper()
				return func(got *envs.Batch, err error) {
					t.Helper()
					if wantErr != nil || err != nil || batchText(got) != batchText(want) {
						t.Fatalf("%v, %v:\ngot  %s\nwant %s", err, wantErr, batchText(got), batchText(want))
					}
				}
			}
			reset := func() {
				same(w.Reset(ctx, envs.VecResetOptions{Seed: &seed}))(v.Reset(ctx, envs.VecResetOptions{Seed: &seed}))
			}
			plan := func() { same(here.Step(ctx))(there.Step(ctx)) }
			p := newPlayer(w, 5)
			act := func() {
				a := slices.Clone(p.actions(w.Last()))
				same(w.Step(ctx, a))(v.Step(ctx, a))
			}
			requests := func() (load bool, n int) {
				e := v.journal.entries
				return len(e) > 1 && e[1].want == wire.TypeLoad+wire.OK, len(e)
			}
			reset()
			plan()
			plan()
			if load, n := requests(); !load || n != 4 { // make, the state after the reset, two steps
				t.Errorf("a state after the baseline has acted: %v, %d requests", load, n)
			}
			kill()
			for range limit - 2 {
				act()
			}
			if _, n := requests(); n != 2 {
				t.Errorf("%d requests where the episodes of the baseline are over, want make and a state", n)
			}
			act()
			kill()
			act()
			plan()
			reset()
			if _, n := requests(); n != 2 {
				t.Errorf("%d requests after a reset of all with seeds, want make and a state", n)
			}
			same(w.Fork(0, []int{1}))(v.Fork(ctx, 0, []int{1}))
			act()
			if _, n := requests(); n != 2 {
				t.Errorf("%d requests after a fork and a step, want make and a state", n)
			}
			if _, err := v.Baseline(envs.RandomName, 1).Step(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
				t.Fatal(err)
			}
			if _, n := requests(); n != 4 {
				t.Errorf("%d requests after random actions and a reset, want all 4", n)
			}
			if _, err := v.State(ctx); !errors.Is(err, envs.ErrNoState) {
				t.Errorf("State after random actions: %v, want ErrNoState", err)
			}
		})
	}
}
