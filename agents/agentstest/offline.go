package agentstest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/agents/offline"
	"github.com/kubernasium/kubernasium/agents/replay"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
)

// OfflineLearner is a learner from recorded transitions.
type OfflineLearner interface {
	Learner
	Record(t replay.Transitions) (int, error)
}

// Recorded returns n random transitions in the spaces, with masks if the action space has some.
func Recorded(obs, act space.Space, n int, seed uint64) replay.Transitions {
	var t replay.Transitions
	rng := rand.New(pcg.New(seed))
	observation, mask := make([]float32, obs.Size()), make([]bool, space.MaskSize(act))
	for range n {
		obs.Sample(rng, nil, observation)
		t.Obs = append(t.Obs, observation...)
		obs.Sample(rng, nil, observation)
		t.NextObs = append(t.NextObs, observation...)
		action := make([]float32, act.Size())
		act.Sample(rng, nil, action)
		for k := range mask {
			mask[k] = true
		}
		t.NextMask = append(t.NextMask, mask...)
		if d, ok := act.(space.Discrete); ok { // all values of other spaces stay permitted
			for k := range mask {
				mask[k] = k == int(action[0]) || k == d.N-1
			}
		}
		t.Mask = append(t.Mask, mask...)
		t.Action, t.Reward = append(t.Action, action...), append(t.Reward, rng.NormFloat64())
		t.Terminated, t.Truncated = append(t.Terminated, rng.IntN(4) == 0), append(t.Truncated, false)
	}
	return t
}

// CheckOffline checks a learner from recorded transitions: equal seeds give equal checkpoints and other seeds do not; a
// run resumed from a checkpoint ends like an uninterrupted one; Update without transitions is an error, and so is
// Observe.
func CheckOffline[L OfflineLearner](t *testing.T, env agents.EnvInfo, build func(seed uint64) (L, error)) {
	t.Helper()
	data := Recorded(env.Obs, env.Act, 50, 3)
	open := func(seed uint64) L {
		l, err := build(seed)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	learn := func(l L) {
		for range 12 {
			if _, err := l.Update(); err != nil {
				t.Fatal(err)
			}
		}
	}
	saved := func(l L) []byte {
		var buf bytes.Buffer
		if err := l.Save(&buf); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	tensors := func(l L) []byte { return Edited(t, saved(l), func(f *models.File) { f.Meta.Seed = 0 }) }
	var runs []L
	for _, seed := range []uint64{7, 7, 8, 99} {
		l := open(seed)
		if _, err := l.Update(); !errors.Is(err, offline.ErrNoData) {
			t.Errorf("Update without transitions: %v, want %v", err, offline.ErrNoData)
		}
		if err := l.Observe(nil); !errors.Is(err, offline.ErrOnline) {
			t.Errorf("Observe: %v, want %v", err, offline.ErrOnline)
		}
		if n, err := l.Record(data); n != 50 || err != nil {
			t.Fatalf("Record = %d, %v, want 50", n, err)
		}
		if seed != 99 {
			learn(l)
		}
		runs = append(runs, l)
	}
	whole, same, other, resumed := runs[0], runs[1], runs[2], runs[3]
	if !bytes.Equal(saved(whole), saved(same)) {
		t.Error("two runs with one seed end in different checkpoints")
	}
	if bytes.Equal(tensors(whole), tensors(other)) {
		t.Error("runs with different seeds end in the same checkpoint")
	}
	if err := resumed.Load(bytes.NewReader(saved(same))); err != nil {
		t.Fatal(err)
	}
	learn(whole)
	learn(resumed)
	if !bytes.Equal(tensors(whole), tensors(resumed)) || whole.NumTimesteps() != 24 || resumed.NumTimesteps() != 24 {
		t.Errorf("the resumed run differs from the uninterrupted one, or has not 24 but %d gradient steps", resumed.NumTimesteps())
	}
}

// Played lets a policy play in v from batch b on, and returns the transitions, one environment after another.
func Played(t *testing.T, v *envs.Vec, b *envs.Batch, p agents.Policy, steps int) replay.Transitions {
	t.Helper()
	_, act := v.Spaces()
	n, mask := v.NumEnvs(), space.MaskSize(act)
	rows := make([]replay.Transitions, n)
	actions := make([]float32, n*act.Size())
	for range steps {
		if err := p.Act(b, actions); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			r, size := &rows[i], len(b.Obs)/n
			r.Obs, r.Mask = append(r.Obs, b.Obs[i*size:(i+1)*size]...), append(r.Mask, b.Mask[i*mask:(i+1)*mask]...)
			r.Action = append(r.Action, actions[i*act.Size():(i+1)*act.Size()]...)
		}
		next, err := v.Step(context.Background(), actions)
		if err != nil {
			t.Fatal(err)
		}
		b = next
		for i := range n {
			r, obs, permitted, size := &rows[i], b.Obs, b.Mask, len(b.Obs)/n
			if b.Done(i) {
				obs, permitted = b.FinalObs, b.FinalMask
			}
			r.NextObs, r.NextMask = append(r.NextObs, obs[i*size:(i+1)*size]...), append(r.NextMask, permitted[i*mask:(i+1)*mask]...)
			r.Reward, r.Terminated, r.Truncated = append(r.Reward, b.Reward[i]), append(r.Terminated, b.Terminated[i]), append(r.Truncated, b.Truncated[i])
		}
	}
	var all replay.Transitions
	for _, r := range rows {
		all.Obs, all.NextObs, all.Action = append(all.Obs, r.Obs...), append(all.NextObs, r.NextObs...), append(all.Action, r.Action...)
		all.Mask, all.NextMask, all.Reward = append(all.Mask, r.Mask...), append(all.NextMask, r.NextMask...), append(all.Reward, r.Reward...)
		all.Terminated, all.Truncated = append(all.Terminated, r.Terminated...), append(all.Truncated, r.Truncated...)
	}
	return all
}
