package bsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
)

// ErrReplay is wrapped by the error of [Replay] if the simulator does not reproduce the log.
var ErrReplay = errors.New("bsp: the log is of another episode")

// maxSteps limits the length of a log.
const maxSteps = 1_000_000

// A Log is the record that [PlayReal] writes: one line of JSON for the header, and one for each superstep.
type Log struct {
	RealHeader
	Steps []RealStep
}

// ReadLog reads a log, even of a run that was interrupted.
func ReadLog(r io.Reader) (*Log, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	l := &Log{}
	if err := dec.Decode(&l.RealHeader); err != nil {
		return nil, fmt.Errorf("bsp: header of the log: %w", err)
	}
	if len(l.Tasks) == 0 || l.Env == "" {
		return nil, fmt.Errorf("bsp: header of the log names environment %q and %d tasks, want one and at least one", l.Env, len(l.Tasks))
	}
	for {
		var s RealStep
		err := dec.Decode(&s)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && len(l.Steps) > 0 {
			return l, nil // the last line of an interrupted run may be incomplete
		}
		if err != nil {
			return nil, fmt.Errorf("bsp: superstep %d of the log: %w", len(l.Steps), err)
		}
		if err := s.check(len(l.Steps), len(l.Tasks)); err != nil {
			return nil, err
		}
		if l.Steps = append(l.Steps, s); len(l.Steps) > maxSteps {
			return nil, fmt.Errorf("bsp: a log of more than %d supersteps", maxSteps)
		}
	}
}

func (s *RealStep) check(step, tasks int) error {
	for _, n := range []int{len(s.Sizes), len(s.MilliCPU), len(s.Seconds), len(s.Model)} {
		if n != tasks || s.Step != step {
			return fmt.Errorf("bsp: superstep %d of the log has number %d and %d values for %d tasks", step, s.Step, n, tasks)
		}
	}
	for _, x := range s.Seconds {
		if !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("bsp: superstep %d of the log has a duration of %v s, want more than 0", step, x)
		}
	}
	for _, x := range s.Model { // a measured profile's spline may fall below 0
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("bsp: superstep %d of the log has a model's duration of %v s, want a finite one", step, x)
		}
	}
	return nil
}

// Replay plays the supersteps of a log in v as the environment plays them: with the logged shares, and with the
// durations of its model. It returns an error that wraps [ErrReplay] if sizes, shares or the model's durations
// differ from the log. v's environment must have the log's options.
func Replay(ctx context.Context, l *Log, v *envs.Vec) (*RealReport, error) {
	b, p, err := reset(ctx, v, l.Seed)
	if err != nil {
		return nil, err
	}
	if tasks := p.model.Profile().Tasks; !slices.Equal(tasks, l.Tasks) {
		return nil, fmt.Errorf("%w: it has tasks %q, want %q", ErrReplay, l.Tasks, tasks)
	}
	r := &RealReport{RealHeader: l.RealHeader, Steps: l.Steps}
	_, space := v.Spaces()
	for i, s := range l.Steps {
		if b.Done(0) {
			return nil, fmt.Errorf("%w: it has %d supersteps, want at most %d", ErrReplay, len(l.Steps), i)
		}
		if sizes := p.task.Instance().True(p.task.Step()); !slices.Equal(sizes, s.Sizes) {
			return nil, fmt.Errorf("%w: superstep %d has sizes %v, want %v", ErrReplay, i, s.Sizes, sizes)
		}
		if len(s.Action) != space.Size() {
			return nil, fmt.Errorf("%w: superstep %d has an action of %d numbers, want %d", ErrReplay, i, len(s.Action), space.Size())
		}
		if s.Replanned {
			levels, err := p.levels(s.MilliCPU)
			if err != nil {
				return nil, fmt.Errorf("%w: superstep %d: %w", ErrReplay, i, err)
			}
			p.task.Plan(levels)
		}
		if b, err = v.Step(ctx, s.Action); err != nil {
			return nil, err
		}
		last := p.task.Last()
		if shares := p.shares(); !slices.Equal(shares, s.MilliCPU) || last.Replanned != s.Replanned {
			return nil, fmt.Errorf("%w: superstep %d has shares %v, want %v", ErrReplay, i, s.MilliCPU, shares)
		}
		if !slices.Equal(last.Durations, s.Model) || last.Penalty != s.Penalty {
			return nil, fmt.Errorf("%w: superstep %d has modelled durations %v and cost %v, want %v and %v", ErrReplay, i, s.Model, s.Penalty, last.Durations, last.Penalty)
		}
	}
	r.Model = v.Env(0).State().Now.Seconds()
	r.sum()
	return r, nil
}

// levels converts millicores to the environment's levels of shares.
func (p *player) levels(milliCPU []int64) ([]uint16, error) {
	c := p.model.Config()
	levels, rest := make([]uint16, len(milliCPU)), p.model.Increments()
	for k, m := range milliCPU {
		above := int(m) - c.StartMilliCPU
		if above < 0 || above%c.IncrementMilliCPU != 0 || above/c.IncrementMilliCPU > rest {
			return nil, fmt.Errorf("a share of %d millicores, want %d and multiples of %d more, %d in all", m, c.StartMilliCPU, c.IncrementMilliCPU, c.TotalMilliCPU)
		}
		levels[k] = uint16(above / c.IncrementMilliCPU)
		rest -= int(levels[k])
	}
	return levels, nil
}
