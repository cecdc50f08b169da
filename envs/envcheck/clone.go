package envcheck

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
)

// recordedBatch returns a deep copy of the parts of a Batch that a step sets.
func recordedBatch(b *envs.Batch) envs.Batch {
	c := *b
	c.Obs, c.Mask, c.Info, c.Reward = slices.Clone(b.Obs), slices.Clone(b.Mask), slices.Clone(b.Info), slices.Clone(b.Reward)
	c.Terminated, c.Truncated, c.Invalid = slices.Clone(b.Terminated), slices.Clone(b.Truncated), slices.Clone(b.Invalid)
	c.FinalObs, c.FinalMask, c.FinalInfo = slices.Clone(b.FinalObs), slices.Clone(b.FinalMask), slices.Clone(b.FinalInfo)
	c.EpisodeReturn, c.EpisodeLength = slices.Clone(b.EpisodeReturn), slices.Clone(b.EpisodeLength)
	return c
}

// replay takes the recorded actions and returns all batches.
func replay(t *testing.T, v *envs.Vec, actions [][]float32) []envs.Batch {
	t.Helper()
	var batches []envs.Batch
	for _, a := range actions {
		b := advance(t, v, a)
		batches = append(batches, recordedBatch(b))
	}
	return batches
}

// checkClones saves environments that can be copied and loads them again. The same actions lead to the same batches, to
// the last bit, also past the end of an episode and after other actions.
func (c *checker) checkClones(t *testing.T) {
	const n = 3
	if err := c.local(t, 1, envs.VecOptions{}).CanClone(); err != nil {
		if !errors.Is(err, envs.ErrCannotClone) {
			t.Errorf("CanClone: %v, want ErrCannotClone", err)
		}
		return
	}
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep} {
		v := c.local(t, n, envs.VecOptions{Autoreset: mode})
		never, err := v.Save(ctx)
		if err != nil {
			t.Fatalf("Save before Reset: %v", err)
		}
		b, p := reset(t, v, 11), newPlayer(v, 11)
		play := func(steps int) (actions [][]float32, batches []envs.Batch) {
			for range steps {
				a := slices.Clone(p.actions(b))
				actions = append(actions, a)
				b = advance(t, v, a)
				batches = append(batches, recordedBatch(b))
			}
			return actions, batches
		}
		play(c.opts.Steps / 20)
		saved, err := v.Save(ctx)
		if err != nil {
			t.Fatalf("Save: %v", err)
		}
		state := recordedBatch(b)
		actions, want := play(c.opts.Steps / 10)
		play(7) // elsewhere
		for range 2 {
			b, err := v.Load(saved)
			if err != nil {
				t.Fatalf("Load: %v", err)
			}
			if !reflect.DeepEqual(*b, state) {
				t.Fatalf("%v: the batch after Load is %+v, want %+v", mode, *b, state)
			}
			for k, got := range replay(t, v, actions) {
				if !reflect.DeepEqual(got, want[k]) {
					t.Fatalf("%v: step %d after Load gives %+v, before %+v", mode, k, got, want[k])
				}
			}
		}
		if _, err := v.Load(never); err != nil {
			t.Fatalf("Load: %v", err)
		}
		if _, err := v.Step(ctx, actions[0]); !errors.Is(err, envs.ErrResetNeeded) {
			t.Errorf("%v: Step after Load of the time before Reset: %v, want ErrResetNeeded", mode, err)
		}
		c.checkFork(t, mode)
	}
	c.checkPoliciesAfterLoad(t)
	c.checkResample(t)
}

