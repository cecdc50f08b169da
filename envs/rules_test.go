package envs_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/space"
)

// planning pays what its action says, or the plan that a rule has left.
type planning struct {
	plan *float64
	k    int
}

func (p *planning) Spaces() (obs, act space.Space) {
	return space.NewBox(0, 10, 1), space.Discrete{N: 3}
}

func (p *planning) Begin(context.Context, cluster.Cluster, *rand.Rand) error { p.k = 0; return nil }

func (p *planning) Apply(_ context.Context, _ cluster.Cluster, action []float32) (envs.Outcome, error) {
	out := envs.Outcome{Reward: float64(action[0])}
	if p.plan != nil {
		out.Reward, p.plan = *p.plan, nil
	}
	p.k++
	out.Terminated = p.k == 3
	return out, nil
}

func (p *planning) Observe(_ *cluster.State, obs []float32, mask []bool) {
	obs[0] = float32(p.k)
	for i := range mask {
		mask[i] = true
	}
}

func (p *planning) TakePlan() any {
	x := p.plan
	p.plan = nil
	if x == nil {
		return nil
	}
	return x
}

func (p *planning) SetPlan(plan any) { p.plan = plan.(*float64) }

// planningSpec has a baseline that takes action 1 and plans to be paid 100 plus its number of
// calls, one that ponders, and two that plan to be paid nothing and then fail, of which one panics.
func planningSpec() *envs.Spec {
	return &envs.Spec{
		ID: "toy/Planning-v0",
		Open: func(map[string]any) (envs.Maker, error) {
			return func() (envs.Task, error) { return &planning{}, nil }, nil
		},
		Baselines: []envs.Baseline{
			{Name: "planner", New: func(task envs.Task) (envs.Rule, error) {
				calls := 0.0
				return func(_ context.Context, _ *cluster.State, first bool, action []float32) error {
					if first {
						calls = 0
					}
					calls++
					pay := 100 + calls
					action[0], task.(*planning).plan = 1, &pay
					return nil
				}, nil
			}},
			{Name: "panics", New: func(task envs.Task) (envs.Rule, error) {
				return func(context.Context, *cluster.State, bool, []float32) error {
					task.(*planning).plan = new(float64)
					panic("at the disco")
				}, nil
			}},
			{Name: "ponders", New: func(envs.Task) (envs.Rule, error) {
				return func(ctx context.Context, _ *cluster.State, _ bool, _ []float32) error {
					<-ctx.Done()
					return errors.New("no answer yet")
				}, nil
			}},
			{Name: "errs", New: func(task envs.Task) (envs.Rule, error) {
				return func(context.Context, *cluster.State, bool, []float32) error {
					task.(*planning).plan = new(float64)
					return errors.New("on second thoughts")
				}, nil
			}},
			{Name: "unfit", New: func(envs.Task) (envs.Rule, error) { return nil, errors.New("not for these options") }},
		},
	}
}

