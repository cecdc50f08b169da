// Package envcheck holds the contract of environments as tests, and toy tasks.
//
// [Run] checks one environment. The tests of every environment call it, and so do the clients' tests for environments
// on a server. The toy tasks serve the tests of learners, servers and clients.
package envcheck

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Options adapt [Run] to an environment.
type Options struct {
	Options       map[string]any                  // to make the environment with
	Steps         int                             // random steps of each check; default 1000; with -short a tenth, at least 40
	NewCluster    func() (cluster.Cluster, error) // the backend; default: sim
	OneEpisode    bool                            // every seed gives the same episode
	SkipBaselines bool

	// Make makes n environments of the spec elsewhere, such as on a server. The default is this process. An unknown
	// option must be an error that wraps envs.ErrInvalidOption. Make may ignore NewCluster, which exists in this
	// process only. Run closes the result.
	Make func(n int, opts envs.VecOptions) (envs.VecEnv, error)
}

// Run checks that the environment of spec keeps the contract: values in their spaces, masks that permit something,
// reproducible episodes, errors for invalid calls, autoreset as Gymnasium defines it, results that do not depend on
// sharding, snapshots and copies that resume, and baselines that play and whose answers change nothing.
//
// With Options.Make, the result of Make must keep the contract of [envs.VecEnv] and follow the trajectories of this
// process. Run then skips checks that need the environments in this process: the task's info and rendering, sharding,
// snapshots and baselines.
func Run(t *testing.T, spec *envs.Spec, opts Options) {
	t.Helper()
	opts.Steps = cmp.Or(opts.Steps, 1000)
	if testing.Short() {
		opts.Steps = max(40, opts.Steps/10)
	}
	c, here := checker{spec: spec, opts: opts}, opts.Make == nil
	if here {
		t.Run("spec", c.checkSpec)
	}
	t.Run("unknown option", c.checkUnknownOption)
	t.Run("values", c.checkValues)
	t.Run("order of calls", c.checkOrder)
	t.Run("invalid actions", c.checkInvalidActions)
	t.Run("next step", c.checkNextStep)
	t.Run("same step", c.checkSameStep)
	t.Run("disabled", c.checkDisabled)
	if spec.Nondeterministic {
		return
	}
	t.Run("seeds", c.checkSeeds)
	if !here {
		t.Run("same as in process", c.checkSameAsInProcess)
		return
	}
	t.Run("shards", c.checkShards)
	t.Run("snapshot", c.checkSnapshot)
	t.Run("resume", c.checkResume)
	t.Run("clones", c.checkClones)
	if !opts.SkipBaselines {
		for i := range spec.Baselines {
			if testing.Short() && i%3 > 0 {
				continue // every third, as of cases
			}
			b := &spec.Baselines[i]
			t.Run("baseline "+b.Name, func(t *testing.T) { c.checkBaseline(t, b) })
			t.Run("baseline asked "+b.Name, func(t *testing.T) { c.checkAsked(t, b) })
		}
	}
}

type checker struct {
	spec *envs.Spec
	opts Options
}

var ctx = context.Background()

func reset(t *testing.T, v envs.VecEnv, seed uint64) *envs.Batch {
	t.Helper()
	b, err := v.Reset(ctx, envs.VecResetOptions{Seed: &seed})
	if err != nil {
		t.Fatalf("Reset with seed %d: %v", seed, err)
	}
	return b
}

// advance steps v, which must succeed.
func advance(t *testing.T, v envs.VecEnv, actions []float32) *envs.Batch {
	t.Helper()
	b, err := v.Step(ctx, actions)
	if err != nil {
		t.Fatalf("Step: %v", err)
	}
	return b
}

// player draws permitted actions at random.
type player struct {
	rng  *rand.Rand
	act  space.Space
	mask int
	out  []float32
}

func newPlayer(v envs.VecEnv, seed uint64) *player {
	_, act := v.Spaces()
	return &player{rand.New(rand.NewPCG(seed, 0)), act, space.MaskSize(act), make([]float32, v.NumEnvs()*act.Size())}
}

func (p *player) actions(b *envs.Batch) []float32 {
	k := p.act.Size()
	for i := range len(b.Reward) {
		p.act.Sample(p.rng, b.Mask[i*p.mask:(i+1)*p.mask], p.out[i*k:(i+1)*k])
	}
	return p.out
}

