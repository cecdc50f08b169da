package dqn

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/agents/replay"
)

// recorded are seven transitions of two actions: an episode of three that ends, one of two that is
// cut off, and the beginning of a third.
func recorded() replay.Transitions {
	return replay.Transitions{
		Obs: []float32{0, 1, 2, 10, 11, 20, 21}, NextObs: []float32{1, 2, 3, 11, 12, 21, 22},
		Action: []float32{0, 1, 0, 1, 1, 0, 0}, Reward: []float64{1, 2, 3, 4, 5, 6, 7},
		Terminated: []bool{false, false, true, false, false, false, false},
		Truncated:  []bool{false, false, false, false, true, false, false},
	}
}

// sampled is a transition as the replay buffer gives it.
type sampled struct{ Obs, Action, Return, Discount, Next float32 }

// TestRecord: the buffer samples the recorded transitions. Of seven transitions two environments take
// three each, and the last is left over. With returns of two steps (γ = 0.5) they are, by hand,
//
//	0: 1 + 0.5·2 to 2          3 | 10: 4 + 0.5·5 to 12, cut off
//	1: 2 + 0.5·3, the end        | 11: 5 to 12, cut off
//	2: 3, the end                | 20: 6 to 21, which is as far as is known
func TestRecord(t *testing.T) {
	cfg := small()
	cfg.NSteps, cfg.Gamma = 2, 0.5
	l := stubLearner(t, cfg, 2, 2, agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond))
	n, err := l.Record(recorded())
	if err != nil || n != 6 {
		t.Fatalf("Record = %d, %v, want 6", n, err)
	}
	got := map[sampled]bool{}
	for range 50 {
		l.sample(1)
		for i := range l.batch.Obs {
			s := sampled{l.batch.Obs[i], l.batch.Action[i], l.batch.Return[i], l.batch.Discount[i], l.batch.NextObs[i]}
			if s.Discount == 0 {
				s.Next = 0 // of no account
			}
			got[s] = true
		}
	}
	want := map[sampled]bool{
		{0, 0, 2, 0.25, 2}: true, {1, 1, 3.5, 0, 0}: true, {2, 0, 3, 0, 0}: true,
		{10, 1, 6.5, 0.25, 12}: true, {11, 1, 5, 0.5, 12}: true, {20, 0, 6, 0.5, 21}: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sampled (-want +got):\n%s", diff)
	}
	if l.NumTimesteps() != 0 {
		t.Errorf("%d timesteps, want 0", l.NumTimesteps())
	}
}

// TestRecordMasks: what a transition leads to, also where it was cut off, has its recorded mask.
func TestRecordMasks(t *testing.T) {
	cfg := small()
	cfg.NSteps = 1
	l := stubLearner(t, cfg, 2, 1, agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond))
	r := replay.Transitions{
		Obs: []float32{0, 1}, NextObs: []float32{1, 2}, Action: []float32{0, 1}, Reward: []float64{1, 2},
		Terminated: []bool{false, false}, Truncated: []bool{false, true},
		Mask: []bool{true, false, true, true}, NextMask: []bool{true, true, false, true},
	}
	if n, err := l.Record(r); err != nil || n != 2 {
		t.Fatalf("Record = %d, %v, want 2", n, err)
	}
	got := map[float32][2]bool{}
	for range 50 {
		l.sample(1)
		for i, next := range l.batch.NextObs {
			got[next] = [2]bool(l.batch.NextMask[2*i:])
		}
	}
	if want := map[float32][2]bool{1: {true, true}, 2: {false, true}}; !cmp.Equal(want, got) {
		t.Errorf("masks by next observation are %v, want %v", got, want)
	}
}

func TestRecordRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*replay.Transitions)
		want   string
	}{
		"none":       {func(r *replay.Transitions) { *r = replay.Transitions{} }, "have 0 rewards"},
		"lengths":    {func(r *replay.Transitions) { r.Reward = r.Reward[1:] }, "6 rewards"},
		"masks":      {func(r *replay.Transitions) { r.Mask = make([]bool, 3) }, "3 recorded masks"},
		"action":     {func(r *replay.Transitions) { r.Action[2] = 2 }, "transition 2: action 2 not in Discrete(2)"},
		"masked out": {func(r *replay.Transitions) { r.Mask = slices.Repeat([]bool{true, false}, 7) }, "transition 1: action 1 is masked out"},
		"next mask":  {func(r *replay.Transitions) { r.NextMask = slices.Repeat([]bool{true, false}, 7); r.NextMask[8] = false }, "transition 4: the next mask permits no action"},
		"not finite": {func(r *replay.Transitions) { r.Obs[3] /= float32(0 * r.Obs[0]) }, "transition 3: the observation is"},
		"reward":     {func(r *replay.Transitions) { r.Reward[4] /= 0 * r.Reward[0] }, "reward"},
		"cut off":    {func(r *replay.Transitions) { *r = cutOff(*r, 100) }, "50 recorded transitions for each environment take the room of 100"},
		"too many":   {func(r *replay.Transitions) { *r = repeated(*r, 20) }, "at most buffer_size, 100"},
	} {
		r := recorded()
		tc.change(&r)
		l := stubLearner(t, small(), 2, 2, agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond))
		if _, err := l.Record(r); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if l.buf.Len() != 0 {
			t.Errorf("%s: %d transitions in the buffer", name, l.buf.Len())
		}
	}
}

// cutOff returns n transitions that begin as r, each the last of an episode that is cut off.
func cutOff(r replay.Transitions, n int) replay.Transitions {
	r = repeated(r, n)
	r.Obs, r.NextObs, r.Action, r.Reward, r.Terminated = r.Obs[:n], r.NextObs[:n], r.Action[:n], r.Reward[:n], make([]bool, n)
	r.Truncated = slices.Repeat([]bool{true}, n)
	return r
}

// TestRecordFillsTheBuffer: what takes all the room is kept.
func TestRecordFillsTheBuffer(t *testing.T) {
	l := stubLearner(t, small(), 2, 2, agentstest.NewStub(2, prefersSecond), agentstest.NewStub(2, prefersSecond))
	n, err := l.Record(cutOff(recorded(), 50)) // of room for 100
	if err != nil || n != 50 || l.buf.Len() != 50 {
		t.Errorf("Record = %d, %v, with %d transitions in the buffer, want 50", n, err, l.buf.Len())
	}
}

// repeated returns r as many times.
func repeated(r replay.Transitions, times int) replay.Transitions {
	return replay.Transitions{
		Obs: slices.Repeat(r.Obs, times), NextObs: slices.Repeat(r.NextObs, times), Action: slices.Repeat(r.Action, times),
		Reward: slices.Repeat(r.Reward, times), Terminated: slices.Repeat(r.Terminated, times), Truncated: slices.Repeat(r.Truncated, times),
	}
}
