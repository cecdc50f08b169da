package envs_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/envcheck"
)

// planningSpec has a baseline that takes action 1 and plans to be paid 100 plus its number of
// calls, one that ponders, and two that plan to be paid nothing and then fail, of which one panics.
func planningSpec() *envs.Spec {
	return &envs.Spec{
		ID: "toy/Planning-v0",
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &envcheck.Planned{}, nil }, nil
		},
		Baselines: []envs.Baseline{
			{Name: "planner", New: func(task envs.Task) (envs.Policy, error) {
				calls := 0.0
				return func(_ context.Context, _ *cluster.State, first bool, action []float32) error {
					if first {
						calls = 0
					}
					calls++
					pay := 100 + calls
					action[0], task.(*envcheck.Planned).Plan = 1, &pay
					return nil
				}, nil
			}},
			{Name: "panics", New: func(task envs.Task) (envs.Policy, error) {
				return func(context.Context, *cluster.State, bool, []float32) error {
					task.(*envcheck.Planned).Plan = new(float64)
					panic("at the disco")
				}, nil
			}},
			{Name: "ponders", New: func(envs.Task) (envs.Policy, error) {
				return func(ctx context.Context, _ *cluster.State, _ bool, _ []float32) error {
					<-ctx.Done()
					return errors.New("no answer yet")
				}, nil
			}},
			{Name: "errs", New: func(task envs.Task) (envs.Policy, error) {
				return func(context.Context, *cluster.State, bool, []float32) error {
					task.(*envcheck.Planned).Plan = new(float64)
					return errors.New("on second thoughts")
				}, nil
			}},
			{Name: "picky", New: func(envs.Task) (envs.Policy, error) { return nil, errors.New("not for these options") }},
		},
	}
}

