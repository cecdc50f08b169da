package client

import (
	"context"
	"fmt"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// Send starts a step in each of rows and returns at once: row k of actions is the action of environment rows[k].
// [VecEnv.Recv] returns the results in the order in which steps end, so that slow environments do not delay others.
// Each environment takes the same steps as with [VecEnv.Step]. Until all results are received, other calls return
// [envs.ErrPending]. Errors are those of [envs.Async.Send], and [ErrUnsupported].
//
// After a lost connection the client resumes the session. After Send, it cannot rebuild the environments at a restarted
// server until the next Reset of all environments with seeds.
func (v *VecEnv) Send(ctx context.Context, rows []int, actions []float32) error {
	if err := v.can(wire.CapAsync); err != nil {
		return err
	}
	k := v.layout.ActSize
	if len(actions) != len(rows)*k {
		return fmt.Errorf("%w: %d numbers for %d environments, want %d", envs.ErrInvalidAction, len(actions), len(rows), len(rows)*k)
	}
	for j, i := range rows {
		if i < 0 || i >= v.layout.N {
			return fmt.Errorf("%w: environment %d of %d", envs.ErrInvalidAction, i, v.layout.N)
		}
		if err := v.checkAction(i, actions[j*k:(j+1)*k], 0); err != nil {
			return err
		}
	}
	v.journal.partial = true
	v.layout.Sub(len(rows)).EncodeSend(v.w, v.nextID(), v.eid, rows, actions)
	if err := v.send(ctx); err != nil {
		return err
	}
	return v.receive(ctx, wire.TypeSend+wire.OK)
}

// Recv waits until least of the pending steps have ended, or all if there are fewer. It returns the environments of at
// most most of these steps in ascending order, and a Batch with a row for each, which the next Recv overwrites. If an
// environment fails, Recv returns its error, and all environments must be reset. If ctx ends, no step is lost.
func (v *VecEnv) Recv(ctx context.Context, least, most int) ([]int, *envs.Batch, error) {
	if err := v.can(wire.CapAsync); err != nil {
		return nil, nil, err
	}
	req := &wire.RecvRequest{T: wire.TypeRecv, ID: v.nextID(), EID: v.eid, Min: least, Max: most}
	if err := v.call(ctx, wire.TypeRecv+wire.OK, req, nil); err != nil {
		return nil, nil, err
	}
	rows, err := wire.RecvRows(&v.frame, v.layout.N)
	if err != nil {
		return nil, nil, v.protocolError(err)
	}
	if v.part == nil {
		v.part = envs.NewBatch(v.layout.N, v.obs.Size(), v.layout.Mask, len(v.spec.Info), v.mode)
		if v.batch.Failed != nil {
			v.part.Failed = make([]error, v.layout.N)
		}
	}
	b := part(v.part, 0, len(rows), v.layout.N)
	sub := v.layout.Sub(len(rows))
	if err := v.decoded(sub.DecodeStep(&v.frame, (*wire.Rows)(b)), b, len(rows), nil); err != nil {
		return nil, nil, v.protocolError(err)
	}
	for j, i := range rows {
		b.EpisodeReturn[j], b.EpisodeLength[j] = v.rows.step(i, b.Reward[j], b.Done(j), v.mode)
	}
	if err := sub.DecodeEpisodes(&v.frame, (*wire.Rows)(b)); err != nil {
		return nil, nil, v.protocolError(err)
	}
	return rows, b, nil
}
