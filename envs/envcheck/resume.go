package envcheck

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/kubernasium/kubernasium/envs"
)

// checkResume writes the episodes of a [envs.Resumer] at several steps, and loads each state into fresh environments.
// They have the same state, and the same actions lead to the same batches, to the last bit, until the end of the
// episode and beyond.
func (c *checker) checkResume(t *testing.T) {
	const n, states = 2, 6
	if _, ok := c.local(t, 1, envs.VecOptions{}).Env(0).Task().(envs.Resumer); !ok {
		return
	}
	for _, mode := range []envs.AutoresetMode{envs.NextStep, envs.SameStep} {
		v := c.local(t, n, envs.VecOptions{Autoreset: mode, Portable: true})
		b, p := reset(t, v, 21), newPlayer(v, 21)
		var saved [][]byte
		var at []int
		var actions [][]float32
		var want []envs.Batch
		ended := 0
		for step := 0; step < c.opts.Steps && (ended == 0 || step < ended+3); step++ {
			if len(saved) < states && (step < 2 || step%max(1, c.opts.Steps/10) == 0) || b.Done(0) {
				state, err := v.AppendState(nil, math.MaxInt)
				if err != nil {
					t.Fatalf("AppendState: %v", err)
				}
				saved, at = append(saved, state), append(at, step)
			}
			a := slices.Clone(p.actions(b))
			b = advance(t, v, a)
			actions, want = append(actions, a), append(want, recordedBatch(b))
			if b.Done(0) && ended == 0 {
				ended = step + 1
			}
		}
		for i, state := range saved {
			w := c.local(t, n, envs.VecOptions{Autoreset: mode, Portable: true})
			if _, _, err := w.LoadState(ctx, state); err != nil {
				t.Fatalf("%v: LoadState of step %d: %v", mode, at[i], err)
			}
			if again, err := w.AppendState(nil, math.MaxInt); err != nil || !bytes.Equal(again, state) {
				t.Fatalf("%v: the state of step %d is\n%q\nafter LoadState, %v; want\n%q", mode, at[i], again, err, state)
			}
			for k, got := range replay(t, w, actions[at[i]:]) {
				want := want[at[i]+k]
				for r := range n {
					if !got.Done(r) { // a remainder of an earlier episode there
						copy(row(got.FinalObs, r, n), row(want.FinalObs, r, n))
						copy(row(got.FinalMask, r, n), row(want.FinalMask, r, n))
						copy(row(got.FinalInfo, r, n), row(want.FinalInfo, r, n))
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%v: after LoadState of step %d, step %d gives %+v, before %+v", mode, at[i], at[i]+k, got, want)
				}
			}
		}
	}
}
