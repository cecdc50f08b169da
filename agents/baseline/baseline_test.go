package baseline_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/baseline"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envcheck"
	"github.com/kubernasium/kubernasium/envs/space"
)

var ctx = context.Background()

func newVec(t *testing.T, spec *envs.Spec, n int, mode envs.AutoresetMode) (*envs.Vec, *envs.Batch) {
	t.Helper()
	v, err := envs.NewVec(spec, n, envs.VecOptions{Autoreset: mode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	b, err := v.Reset(ctx, envs.VecResetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return v, b
}

// act lets the policy choose and carries it out.
func act(t *testing.T, v *envs.Vec, p agents.Policy, b *envs.Batch, actions []float32) *envs.Batch {
	t.Helper()
	if err := p.Act(b, actions); err != nil {
		t.Fatal(err)
	}
	b, err := v.Step(ctx, actions)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// with returns spec with one baseline, whose policies makes makes.
func with(spec *envs.Spec, makes func() (envs.Policy, error)) *envs.Spec {
	spec.Baselines = []envs.Baseline{{Name: "rule", New: func(envs.Task) (envs.Policy, error) { return makes() }}}
	return spec
}

// recorder notes the first flags that its policy is given.
func recorder(firsts *[]bool) func() (envs.Policy, error) {
	return func() (envs.Policy, error) {
		return func(_ context.Context, _ *cluster.State, first bool, action []float32) error {
			*firsts = append(*firsts, first)
			action[0] = 0
			return nil
		}, nil
	}
}

// TestFirst plays episodes of 3 steps: the policy gets the first decision of each marked, and is not
// asked where there is nothing to decide.
func TestFirst(t *testing.T) {
	for _, tc := range []struct {
		mode   envs.AutoresetMode
		limit  int
		calls  int
		firsts []bool
	}{
		{envs.SameStep, 0, 7, []bool{true, false, false, true, false, false, true}},
		{envs.SameStep, 2, 5, []bool{true, false, true, false, true}},
		{envs.SameStep, 1, 3, []bool{true, true, true}}, // each decision is the first
		// The 4th and the 8th call find an episode's end: the step resets, whatever the action.
		{envs.NextStep, 0, 9, []bool{true, false, false, true, false, false, true}},
		{envs.NextStep, 1, 5, []bool{true, true, true}},
	} {
		var firsts []bool
		spec := with(envcheck.Timing(3, tc.limit), recorder(&firsts))
		v, b := newVec(t, spec, 1, tc.mode)
		p, err := baseline.New(v, "rule", 0)
		if err != nil {
			t.Fatal(err)
		}
		for range tc.calls {
			b = act(t, v, p, b, make([]float32, 1))
		}
		if diff := cmp.Diff(tc.firsts, firsts); diff != "" {
			t.Errorf("%v, limit %d (-want +got):\n%s", tc.mode, tc.limit, diff)
		}
	}
}

// TestFirstAfterReset resets by hand, in the middle of an episode and, with autoreset disabled,
// after its end.
func TestFirstAfterReset(t *testing.T) {
	for _, mode := range []envs.AutoresetMode{envs.SameStep, envs.NextStep, envs.Disabled} {
		var firsts []bool
		v, b := newVec(t, with(envcheck.Timing(3, 0), recorder(&firsts)), 1, mode)
		p, err := baseline.New(v, "rule", 0)
		if err != nil {
			t.Fatal(err)
		}
		actions := make([]float32, 1)
		for _, steps := range []int{2, 3} {
			for range steps {
				b = act(t, v, p, b, actions)
			}
			if b, err = v.Reset(ctx, envs.VecResetOptions{Mask: []bool{true}}); err != nil {
				t.Fatal(err)
			}
		}
		act(t, v, p, b, actions)
		if diff := cmp.Diff([]bool{true, false, true, false, false, true}, firsts); diff != "" {
			t.Errorf("%v (-want +got):\n%s", mode, diff)
		}
	}
}

// multi is a task with actions of two numbers and a mask that changes with each step.
type multi struct {
	act space.Space
	k   int
}

func (m *multi) Spaces() (obs, act space.Space) { return space.NewBox(0, 100, 1), m.act }

func (m *multi) Begin(context.Context, cluster.Cluster, *rand.Rand) error { m.k = 0; return nil }

func (m *multi) Apply(context.Context, cluster.Cluster, []float32) (envs.Outcome, error) {
	m.k++
	return envs.Outcome{}, nil
}

func (m *multi) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0] = float32(m.k)
	for i := range mask {
		mask[i] = i%2 == m.k%2 // of [2, 3]: 0 and {0, 2} at even steps, 1 and {1} at odd ones
	}
}

func multiSpec(act space.Space) *envs.Spec {
	return &envs.Spec{ID: "toy/Multi-v0", MaxEpisodeSteps: 50, Open: func(map[string]any) (envs.Maker, error) {
		return func() (envs.Task, error) { return &multi{act: act}, nil }, nil
	}}
}

// TestPoliciesRunInParallel gives each environment a policy of its own that keeps state and writes
// its own row; the race detector looks on.
func TestPoliciesRunInParallel(t *testing.T) {
	const n = 37
	made := 0
	spec := with(multiSpec(space.MultiDiscrete{NVec: []int{100, 100}}), func() (envs.Policy, error) {
		id, calls := made, 0
		made++
		return func(_ context.Context, s *cluster.State, _ bool, action []float32) error {
			if s == nil || len(action) != 2 {
				return errors.New("no state, or an action of another size")
			}
			action[0], action[1] = float32(id), float32(calls)
			calls++
			return nil
		}, nil
	})
	v, b := newVec(t, spec, n, envs.SameStep)
	p, err := baseline.New(v, "rule", 0)
	if err != nil {
		t.Fatal(err)
	}
	actions := make([]float32, 2*n)
	for k := range 60 {
		b = act(t, v, p, b, actions)
		for i := range n {
			if actions[2*i] != float32(i) || actions[2*i+1] != float32(k) {
				t.Fatalf("call %d: action of environment %d is %v, want [%d %d]", k, i, actions[2*i:2*i+2], i, k)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	v, _ := newVec(t, with(envcheck.Timing(1, 0), func() (envs.Policy, error) { return nil, broken }), 2, envs.NextStep)
	if _, err := baseline.New(v, "rule", 0); !errors.Is(err, broken) || !strings.Contains(err.Error(), "rule") {
		t.Errorf("New: error %v, want that of the baseline with its name", err)
	}
	if _, err := baseline.New(v, "best", 0); err == nil || !strings.Contains(err.Error(), `"best"`) || !strings.Contains(err.Error(), "rule") {
		t.Errorf("New(best): error %v, want one that names it and those that there are", err)
	}

	policies := 0
	v, b := newVec(t, with(envcheck.Timing(1, 0), func() (envs.Policy, error) {
		policies++
		fails := policies == 2
		return func(_ context.Context, _ *cluster.State, _ bool, action []float32) error {
			action[0] = 0
			if fails {
				return broken
			}
			return nil
		}, nil
	}), 3, envs.NextStep)
	p, err := baseline.New(v, "rule", 0)
	if err != nil {
		t.Fatal(err)
	}
	actions := make([]float32, 3)
	if err := p.Act(b, actions); !errors.Is(err, broken) || !strings.Contains(err.Error(), "rule") {
		t.Errorf("Act: error %v, want that of the policy with the baseline's name", err)
	}
	// Every episode ends with this step, so that no policy is asked next and none can fail.
	if b, err = v.Step(ctx, make([]float32, 3)); err != nil {
		t.Fatal(err)
	}
	if err := p.Act(b, actions); err != nil {
		t.Errorf("Act after the end of all episodes: error %v of a policy that was not asked", err)
	}
}

func TestRandomRespectsMasks(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec *envs.Spec
		want []int // how many values each element takes in all
	}{
		{"discrete", envcheck.Timing(7, 0), []int{2}},
		{"multi_discrete", multiSpec(space.MultiDiscrete{NVec: []int{2, 3}}), []int{2, 3}},
		{"multi_binary", multiSpec(space.MultiBinary{N: 2}), []int{2, 2}},
		{"no mask", multiSpec(space.NewBox(0, 1, 2)), []int{200 * 5, 200 * 5}},
	} {
		const n = 5
		v, b := newVec(t, tc.spec, n, envs.SameStep)
		p, err := baseline.New(v, baseline.RandomName, 3)
		if err != nil {
			t.Fatal(err)
		}
		k := len(tc.want)
		actions, seen := make([]float32, n*k), make([]map[float32]bool, k)
		for j := range seen {
			seen[j] = map[float32]bool{}
		}
		for range 200 {
			b = act(t, v, p, b, actions)
			if slices.Contains(b.Invalid, true) {
				t.Fatalf("%s: actions %v were masked out at %v", tc.name, actions, b.Invalid)
			}
			for i, a := range actions {
				seen[i%k][a] = true
			}
		}
		for j, want := range tc.want {
			// Of 1000 draws from 2^24 numbers of a Box, a few may coincide.
			if got := len(seen[j]); got > want || got < want-5 && want > 5 || got < want && want <= 5 {
				t.Errorf("%s: element %d takes %d values, want %d", tc.name, j, got, want)
			}
		}
	}
}

func TestRandomIsSeeded(t *testing.T) {
	play := func(seed uint64) (all []float32) {
		v, b := newVec(t, envcheck.Identity(5), 3, envs.SameStep)
		p, err := baseline.New(v, baseline.RandomName, seed)
		if err != nil {
			t.Fatal(err)
		}
		actions := make([]float32, 3)
		for range 50 {
			b = act(t, v, p, b, actions)
			all = append(all, actions...)
		}
		return all
	}
	if !slices.Equal(play(1), play(1)) {
		t.Error("two policies of one seed differ")
	}
	if slices.Equal(play(1), play(2)) {
		t.Error("policies of different seeds are equal")
	}
}
