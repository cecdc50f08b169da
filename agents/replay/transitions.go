package replay

import (
	"fmt"
	"slices"
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

// Check returns an error for the first transition that a learner of algo cannot take, given
// observations of size numbers and actions in Discrete(actions).
func (t Transitions) Check(algo string, size, actions int) error {
	n := t.Len()
	if n == 0 || len(t.Obs) != n*size || len(t.NextObs) != n*size || len(t.Action) != n || len(t.Terminated) != n || len(t.Truncated) != n {
		return fmt.Errorf("%s: %d recorded actions, with %d numbers in observations, %d in next ones, %d rewards, %d and %d ends; want observations of %d numbers and one of the others for each",
			algo, len(t.Action), len(t.Obs), len(t.NextObs), n, len(t.Terminated), len(t.Truncated), size)
	}
	for _, mask := range [][]bool{t.Mask, t.NextMask} {
		if mask != nil && len(mask) != n*actions {
			return fmt.Errorf("%s: %d recorded masks for %d transitions of %d actions", algo, len(mask), n, actions)
		}
	}
	for i, a := range t.Action {
		if !(a >= 0 && a < float32(actions)) || a != float32(int(a)) {
			return fmt.Errorf("%s: recorded transition %d: action %v not in Discrete(%d)", algo, i, a, actions)
		}
		if t.Mask != nil && !t.Mask[i*actions+int(a)] {
			return fmt.Errorf("%s: recorded transition %d: action %v is masked out", algo, i, a)
		}
	}
	for _, obs := range [][]float32{t.Obs, t.NextObs} {
		for i, x := range obs {
			if x-x != 0 {
				return fmt.Errorf("%s: recorded transition %d: the observation is %v at index %d", algo, i/size, x, i%size)
			}
		}
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
