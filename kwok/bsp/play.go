package bsp

import (
	"context"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/kwok"
)

// methods maps values of the environment's option penalty_model to methods.
var methods = map[string]Method{
	gang.PenaltyConstant: RecreateAll,
	gang.PenaltyPerTask:  RecreateChanged,
	gang.PenaltyResize:   Resize,
}

// Report is the result of [Play]. Clock seconds are time of the episode. Wall seconds are the API server's
// time, which costs the episode nothing.
type Report struct {
	Env        string       `json:"env"`
	Seed       uint64       `json:"seed"`
	Method     Method       `json:"method"`
	Tasks      []string     `json:"tasks"`
	Jobs       int          `json:"jobs"` // Jobs created
	Clock      float64      `json:"clock_total_s"`
	Simulated  float64      `json:"simulated_total_s"`
	Difference int64        `json:"difference_ns"`         // clock minus simulated seconds; 0 if both agree
	Duration   float64      `json:"duration_s"`            // of the supersteps only
	Modelled   float64      `json:"replan_modelled_s"`     // all re-plannings, as the episode charges them
	ReplanWall float64      `json:"replan_wall_s"`         // all re-plannings, as measured
	Measured   float64      `json:"total_with_measured_s"` // duration_s plus replan_wall_s
	Wall       float64      `json:"wall_s"`                // of the whole run
	Steps      []StepReport `json:"supersteps"`            // in the order of the supersteps
}

// StepReport is a superstep of a [Report].
type StepReport struct {
	Shares   []int64       `json:"milli_cpu"` // of each task
	Duration float64       `json:"duration_s"`
	Replan   *ReplanReport `json:"replan,omitempty"`
}

// ReplanReport is a re-planning of a [Report].
type ReplanReport struct {
	Changed  int     `json:"changed"` // tasks whose shares changed
	Modelled float64 `json:"modelled_s"`
	Wall     float64 `json:"wall_s"`
}

// Play plays an episode of k8s/GangWindow-v0 in v, a vector of one environment without autoreset. act decides;
// Play executes each decision on the API server. Play calls done, unless it is nil, after each superstep.
func Play(ctx context.Context, server kwok.Options, v *envs.Vec, act func(b *envs.Batch, action []float32) error, seed uint64, done func(StepReport)) (_ *Report, err error) {
	begin := time.Now()
	b, p, err := reset(ctx, v, seed)
	if err != nil {
		return nil, err
	}
	r := &Report{Env: v.Spec().ID, Seed: seed, Method: methods[p.task.PenaltyModel()], Tasks: p.model.Profile().Tasks}
	g, err := Start(ctx, Config{
		Server: server, Tasks: r.Tasks, Shares: p.shares(), MilliCPU: int64(p.model.Config().TotalMilliCPU), Method: r.Method,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := g.Close(); err == nil {
			err = closing
		}
	}()
	_, space := v.Spaces()
	action := make([]float32, space.Size())
	for !b.Done(0) {
		if err := act(b, action); err != nil {
			return nil, err
		}
		if b, err = v.Step(ctx, action); err != nil {
			return nil, err
		}
		duration, replan, err := g.Step(ctx, p.superstep(), b.Done(0))
		if err != nil {
			return nil, err
		}
		step := StepReport{Shares: p.shares(), Duration: duration.Seconds()}
		r.Duration += step.Duration
		if replan != nil {
			step.Replan = &ReplanReport{replan.Changed, replan.Modelled.Seconds(), replan.Wall.Seconds()}
			r.Modelled += step.Replan.Modelled
			r.ReplanWall += step.Replan.Wall
		}
		r.Steps = append(r.Steps, step)
		if done != nil {
			done(step)
		}
	}
	simulated := v.Env(0).State().Now
	r.Jobs, r.Clock, r.Simulated = g.Jobs(), g.Elapsed().Seconds(), simulated.Seconds()
	r.Difference = int64(g.Elapsed() - simulated)
	r.Measured, r.Wall = r.Duration+r.ReplanWall, time.Since(begin).Seconds()
	return r, nil
}

// player translates the environment's last step into a superstep of the gang.
type player struct {
	task  *gang.Task
	model *profile.Model
}

func (p *player) shares() []int64 {
	var shares []int64
	for _, l := range p.task.Levels() {
		shares = append(shares, int64(p.model.MilliCPU(int(l))))
	}
	return shares
}

func (p *player) superstep() Superstep {
	last := p.task.Last()
	s := Superstep{Penalty: seconds(last.Penalty)}
	if last.Replanned {
		s.Shares = p.shares()
	}
	for _, d := range last.Durations {
		s.Durations = append(s.Durations, seconds(d))
	}
	return s
}

// seconds converts seconds to a Duration with the environment's rounding.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
