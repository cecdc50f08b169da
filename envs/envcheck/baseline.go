package envcheck

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/space"
)

// checkBaseline plays one episode, or a bounded part of it, by the baseline's policy, and compares it with
// [envs.Policies].
func (c *checker) checkBaseline(t *testing.T, base *envs.Baseline) {
	v, w := c.local(t, 1, envs.VecOptions{Autoreset: envs.SameStep}), c.local(t, 1, envs.VecOptions{Autoreset: envs.SameStep})
	_, act := v.Spaces()
	policy, err := base.New(v.Env(0).Task())
	if err != nil {
		t.Logf("not for these options: %v", err)
		return
	}
	policies, err := envs.NewPolicies(w, base.Name, 0)
	if err != nil {
		t.Fatal(err)
	}
	reset(t, v, 1)
	reset(t, w, 1)
	action, first := make([]float32, act.Size()), true
	other := make([]float32, act.Size())
	for step := range min(c.opts.Steps, 100) {
		if err := policy(ctx, v.Env(0).State(), first, action); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		b, err := v.Step(ctx, action)
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if b.Invalid[0] {
			t.Fatalf("step %d: action %v is masked out", step, action)
		}
		first = b.Done(0)
		if base.Name == envs.RandomName {
			continue // a random policy has a generator of its own
		}
		for range 2 { // asked again, it gives the same answer
			if err := policies.Act(ctx, other); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		bw, err := policies.Step(ctx)
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if !reflect.DeepEqual(b, bw) {
			t.Fatalf("step %d: by Policies the action is %v and the batch %+v, by the policy %v and %+v", step, other, bw, action, b)
		}
	}
}

// checkAsked calls the baseline at some steps while another policy acts. The calls change nothing, the answers are
// permitted actions, and the first call in an episode starts the policy over.
func (c *checker) checkAsked(t *testing.T, base *envs.Baseline) {
	const n, every = 2, 7
	v, w := c.local(t, n, envs.VecOptions{}), c.local(t, n, envs.VecOptions{})
	policies, err := envs.NewPolicies(v, base.Name, 0)
	if err != nil {
		t.Logf("not for these options: %v", err)
		return
	}
	_, act := v.Spaces()
	k, m := act.Size(), space.MaskSize(act)
	advice := make([]float32, n*k)
	b, p := reset(t, v, 5), newPlayer(v, 5)
	bw, pw := reset(t, w, 5), newPlayer(w, 5)
	for step := range min(c.opts.Steps, 100) {
		if step%every == every/2 {
			if err := policies.Act(ctx, advice); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			for i := range n {
				if a := advice[i*k : (i+1)*k]; v.Decides(i) && (!act.Contains(a) || !space.Masked(act, a, b.Mask[i*m:(i+1)*m])) {
					t.Fatalf("step %d: action %v is outside the space or masked out", step, a)
				}
			}
		}
		if b, err = v.Step(ctx, p.actions(b)); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if bw, err = w.Step(ctx, pw.actions(bw)); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if !reflect.DeepEqual(b, bw) {
			t.Fatalf("step %d differs where the baseline was asked:\n%+v\n%+v", step, b, bw)
		}
	}
	if base.Name == envs.RandomName {
		return // a random policy has a generator of its own
	}
	b = reset(t, v, 6)
	for range 3 {
		b = advance(t, v, p.actions(b))
	}
	anew, err := envs.NewPolicies(v, base.Name, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(advice) // equal even where Act decides nothing
	for step := range 3 {
		if err := errors.Join(policies.Act(ctx, advice), anew.Act(ctx, want)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(advice, want) {
			t.Fatalf("asked %d times in an episode, the baseline takes %v after other episodes, want %v as without them", step+1, advice, want)
		}
		b = advance(t, v, p.actions(b))
	}
}
