package session

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/server/wire"
)

// asyncSteps runs steps of a vector between requests. Nil has none.
type asyncSteps struct {
	*envs.Async
	cancel  context.CancelFunc
	layout  *wire.Layout // of as many rows as a request or reply has
	actions []float32
	rows    *envs.Batch
}

// stop ends the steps, and returns when none runs.
func (a *asyncSteps) stop() {
	if a != nil {
		a.end()
		a.Wait()
	}
}

// end cancels the steps without waiting.
func (a *asyncSteps) end() {
	if a != nil {
		a.cancel()
	}
}

// passes reports whether a kind of request may come while steps are pending.
func passes(kind []byte) bool {
	return slices.Contains([]string{wire.TypeSend, wire.TypeRecv, wire.TypeStats, wire.TypeClose}, string(kind))
}

// steps returns the asyncSteps of v; the first call makes it.
func (s *Session) steps(v *vector) *asyncSteps {
	if v.async != nil {
		return v.async
	}
	ctx, cancel := context.WithCancel(context.Background()) // until the vector is closed, over lost connections
	a := &asyncSteps{cancel: cancel, layout: v.layout.Sub(v.layout.N), actions: make([]float32, v.layout.N*v.layout.ActSize)}
	begin, end := func() context.Context { return ctx }, func() {}
	if v.vec.Spec().Backend == nil { // see share
		turn := newTurn(&s.cfg.Shared.turns)
		begin, end = func() context.Context { return turn.begin(ctx, &v.loads.async) }, turn.end
	}
	a.Async = envs.NewAsync(v.vec, begin, end)
	v.async = a
	return a
}

// send begins steps of some environments.
func (s *Session) send(v *vector, eid uint64, f *wire.Frame) error {
	rows, err := f.Indices("idx", v.layout.N)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	if f.Get("idx") == nil {
		rows = make([]int, v.layout.N)
		for i := range rows {
			rows[i] = i
		}
	}
	a := s.steps(v)
	a.layout.N = len(rows)
	actions := a.actions[:len(rows)*v.layout.ActSize]
	if err := a.layout.DecodeActions(f, actions); err != nil {
		return s.aboutVector(eid, err)
	}
	if err := a.Send(rows, actions); err != nil {
		return s.aboutVector(eid, err)
	}
	s.out.Head(2, wire.TypeSend+wire.OK, f.ID)
	return nil
}

// recv replies with rows whose steps have ended.
func (s *Session) recv(ctx context.Context, v *vector, eid uint64, f *wire.Frame) error {
	least, most := uint64(1), uint64(v.layout.N)
	wait := uint64(math.MaxInt64)
	for key, dst := range map[string]*uint64{"min": &least, "max": &most, "wait_ms": &wait} {
		x, given, err := f.Uint(key)
		if err != nil {
			return s.aboutVector(eid, err)
		}
		if given {
			*dst = x
		}
	}
	if least < 1 || most < 1 || least > most || most > uint64(v.layout.N) {
		return about(eid, wire.Errorf(wire.BadField, "min %d and max %d, want 1 ≤ min ≤ max ≤ %d", least, most, v.layout.N))
	}
	a := s.steps(v)
	rows, err := a.await(ctx, int(least), int(most), wait)
	if err != nil {
		return s.aboutVector(eid, err)
	}
	a.rows = v.vec.Gather(a.rows, nil) // makes it
	b := v.vec.Gather(a.rows, rows)
	v.steps.Add(uint64(len(rows)))
	s.cfg.Shared.Steps.Add(uint64(len(rows)))
	for j := range rows {
		if b.Done(j) {
			v.episodes++
		}
	}
	s.isolated(b)
	a.layout.N = len(rows)
	a.layout.EncodeRecv(s.out, f.ID, rows, (*wire.Rows)(b), v.vec.Autoreset() == envs.SameStep)
	return nil
}

// await is Recv, but returns what is ready after wait milliseconds.
func (a *asyncSteps) await(ctx context.Context, least, most int, wait uint64) ([]int, error) {
	const forever = uint64(24 * time.Hour / time.Millisecond)
	if wait >= forever {
		return a.Recv(ctx, least, most)
	}
	limited, cancel := context.WithTimeout(ctx, time.Duration(wait)*time.Millisecond)
	defer cancel()
	rows, err := a.Recv(limited, least, most)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && limited.Err() != nil {
		return a.Take(most)
	}
	return rows, err
}
