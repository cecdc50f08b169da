package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	client "github.com/kubernasium/kubernasium/clients/go"
	"github.com/kubernasium/kubernasium/envs"
	_ "github.com/kubernasium/kubernasium/envs/all"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/guard"
	"github.com/kubernasium/kubernasium/server/host"
	"github.com/kubernasium/kubernasium/server/host/hosttest"
)

var ctx = context.Background()

// spacedVec is a vector that the tests play: *envs.Vec, *client.VecEnv or *client.Joined.
type spacedVec interface {
	envs.VecEnv
	Autoreset() envs.AutoresetMode
}

var (
	_ spacedVec = (*envs.Vec)(nil)
	_ spacedVec = (*client.VecEnv)(nil)
	_ spacedVec = (*client.Joined)(nil)
)

func dial(t testing.TB, url, id string, n int, opts client.Options) *client.VecEnv {
	t.Helper()
	v, err := client.Dial(ctx, url, id, n, opts)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return v
}

func local(t testing.TB, id string, n int, opts envs.VecOptions) *envs.Vec {
	t.Helper()
	v, err := envs.Make(id, n, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return v
}

// trajectory plays steps at random, with resets of what has ended in mode Disabled, and
// returns a hash of all that is seen.
func trajectory(t testing.TB, v spacedVec, opts envs.VecResetOptions, steps int) string {
	t.Helper()
	h := sha256.New()
	write := func(x any) {
		if err := binary.Write(h, binary.LittleEndian, x); err != nil {
			t.Fatal(err)
		}
	}
	b, err := v.Reset(ctx, opts)
	if err != nil {
		t.Fatalf("Reset: %v", err)
	}
	_, act := v.Spaces()
	rng := rand.New(rand.NewPCG(1, 2))
	n, k, m := v.NumEnvs(), act.Size(), space.MaskSize(act)
	actions := make([]float32, n*k)
	for range steps {
		for _, x := range []any{b.Obs, b.Mask, b.Reward, b.Terminated, b.Truncated, b.Invalid, b.Info, b.FinalObs, b.FinalMask, b.FinalInfo, b.EpisodeReturn, b.EpisodeLength} {
			write(x)
		}
		if ended := done(b); v.Autoreset() == envs.Disabled && ended != nil {
			if b, err = v.Reset(ctx, envs.VecResetOptions{Mask: ended}); err != nil {
				t.Fatalf("Reset with a mask: %v", err)
			}
			continue
		}
		for i := range n {
			act.Sample(rng, b.Mask[i*m:(i+1)*m], actions[i*k:(i+1)*k])
		}
		if b, err = v.Step(ctx, actions); err != nil {
			t.Fatalf("Step: %v", err)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func done(b *envs.Batch) []bool {
	mask, some := make([]bool, len(b.Reward)), false
	for i := range mask {
		mask[i] = b.Done(i)
		some = some || mask[i]
	}
	if !some {
		return nil
	}
	return mask
}

var modes = []envs.AutoresetMode{envs.NextStep, envs.SameStep, envs.Disabled}

// A trajectory over the wire is that in this process, over every transport and in every mode.
func TestTrajectories(t *testing.T) {
	s := hosttest.Start(t)
	seed := uint64(7)
	for _, tc := range []struct {
		id     string
		n      int
		limit  int
		steps  int
		kwargs map[string]any
	}{
		{id: "classic/CartPole-v1", n: 5, steps: 300},
		{id: "k8s/GangWindow-v0", n: 3, steps: 60, kwargs: map[string]any{"steps": 25, "noise": 1.0}},
		{id: "k8s/GangWindow-v0", n: 2, limit: 10, steps: 30},
	} {
		for _, mode := range modes {
			for _, url := range []string{s.WS, s.Unix} {
				t.Run(fmt.Sprintf("%s/%d/%v/%s", tc.id, tc.limit, mode, url[:2]), func(t *testing.T) {
					w := local(t, tc.id, tc.n, envs.VecOptions{Options: tc.kwargs, Autoreset: mode, MaxEpisodeSteps: tc.limit})
					v := dial(t, url, tc.id, tc.n, client.Options{Options: tc.kwargs, Autoreset: mode, MaxEpisodeSteps: tc.limit})
					for _, opts := range []envs.VecResetOptions{{Seed: &seed}, {}} { // the second continues the streams
						got, want := trajectory(t, v, opts, tc.steps), trajectory(t, w, opts, tc.steps)
						if got != want {
							t.Errorf("over the wire %s, here %s", got, want)
						}
					}
				})
			}
		}
	}
}

// Without a seed, the first reset uses 0, as in this process.
func TestFirstResetWithoutSeed(t *testing.T) {
	s := hosttest.Start(t)
	v, w := dial(t, s.WS, "classic/CartPole-v1", 3, client.Options{}), local(t, "classic/CartPole-v1", 3, envs.VecOptions{})
	if got, want := trajectory(t, v, envs.VecResetOptions{}, 50), trajectory(t, w, envs.VecResetOptions{}, 50); got != want {
		t.Errorf("over the wire %s, here %s", got, want)
	}
}

// Seed 0 is a seed as any other, also after another one.
func TestResetWithSeedZero(t *testing.T) {
	s := hosttest.Start(t)
	v, w := dial(t, s.WS, "classic/CartPole-v1", 3, client.Options{}), local(t, "classic/CartPole-v1", 3, envs.VecOptions{})
	for _, seed := range []uint64{0, 5, 0} {
		opts := envs.VecResetOptions{Seed: &seed}
		if got, want := trajectory(t, v, opts, 50), trajectory(t, w, opts, 50); got != want {
			t.Errorf("seed %d: over the wire %s, here %s", seed, got, want)
		}
	}
}

// Several servers joined are one vector.
func TestJoin(t *testing.T) {
	a, b := hosttest.Start(t), hosttest.Start(t)
	for _, mode := range modes {
		opts := client.Options{Autoreset: mode}
		j, err := client.Join(dial(t, a.WS, "classic/CartPole-v1", 3, opts), dial(t, b.Unix, "classic/CartPole-v1", 1, opts), dial(t, a.WS, "classic/CartPole-v1", 2, opts))
		if err != nil {
			t.Fatal(err)
		}
		w := local(t, "classic/CartPole-v1", 6, envs.VecOptions{Autoreset: mode})
		seed := uint64(11)
		if got, want := trajectory(t, j, envs.VecResetOptions{Seed: &seed}, 200), trajectory(t, w, envs.VecResetOptions{Seed: &seed}, 200); got != want {
			t.Errorf("%v: joined %s, here %s", mode, got, want)
		}
	}
	p := dial(t, a.WS, "classic/CartPole-v1", 1, client.Options{})
	q := dial(t, a.WS, "k8s/GangWindow-v0", 1, client.Options{})
	if _, err := client.Join(p, q); err == nil {
		t.Error("Join of different environments gives no error")
	}
}

// What is refused here is refused over the wire with the same sentinel, and steps nothing.
func TestErrors(t *testing.T) {
	s := hosttest.Start(t)
	seed := uint64(1)
	for _, url := range []string{s.WS, s.Unix} {
		v := dial(t, url, "classic/CartPole-v1", 2, client.Options{Autoreset: envs.Disabled})
		if _, err := v.Step(ctx, []float32{0, 0}); !errors.Is(err, envs.ErrResetNeeded) {
			t.Errorf("Step before Reset: %v, want ErrResetNeeded", err)
		}
		for name, opts := range map[string]envs.VecResetOptions{
			"one seed for two": {Seeds: []uint64{1}},
			"a short mask":     {Mask: []bool{true}},
			"unknown option":   {Options: map[string]any{"no such option": 1}},
		} {
			if _, err := v.Reset(ctx, opts); !errors.Is(err, envs.ErrInvalidOption) {
				t.Errorf("Reset with %s: %v, want ErrInvalidOption", name, err)
			}
		}
		if _, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed}); err != nil {
			t.Fatal(err)
		}
		for _, x := range []float32{-1, 2, 0.5, float32(math.NaN())} {
			want := fmt.Sprintf("environment 1: envs: invalid action: %v not in Discrete(2)", x)
			if _, err := v.Step(ctx, []float32{0, x}); !errors.Is(err, envs.ErrInvalidAction) || err.Error() != want {
				t.Errorf("Step with %v: %v, want %s", x, err, want)
			}
		}
		if _, err := v.Step(ctx, nil); !errors.Is(err, envs.ErrInvalidAction) {
			t.Errorf("Step without actions: %v, want ErrInvalidAction", err)
		}
		b, err := v.Step(ctx, []float32{0, 1})
		if err != nil || b.EpisodeLength[0] != 1 {
			t.Errorf("Step = %v, %v; want the first step of the episode", b, err)
		}
		for range 2 {
			if err := v.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if _, err := v.Step(ctx, []float32{0, 1}); !errors.Is(err, envs.ErrClosed) {
			t.Errorf("Step after Close: %v, want ErrClosed", err)
		}
		if _, err := v.Reset(ctx, envs.VecResetOptions{}); !errors.Is(err, envs.ErrClosed) {
			t.Errorf("Reset after Close: %v, want ErrClosed", err)
		}
	}
}

func TestDialErrors(t *testing.T) {
	s := hosttest.Start(t, func(c *host.Config) { c.Guard.Accept, c.Limits.EnvsMake = guard.Only("secret"), 4 })
	ok := client.Options{Token: "secret"}
	var unknown *envs.UnknownIDError
	if _, err := client.Dial(ctx, s.WS, "classic/CartPol-v1", 1, ok); !errors.As(err, &unknown) {
		t.Errorf("unknown id: %v, want an UnknownIDError", err)
	}
	for name, tc := range map[string]struct {
		url  string
		n    int
		opts client.Options
		want error
	}{
		"no token":       {s.WS, 1, client.Options{}, client.ErrUnauthorized},
		"wrong token":    {s.WS, 1, client.Options{Token: "guess"}, client.ErrUnauthorized},
		"too many":       {s.WS, 5, ok, client.ErrBusy},
		"unknown option": {s.WS, 1, client.Options{Token: "secret", Options: map[string]any{"x": 1}}, envs.ErrInvalidOption},
	} {
		if _, err := client.Dial(ctx, tc.url, "classic/CartPole-v1", tc.n, tc.opts); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	for _, url := range []string{"http://127.0.0.1:1", "::", "unix:///no/such/socket", "ws://127.0.0.1:1"} {
		if _, err := client.Dial(ctx, url, "classic/CartPole-v1", 1, ok); err == nil {
			t.Errorf("Dial(%q) gives no error", url)
		}
	}
}

// The description of the environment survives the wire, and so do pictures of it.
func TestSpecAndRender(t *testing.T) {
	s := hosttest.Start(t)
	v, w := dial(t, s.WS, "k8s/GangWindow-v0", 2, client.Options{}), local(t, "k8s/GangWindow-v0", 2, envs.VecOptions{})
	got, want := v.Spec(), w.Spec()
	if diff := cmp.Diff([]any{want.ID, want.Doc, want.RenderModes, want.HeldOut, want.Info, want.Metrics}, []any{got.ID, got.Doc, got.RenderModes, got.HeldOut, got.Info, got.Metrics}); diff != "" {
		t.Errorf("Spec (-here +wire):\n%s", diff)
	}
	for i, b := range want.Baselines {
		if got.Baselines[i].Name != b.Name || got.Baselines[i].Clairvoyant != b.Clairvoyant {
			t.Errorf("baseline %d is %q, want %q", i, got.Baselines[i].Name, b.Name)
		}
	}
	obs, act := v.Spaces()
	wantObs, wantAct := w.Spaces()
	if diff := cmp.Diff([]any{wantObs, wantAct}, []any{obs, act}); diff != "" {
		t.Errorf("spaces (-here +wire):\n%s", diff)
	}
	if _, err := v.RenderANSI(0); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("RenderANSI before Reset: %v, want ErrResetNeeded", err)
	}
	for _, x := range []spacedVec{v, w} {
		if _, err := x.Reset(ctx, envs.VecResetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := v.RenderANSI(1)
	wantText, _ := w.RenderANSI(1)
	if err != nil || text != wantText {
		t.Errorf("RenderANSI = %q, %v; want %q", text, err, wantText)
	}
	img, err := v.RenderRGB(1)
	wantImg, _ := w.RenderRGB(1)
	if diff := cmp.Diff(wantImg, img); err != nil || diff != "" {
		t.Errorf("RenderRGB: %v\n%s", err, diff)
	}
}
