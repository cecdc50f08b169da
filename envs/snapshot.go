package envs

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNoLog is returned by [Vec.Snapshot] if the Vec was made without VecOptions.Log, or an episode comes from
// [Vec.LoadState].
var ErrNoLog = errors.New("envs: snapshot of environments that do not log their actions")

// snapshot is the recipe of a state: the generator's state at the episode's start, and the actions since. It needs no
// support from the task, and works with every backend whose episodes are a function of the seed.
type snapshot struct {
	ID    string
	Mode  AutoresetMode
	Rows  []rowSnapshot
	Extra batchFlags
}

type rowSnapshot struct {
	Begun   []byte // state of the generator at Begin; nil if never reset
	Options []byte // given to that reset, as JSON
	Actions []float32
}

// batchFlags are the columns of the last Batch that replaying the running episodes does not
// restore.
type batchFlags struct {
	Reward, EpisodeReturn          []float64
	EpisodeLength                  []int64
	Terminated, Truncated, Invalid []bool
}

// Snapshot returns the state of all environments as bytes. A Vec made in the same way resumes from them, even in
// another process. The size grows with the number of steps since each environment's last reset.
func (v *Vec) Snapshot() ([]byte, error) {
	b := v.batch
	s := snapshot{ID: v.spec.ID, Mode: v.mode, Extra: batchFlags{b.Reward, b.EpisodeReturn, b.EpisodeLength, b.Terminated, b.Truncated, b.Invalid}}
	for _, e := range v.envs {
		if !e.logged || e.cut {
			return nil, ErrNoLog
		}
		opts, err := json.Marshal(e.opts)
		if err != nil {
			return nil, err
		}
		s.Rows = append(s.Rows, rowSnapshot{Begun: e.begun, Options: opts, Actions: e.log})
	}
	var buf bytes.Buffer
	err := gob.NewEncoder(&buf).Encode(s)
	return buf.Bytes(), err
}

// Restore replays the running episodes up to the snapshot's state and returns its Batch without the
// final observations.
func (v *Vec) Restore(ctx context.Context, data []byte) (*Batch, error) {
	var s snapshot
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&s); err != nil {
		return nil, fmt.Errorf("envs: snapshot: %w", err)
	}
	if s.ID != v.spec.ID || s.Mode != v.mode || len(s.Rows) != len(v.envs) {
		return nil, fmt.Errorf("envs: snapshot of %d × %s in mode %s, want %d × %s in mode %s",
			len(s.Rows), s.ID, s.Mode, len(v.envs), v.spec.ID, v.mode)
	}
	v.job = job{ctx: ctx}
	defer func() { v.job = job{} }()
	for i, r := range s.Rows {
		if err := v.replayRow(i, r); err != nil {
			return nil, fmt.Errorf("restore environment %d: %w", i, err)
		}
	}
	b := v.batch
	copy(b.Reward, s.Extra.Reward)
	copy(b.EpisodeReturn, s.Extra.EpisodeReturn)
	copy(b.EpisodeLength, s.Extra.EpisodeLength)
	copy(b.Terminated, s.Extra.Terminated)
	copy(b.Truncated, s.Extra.Truncated)
	copy(b.Invalid, s.Extra.Invalid)
	return b, nil
}

func (v *Vec) replayRow(i int, r rowSnapshot) error {
	if r.Begun == nil {
		return nil
	}
	e := v.envs[i]
	if len(r.Actions)%v.nAct != 0 {
		return fmt.Errorf("%d numbers for actions of size %d", len(r.Actions), v.nAct)
	}
	if err := e.src.UnmarshalBinary(r.Begun); err != nil {
		return err
	}
	var opts map[string]any
	if err := json.Unmarshal(r.Options, &opts); err != nil {
		return err
	}
	if err := e.Reset(v.job.ctx, ResetOptions{Options: opts}); err != nil {
		return err
	}
	for a := r.Actions; len(a) > 0; a = a[v.nAct:] {
		if _, err := e.Step(v.job.ctx, a[:v.nAct]); err != nil {
			return err
		}
	}
	v.observeRow(i, v.batch.Obs, v.batch.Mask, v.batch.Info)
	return nil
}