func TestPolicies(t *testing.T) {
	v, err := envs.NewVec(planningSpec(), 2, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for name, want := range map[string]error{"best": envs.ErrUnknownBaseline, "picky": envs.ErrBaseline} {
		if _, err := envs.NewPolicies(v, name, 0); !errors.Is(err, want) {
			t.Errorf("NewPolicies(%s): %v, want %v", name, err, want)
		}
	}
	r, err := envs.NewPolicies(v, "planner", 0)
	if err != nil {
		t.Fatal(err)
	}
	got := []float32{7, 7}
	if err := r.Act(ctx, got); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Act before Reset: %v, want ErrResetNeeded", err)
	}
	if _, err := r.Step(ctx); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Step before Reset: %v, want ErrResetNeeded", err)
	}
	rewards := func(b *envs.Batch, err error) []float64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b.Reward
	}
	want := func(got []float64, want ...float64) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("rewards %v, want %v", got, want)
		}
	}
	act := func() {
		t.Helper()
		if err := r.Act(ctx, got); err != nil || !slices.Equal(got, []float32{1, 1}) {
			t.Fatalf("Act = %v, %v; want [1 1]", got, err)
		}
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	act()
	want(rewards(v.Step(ctx, got)), 1, 1) // the actions alone, whatever their source
	act()
	act()
	want(rewards(r.Step(ctx)), 102, 102) // the second call of the episode, whatever was asked before
	want(rewards(r.Step(ctx)), 103, 103) // the last step
	if v.Decides(0) {
		t.Error("Decides before an autoreset")
	}
	got[0] = 7
	if err := r.Act(ctx, got); err != nil || got[0] != 7 {
		t.Errorf("Act before an autoreset: %v, %v; want what was there", got, err)
	}
	want(rewards(r.Step(ctx)), 0, 0)
	if err := r.Follow(ctx, got); err != nil || !slices.Equal(got, []float32{1, 1}) {
		t.Errorf("Follow = %v, %v; want [1 1]", got, err)
	}
	want(rewards(v.Step(ctx, got)), 101, 101) // a new episode: the policy starts again

	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := r.Act(ended, got); !errors.Is(err, context.Canceled) {
		t.Errorf("Act with an ended context: %v, want Canceled", err)
	}
	if _, err := r.Step(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Step with an ended context: %v, want Canceled", err)
	}
	want(rewards(v.Step(ctx, []float32{2, 2})), 2, 2) // nothing that was planned remains

	p, err := envs.NewPolicies(v, "panics", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Act(ctx, got); err == nil || errors.Is(err, envs.ErrBaseline) {
		t.Errorf("a policy that panics: %v, want an error that is no ErrBaseline", err)
	}
}

// A step that is refused, here because row 1 waits for a reset, leaves no plan behind in row 0.
func TestPoliciesAfterRefusal(t *testing.T) {
	v, err := envs.NewVec(planningSpec(), 2, envs.VecOptions{Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	r, err := envs.NewPolicies(v, "planner", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := v.Step(ctx, []float32{0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{Mask: []bool{true, false}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Step(ctx); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Step while an environment waits for a reset: %v, want ErrResetNeeded", err)
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{Mask: []bool{false, true}}); err != nil {
		t.Fatal(err)
	}
	if b, err := v.Step(ctx, []float32{2, 2}); err != nil || !slices.Equal(b.Reward, []float64{2, 2}) {
		t.Errorf("actions 2 pay %v, %v; want [2 2]", b.Reward, err)
	}
}

// planningVec returns n environments of planningSpec, after a reset.
func planningVec(t *testing.T, n int) *envs.Vec {
	t.Helper()
	v, err := envs.NewVec(planningSpec(), n, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	return v
}

// A policy that ponders ends with its context, whose error marks a deadline.
func TestPoliciesThatPonder(t *testing.T) {
	v := planningVec(t, 1)
	r, err := envs.NewPolicies(v, "ponders", 0)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := r.Act(short, make([]float32, 1)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, envs.ErrBaseline) {
		t.Errorf("a policy that ponders: %v, want DeadlineExceeded and no ErrBaseline", err)
	}
}

// A policy that fails after it has planned leaves nothing behind, so that a step pays its action.
func TestPoliciesThatFail(t *testing.T) {
	for _, name := range []string{"errs", "panics"} {
		v := planningVec(t, 1)
		r, err := envs.NewPolicies(v, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Act(ctx, make([]float32, 1)); err == nil || errors.Is(err, envs.ErrBaseline) != (name == "errs") {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := v.Step(ctx, []float32{2}); err != nil || b.Reward[0] != 2 {
			t.Errorf("%s: the step after it pays %v, %v; want 2", name, b.Reward, err)
		}
	}
}

// Equal seeds draw equal actions; asking twice draws once.
func TestRandomPolicies(t *testing.T) {
	v := planningVec(t, 50)
	draw := func(r *envs.Policies) []float32 {
		t.Helper()
		a := make([]float32, 50)
		if err := r.Act(ctx, a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	policies := func(seed uint64) *envs.Policies {
		t.Helper()
		r, err := envs.NewPolicies(v, envs.RandomName, seed)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := policies(1)
	first := draw(r)
	if !slices.Equal(draw(r), first) || !slices.Equal(draw(policies(1)), first) || slices.Equal(draw(policies(2)), first) {
		t.Error("equal seeds, or the same moment, give different actions; or different seeds equal ones")
	}
}

// TestNoStateOfPlans: an episode with a step of a plan has no state, also where its policies have started over, nor a copy
// of it. The next one has. Policies remember what they saw until the episodes end; random ones always do.
func TestNoStateOfPlans(t *testing.T) {
	v, err := envs.NewVec(planningSpec(), 2, envs.VecOptions{Autoreset: envs.SameStep, Portable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	must := func(_ *envs.Batch, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := envs.NewPolicies(v, "planner", 0)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, state, remembers bool) {
		t.Helper()
		if _, err := v.AppendState(nil, 1<<20); (err == nil) != state || err != nil && !errors.Is(err, envs.ErrNoState) {
			t.Errorf("%s: AppendState: %v, want a state %v", when, err, state)
		}
		if got := r.Remembers(); got != remembers {
			t.Errorf("%s: the policies remember: %v, want %v", when, got, remembers)
		}
	}
	must(v.Reset(ctx, envs.VecResetOptions{}))
	check("before they are asked", true, false)
	if err := r.Act(ctx, make([]float32, 2)); err != nil {
		t.Fatal(err)
	}
	check("asked", true, true)
	must(r.Step(ctx))
	check("after a step of a plan", false, true)
	saved, err := v.Save(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // episodes have three steps
		must(v.Step(ctx, []float32{0, 0}))
	}
	check("in the next episode", true, false)
	must(v.Load(saved))
	check("in the copy of that episode", false, false)
	must(v.Reset(ctx, envs.VecResetOptions{Mask: []bool{true, false}}))
	check("after a reset of one environment", false, false)
	must(v.Reset(ctx, envs.VecResetOptions{}))
	check("after a reset of both", true, false)
	random, err := envs.NewPolicies(v, envs.RandomName, 0)
	if err != nil || !random.Remembers() {
		t.Errorf("%v, random policies remember: %v", err, random.Remembers())
	}
	w, err := envs.NewVec(planningSpec(), 1, envs.VecOptions{Autoreset: envs.Disabled})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if r, err = envs.NewPolicies(w, "planner", 0); err != nil {
		t.Fatal(err)
	}
	must(w.Reset(ctx, envs.VecResetOptions{}))
	for k := range 3 {
		must(r.Step(ctx))
		if got := r.Remembers(); got != (k < 2) {
			t.Errorf("after step %d of 3 the policies remember: %v", k+1, got)
		}
	}
}