// checkResample resamples the future in v, in w after another resampling there, and in u from another seed. The current
// state stays. From there v and w are equal, and u differs.
func (c *checker) checkResample(t *testing.T) {
	var all [3]*envs.Vec
	for i := range all {
		all[i] = c.local(t, 1, envs.VecOptions{})
		reset(t, all[i], 14)
	}
	v, w, u := all[0], all[1], all[2]
	if _, ok := v.Env(0).Task().(envs.Resampler); !ok {
		return
	}
	b, p := v.Last(), newPlayer(v, 14)
	differs, steps := false, c.opts.Steps/4
	for step := range steps {
		if step%10 == 5 && v.Decides(0) {
			seed := uint64(step)
			err := w.Env(0).Resample(seed + 1)
			if errors.Is(err, envs.ErrCannotResample) {
				t.Logf("not with these options: %v", err)
				return
			}
			err = errors.Join(err, v.Env(0).Resample(seed), w.Env(0).Resample(seed))
			if step == 5 {
				err = errors.Join(err, u.Env(0).Resample(seed+1))
			}
			if err != nil {
				t.Fatal(err)
			}
			obs, mask := make([]float32, len(b.Obs)), make([]bool, len(b.Mask))
			if v.Env(0).Observe(obs, mask); !slices.Equal(obs, b.Obs) || !slices.Equal(mask, b.Mask) {
				t.Fatalf("step %d: Resample changes the observation or the mask", step)
			}
		}
		actions := slices.Clone(p.actions(b))
		for _, x := range all {
			if _, err := x.Step(ctx, actions); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		if b = v.Last(); !reflect.DeepEqual(b, w.Last()) {
			t.Fatalf("step %d: after Resample from equal seeds %+v, where another future was before %+v", step, b, w.Last())
		}
		differs = differs || !reflect.DeepEqual(b, u.Last())
	}
	if !differs && steps >= 50 { // a current deployment may have many pods
		t.Errorf("Resample from another seed changes nothing in %d steps", steps)
	}
}

// checkFork copies one environment to another. From then on the two are equal, and the others step as in a vector
// without the fork.
func (c *checker) checkFork(t *testing.T, mode envs.AutoresetMode) {
	const n = 3
	v, w := c.local(t, n, envs.VecOptions{Autoreset: mode}), c.local(t, n, envs.VecOptions{Autoreset: mode})
	b, p := reset(t, v, 12), newPlayer(v, 12)
	reset(t, w, 12)
	k := len(p.out) / n
	for step := range c.opts.Steps / 10 {
		actions := slices.Clone(p.actions(b))
		if step >= c.opts.Steps/20 {
			copy(actions[2*k:], actions[:k]) // as in environment 0
		}
		if step == c.opts.Steps/20 {
			if b, err := v.Fork(0, []int{2, 0}); err != nil || !slices.Equal(row(b.Obs, 0, n), row(b.Obs, 2, n)) {
				t.Fatalf("Fork: %v, rows %v and %v", err, row(b.Obs, 0, n), row(b.Obs, 2, n))
			}
		}
		b = advance(t, v, actions)
		if step >= c.opts.Steps/20 {
			copy(actions[2*k:], p.actions(w.Last())[2*k:]) // permitted there
		}
		bw := advance(t, w, actions)
		for i := range n - 1 {
			if !slices.Equal(row(b.Obs, i, n), row(bw.Obs, i, n)) || b.Reward[i] != bw.Reward[i] || b.EpisodeReturn[i] != bw.EpisodeReturn[i] {
				t.Fatalf("%v: step %d: environment %d differs where another was forked", mode, step, i)
			}
		}
		if step >= c.opts.Steps/20 && (!slices.Equal(row(b.Obs, 0, n), row(b.Obs, 2, n)) || !slices.Equal(row(b.Info, 0, n), row(b.Info, 2, n)) ||
			b.Reward[0] != b.Reward[2] || b.EpisodeReturn[0] != b.EpisodeReturn[2] || b.Done(0) != b.Done(2)) {
			t.Fatalf("%v: step %d: the copy gives %v and reward %v, its original %v and %v", mode, step,
				row(b.Obs, 2, n), b.Reward[2], row(b.Obs, 0, n), b.Reward[0])
		}
	}
}

// checkPoliciesAfterLoad plays by each baseline from a saved state, twice.
func (c *checker) checkPoliciesAfterLoad(t *testing.T) {
	if c.opts.SkipBaselines {
		return
	}
	v := c.local(t, 1, envs.VecOptions{})
	b, p := reset(t, v, 13), newPlayer(v, 13)
	for range 5 {
		b = advance(t, v, p.actions(b))
	}
	saved, err := v.Save(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range c.spec.Baselines {
		policies, err := envs.NewPolicies(v, base.Name, 0)
		if err != nil || base.Name == envs.RandomName {
			continue
		}
		var want []envs.Batch
		for range 2 {
			if _, err := v.Load(saved); err != nil {
				t.Fatal(err)
			}
			var got []envs.Batch
			for step := range 10 {
				b, err := policies.Step(ctx)
				if err != nil {
					t.Fatalf("baseline %s, step %d: %v", base.Name, step, err)
				}
				got = append(got, recordedBatch(b))
			}
			if want == nil {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("baseline %s plays %+v after Load, before %+v", base.Name, got, want)
			}
		}
	}
}