func (c *checker) checkSpec(t *testing.T) {
	v := c.local(t, 1, envs.VecOptions{})
	obs, act := v.Spaces()
	if obs.Size() < 1 || act.Size() < 1 {
		t.Errorf("spaces of size %d and %d, want at least 1", obs.Size(), act.Size())
	}
	if len(c.spec.Info) > 0 {
		if _, ok := v.Env(0).Task().(envs.InfoWriter); !ok {
			t.Errorf("the spec has columns of info, but %T is no InfoWriter", v.Env(0).Task())
		}
	}
	if features := v.Features(); features != nil {
		if err := CheckFeatures(obs, features); err != nil {
			t.Errorf("names of the observation's elements: %v", err)
		}
	}
	for _, m := range c.spec.Metrics {
		if c.spec.Column(m.Column) < 0 {
			t.Errorf("metric %q is no column of info", m.Column)
		}
	}
	if len(c.spec.RenderModes) > 0 {
		reset(t, v, 1)
		text, err := v.RenderANSI(0)
		if err != nil || text == "" {
			t.Errorf("RenderANSI = %q, %v", text, err)
		}
		img, err := v.RenderRGB(0)
		if err != nil || img.Bounds().Empty() {
			t.Errorf("RenderRGB: %v", err)
		}
	}
}

func (c *checker) checkUnknownOption(t *testing.T) {
	v, err := c.open(1, envs.VecOptions{Options: map[string]any{"no such option": 1}})
	if !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("an unknown option: %v, want ErrInvalidOption", err)
	}
	if err == nil {
		owned(t, v, nil)
	}
}

// checkValues takes random actions and checks every value.
func (c *checker) checkValues(t *testing.T) {
	const n = 3
	v := c.make(t, n, envs.VecOptions{Autoreset: envs.SameStep})
	obs, act := v.Spaces()
	b, p := reset(t, v, 1), newPlayer(v, 1)
	for step := range c.opts.Steps / n {
		checkRows(t, obs, act, b)
		for i := range n {
			if b.Done(i) && !obs.Contains(row(b.FinalObs, i, n)) {
				t.Fatalf("step %d: the final observation %v is outside %+v", step, row(b.FinalObs, i, n), obs.Describe())
			}
		}
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
		var err error
		if b, err = v.Step(ctx, p.actions(b)); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
	}
}

func checkRows(t *testing.T, obs, act space.Space, b *envs.Batch) {
	t.Helper()
	n := len(b.Reward)
	for i := range n {
		if o := row(b.Obs, i, n); !obs.Contains(o) {
			t.Errorf("observation %v is outside %+v", o, obs.Describe())
		}
		if m := row(b.Mask, i, n); len(m) > 0 && !everyPartPermits(act, m) {
			t.Errorf("mask %v permits nothing in some part of %s", m, act.Describe().Kind)
		}
		if r := b.Reward[i]; math.IsNaN(r) || math.IsInf(r, 0) {
			t.Errorf("reward %v", r)
		}
		if b.Invalid[i] {
			t.Errorf("a permitted action is flagged as invalid")
		}
		for k, x := range row(b.Info, i, n) {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Errorf("info column %d is %v", k, x)
			}
		}
	}
}

// everyPartPermits reports whether mask permits something in each part of act.
func everyPartPermits(act space.Space, mask []bool) bool {
	parts := []int{len(mask)}
	switch a := act.(type) {
	case space.MultiDiscrete:
		parts = a.NVec
	case space.MultiBinary:
		parts = slices.Repeat([]int{2}, a.N)
	}
	for _, n := range parts {
		if !slices.Contains(mask[:n], true) {
			return false
		}
		mask = mask[n:]
	}
	return true
}

func row[T any](s []T, i, n int) []T {
	k := len(s) / n
	return s[i*k : (i+1)*k]
}

