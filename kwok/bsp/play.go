package bsp

import (
	"context"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
	"github.com/kubernasium/kubernasium/kwok"
)

// methods maps the environment's option penalty_model to the corresponding method.
var methods = map[string]Method{
	gang.PenaltyConstant: RecreateAll,
	gang.PenaltyPerTask:  RecreateChanged,
	gang.PenaltyResize:   Resize,
}

// Report is the result of [Play]. Seconds of the clock are the episode's; wall seconds are the time
// that the API server took, which costs the episode nothing.
type Report struct {
	Env        string       `json:"env"`
	Seed       uint64       `json:"seed"`
	Method     Method       `json:"method"`
	Tasks      []string     `json:"tasks"`
	Jobs       int          `json:"jobs"` // created
	Clock      float64      `json:"clock_total_s"`
	Simulated  float64      `json:"simulated_total_s"`
	Difference int64        `json:"difference_ns"`         // clock less simulated; 0 where both agree
	Duration   float64      `json:"duration_s"`            // of the supersteps alone
	Modelled   float64      `json:"replan_modelled_s"`     // all re-plannings, as the episode counts them
	ReplanWall float64      `json:"replan_wall_s"`         // the same, measured
	Measured   float64      `json:"total_with_measured_s"` // duration_s and replan_wall_s
	Wall       float64      `json:"wall_s"`                // all of the run
	Steps      []StepReport `json:"supersteps"`            // in order
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

// Play plays an episode of k8s/GangWindow-v0 in v, a vector of one environment without autoreset,
// with the decisions of act, and executes each on the API server. If done is not nil, Play calls it
// after each superstep.
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

// player translates the environment's last step for the gang.
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

// seconds rounds as the environment does.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