func TestRules(t *testing.T) {
	v, err := envs.NewVec(planningSpec(), 2, envs.VecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for name, want := range map[string]error{"best": envs.ErrUnknownBaseline, "unfit": envs.ErrBaseline} {
		if _, err := envs.NewRules(v, name, 0); !errors.Is(err, want) {
			t.Errorf("NewRules(%s): %v, want %v", name, err, want)
		}
	}
	r, err := envs.NewRules(v, "planner", 0)
	if err != nil {
		t.Fatal(err)
	}
	told := []float32{7, 7}
	if err := r.Act(ctx, told); !errors.Is(err, envs.ErrResetNeeded) {
		t.Errorf("Act before Reset: %v, want ErrResetNeeded", err)
	}
	step := func(by func(context.Context, []float32) (*envs.Batch, error), actions []float32, want ...float64) {
		t.Helper()
		b, err := by(ctx, actions)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.Reward, want) {
			t.Errorf("rewards %v, want %v", b.Reward, want)
		}
	}
	if _, err := v.Reset(ctx, envs.VecResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.StepBy(ctx, []float32{1, 1}); !errors.Is(err, envs.ErrNotAsked) {
		t.Errorf("StepBy before Act: %v, want ErrNotAsked", err)
	}
	act := func() {
		t.Helper()
		if err := r.Act(ctx, told); err != nil || !slices.Equal(told, []float32{1, 1}) {
			t.Fatalf("Act = %v, %v; want [1 1]", told, err)
		}
	}
	act()
	step(v.Step, []float32{1, 2}, 1, 2) // asked, but not followed: nothing has changed
	act()
	act()
	step(r.StepBy, []float32{1, 2}, 102, 2) // the second call of the episode; row 1 takes another action
	act()
	if !r.Plans(0) || !v.Decides(0) {
		t.Errorf("Plans %v, Decides %v; want both", r.Plans(0), v.Decides(0))
	}
	r.LeavePlans()
	step(v.Step, []float32{1, 1}, 103, 103) // the last step
	if v.Decides(0) || r.Plans(0) {
		t.Errorf("Decides %v, Plans %v before an autoreset, want neither", v.Decides(0), r.Plans(0))
	}
	told[0] = 7
	if err := r.Act(ctx, told); err != nil || told[0] != 7 {
		t.Errorf("Act before an autoreset: %v, %v; want what was there", told, err)
	}
	step(r.StepBy, []float32{1, 1}, 0, 0)
	told[0] = 1
	act()
	step(r.StepBy, told, 101, 101) // a new episode: the rule begins anew

	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := r.Act(ended, told); !errors.Is(err, context.Canceled) {
		t.Errorf("Act with an ended context: %v, want Canceled", err)
	}
	act()
	if _, err := r.StepBy(ctx, []float32{1, 9}); !errors.Is(err, envs.ErrInvalidAction) {
		t.Errorf("StepBy with action 9: %v, want ErrInvalidAction", err)
	}
	step(v.Step, []float32{1, 1}, 1, 1) // the plan of the refused step is gone

	p, err := envs.NewRules(v, "panics", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Act(ctx, told); err == nil || errors.Is(err, envs.ErrBaseline) {
		t.Errorf("a rule that panics: %v, want an error that is no ErrBaseline", err)
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

// A rule that ponders ends with its context, whose error is what a deadline is told by.
func TestRulesThatPonder(t *testing.T) {
	v := planningVec(t, 1)
	r, err := envs.NewRules(v, "ponders", 0)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := r.Act(short, make([]float32, 1)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, envs.ErrBaseline) {
		t.Errorf("a rule that ponders: %v, want DeadlineExceeded and no ErrBaseline", err)
	}
}

// A rule that fails after it has planned leaves nothing behind, so that a step pays its action.
func TestRulesThatFail(t *testing.T) {
	for _, name := range []string{"errs", "panics"} {
		v := planningVec(t, 1)
		r, err := envs.NewRules(v, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Act(ctx, make([]float32, 1)); err == nil || errors.Is(err, envs.ErrBaseline) != (name == "errs") {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := v.Step(ctx, []float32{2}); err != nil || b.Reward[0] != 2 || r.Plans(0) {
			t.Errorf("%s: the step after it pays %v, %v, and plans remain: %v; want 2 and none", name, b.Reward, err, r.Plans(0))
		}
	}
}

// Equal seeds draw equal actions; asking twice draws once.
func TestRandomRules(t *testing.T) {
	v := planningVec(t, 50)
	draw := func(r *envs.Rules) []float32 {
		t.Helper()
		a := make([]float32, 50)
		if err := r.Act(ctx, a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	rules := func(seed uint64) *envs.Rules {
		t.Helper()
		r, err := envs.NewRules(v, envs.RandomName, seed)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := rules(1)
	first := draw(r)
	if !slices.Equal(draw(r), first) || !slices.Equal(draw(rules(1)), first) || slices.Equal(draw(rules(2)), first) {
		t.Error("equal seeds, or the same moment, give different actions; or different seeds equal ones")
	}
}