func (c *checker) checkOrder(t *testing.T) {
	v := c.make(t, 2, envs.VecOptions{Autoreset: envs.Disabled})
	_, act := v.Spaces()
	actions := make([]float32, 2*act.Size())
	if _, err := v.Step(ctx, actions); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Step before Reset: %v, want ErrResetNeeded", err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{1}}); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("Reset with 1 seed for 2: %v, want ErrInvalidOption", err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{Options: map[string]any{"no such option": 1}}); !errors.Is(err, envs.ErrInvalidOption) {
		t.Errorf("Reset with an unknown option: %v, want ErrInvalidOption", err)
	}
	if err := v.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := v.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := v.Step(ctx, actions); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("Step after Close: %v, want ErrClosed", err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("Reset after Close: %v, want ErrClosed", err)
	}
}

// checkInvalidActions takes actions outside the space and checks that no environment steps.
func (c *checker) checkInvalidActions(t *testing.T) {
	v, w := c.make(t, 2, envs.VecOptions{}), c.make(t, 2, envs.VecOptions{})
	bv, bw := reset(t, v, 1), reset(t, w, 1)
	pv, pw := newPlayer(v, 1), newPlayer(w, 1)
	nan := float32(math.NaN())
	_, act := v.Spaces()
	for _, x := range []float32{-1e9, 1e9, nan, 0.5} {
		actions := append([]float32(nil), pv.actions(bv)...)
		pw.actions(bw)
		actions[len(actions)-1] = x
		if act.Contains(actions[len(actions)-act.Size():]) {
			continue // such as 0.5 in a Box
		}
		if _, err := v.Step(ctx, actions); !errors.Is(err, envs.ErrInvalidAction) {
			t.Errorf("Step with %v: %v, want ErrInvalidAction", x, err)
		}
	}
	if _, err := v.Step(ctx, nil); !errors.Is(err, envs.ErrInvalidAction) {
		t.Errorf("Step without actions: %v, want ErrInvalidAction", err)
	}
	if c.spec.Nondeterministic {
		return
	}
	hv, hw := trajectory(t, v, bv, pv, 20), trajectory(t, w, bw, pw, 20)
	if hv != hw {
		t.Errorf("refused actions changed the episode")
	}
}

// trajectory takes random actions and returns a hash of all results.
func trajectory(t *testing.T, v envs.VecEnv, b *envs.Batch, p *player, steps int) string {
	t.Helper()
	h := sha256.New()
	write := func(x any) {
		if err := binary.Write(h, binary.LittleEndian, x); err != nil {
			t.Fatal(err)
		}
	}
	seen := func() {
		for _, x := range []any{b.Obs, b.Mask, b.Reward, b.Terminated, b.Truncated, b.Invalid, b.Info, b.FinalObs, b.FinalMask, b.FinalInfo, b.EpisodeReturn, b.EpisodeLength} {
			write(x)
		}
	}
	seen()
	for range steps {
		actions := p.actions(b)
		write(actions)
		b = advance(t, v, actions)
		seen()
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func (c *checker) checkSeeds(t *testing.T) {
	run := func(seed uint64) string {
		v := c.make(t, 3, envs.VecOptions{Autoreset: envs.SameStep})
		return trajectory(t, v, reset(t, v, seed), newPlayer(v, 9), c.opts.Steps/3)
	}
	a, b, other := run(1), run(1), run(1000)
	if a != b {
		t.Errorf("equal seeds give different trajectories")
	}
	if a == other && !c.opts.OneEpisode {
		t.Errorf("different seeds give the same trajectory")
	}
	c.checkSeedOfRow(t)
}

// checkSeedOfRow checks that environment i of seed s has the episode of seed s+i.
func (c *checker) checkSeedOfRow(t *testing.T) {
	v, w := c.make(t, 3, envs.VecOptions{}), c.make(t, 1, envs.VecOptions{})
	if got, want := row(reset(t, v, 5).Obs, 2, 3), reset(t, w, 7).Obs; !slices.Equal(got, want) {
		t.Fatalf("environment 2 of seed 5 begins with %v, seed 7 with %v", got, want)
	}
}

func (c *checker) checkShards(t *testing.T) {
	run := func(shards int) string {
		v := c.local(t, 9, envs.VecOptions{Autoreset: envs.SameStep, Shards: shards})
		return trajectory(t, v, reset(t, v, 1), newPlayer(v, 9), c.opts.Steps/9)
	}
	one := run(1)
	for _, shards := range []int{2, 8} {
		if run(shards) != one {
			t.Errorf("%d shards and 1 give different trajectories", shards)
		}
	}
}
