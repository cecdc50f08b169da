package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kubernasium/kubernasium/envs/space"
)

// Transitions are recorded steps in their order, one episode after another. Arrays have a row for
// each step.
type Transitions struct {
	Obs, NextObs          []float32 // (n, observation)
	Action                []float32 // (n, action)
	Reward                []float64 // (n)
	Terminated, Truncated []bool    // (n)
	Mask, NextMask        []bool    // (n, actions): the permitted actions; nil: all
}

// Len returns the number of transitions.
func (t Transitions) Len() int { return len(t.Reward) }

// Slots returns the part of the room of an environment's [Buffer] that the transitions from to to-1 take. Those that are
// truncated, or not followed by the next one's observation, count twice. An observation has size numbers.
func (t Transitions) Slots(from, to, size int) int {
	n := to - from
	for k := from; k < to; k++ {
		next := t.NextObs[k*size : (k+1)*size]
		cut := t.Truncated[k] || k+1 < to && !slices.Equal(next, t.Obs[(k+1)*size:(k+2)*size])
		if cut && !t.Terminated[k] {
			n++
		}
	}
	return n
}

// CopyMask sets dst to row k of masks or, without masks, to true.
func CopyMask(dst, masks []bool, k int) {
	for a := range dst {
		dst[a] = masks == nil || masks[k*len(dst)+a]
	}
}

// Check returns an error for the first transition that a learner of algo cannot take, given observations of size numbers
// and the space of actions. Actions of a Box may exceed its bounds, because environments clip them.
func (t Transitions) Check(algo string, size int, act space.Space) error {
	n, k, mask := t.Len(), act.Size(), space.MaskSize(act)
	if n == 0 || len(t.Obs) != n*size || len(t.NextObs) != n*size || len(t.Action) != n*k || len(t.Terminated) != n || len(t.Truncated) != n {
		return fmt.Errorf("%s: recorded transitions have %d rewards, %d numbers in actions, %d in observations, %d in next ones, %d and %d ends; want at least one, with %d numbers in its action, %d in each observation and one of the others",
			algo, n, len(t.Action), len(t.Obs), len(t.NextObs), len(t.Terminated), len(t.Truncated), k, size)
	}
	for _, masks := range [][]bool{t.Mask, t.NextMask} {
		if masks != nil && len(masks) != n*mask {
			return fmt.Errorf("%s: %d recorded masks for %d transitions, want %d for each", algo, len(masks), n, mask)
		}
	}
	if _, ok := act.(space.Box); ok {
		if err := finite(algo, "the action", t.Action, k); err != nil {
			return err
		}
	} else if err := t.checkActions(algo, act, mask); err != nil {
		return err
	}
	return errors.Join(finite(algo, "the observation", t.Obs, size), finite(algo, "the next observation", t.NextObs, size))
}

// checkActions rejects actions that are not in the space, or that their masks of the given size do not permit.
func (t Transitions) checkActions(algo string, act space.Space, mask int) error {
	k := act.Size()
	for i := range t.Len() {
		a := t.Action[i*k : (i+1)*k]
		if !act.Contains(a) {
			return fmt.Errorf("%s: recorded transition %d: action %s not in %v", algo, i, space.ActionText(a), act)
		}
		if t.Mask != nil && !space.Masked(act, a, t.Mask[i*mask:(i+1)*mask]) {
			return fmt.Errorf("%s: recorded transition %d: action %s is masked out", algo, i, space.ActionText(a))
		}
	}
	return nil
}

// finite rejects NaN and infinite numbers in rows of the given size.
func finite(algo, what string, x []float32, size int) error {
	if i := slices.IndexFunc(x, func(v float32) bool { return v-v != 0 }); i >= 0 {
		return fmt.Errorf("%s: recorded transition %d: %s is %v at index %d", algo, i/size, what, x[i], i%size)
	}
	return nil
}

// CheckNext returns an error for the first transition whose next observation a learner of algo values, but whose next
// mask permits none of the actions in Discrete(actions). After a terminal state nothing is valued.
func (t Transitions) CheckNext(algo string, actions int) error {
	if t.NextMask == nil {
		return nil
	}
	for i, ended := range t.Terminated {
		if !ended && !slices.Contains(t.NextMask[i*actions:(i+1)*actions], true) {
			return fmt.Errorf("%s: recorded transition %d: the next mask permits no action, want one, as the episode has not terminated", algo, i)
		}
	}
	return nil
}
