package bsp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/gang"
)

// RealConfig holds the arguments of [PlayReal].
type RealConfig struct {
	Executor Executor
	Works    []Work // of the profile's tasks, in any order
	Limit    time.Duration
	Act      func(b *envs.Batch, action []float32) error
	Policy   string         // name of the policy Act
	Kwargs   map[string]any // options of the environment
	Seed     uint64
	Log      io.Writer // receives the log; nil keeps none

	// ModelledCost makes planners always use the environment's cost of a re-planning. Without it they learn
	// the cost from measurements.
	ModelledCost bool

	Done func(RealStep)
}

// RealReport is the result of [PlayReal]. Model seconds are time of the environment's episode.
type RealReport struct {
	RealHeader
	Planning float64    `json:"planning_s"`        // of the policy's decisions, measured
	Replan   float64    `json:"replan_s"`          // all re-plannings, measured
	Expected float64    `json:"expected_replan_s"` // the cost that planners expected for the last superstep's re-planning
	Duration float64    `json:"duration_s"`        // all supersteps, measured
	Total    float64    `json:"total_s"`           // sum of the three
	Model    float64    `json:"model_s"`           // total time in the environment, with its cost of re-plannings
	RMS      float64    `json:"rms_log"`           // root mean square of log(measured / modelled) duration, where both are positive
	Steps    []RealStep `json:"supersteps"`
}

// RealHeader is the first line of a log. It holds what a replay needs.
type RealHeader struct {
	Env     string         `json:"env"`
	Kwargs  map[string]any `json:"env_kwargs"`
	Seed    uint64         `json:"seed"`
	Policy  string         `json:"policy"`
	Setting string         `json:"setting"` // setting of the executor
	Method  Method         `json:"method"`
	Tasks   []string       `json:"tasks"`
	Works   []string       `json:"works"` // of the tasks
}

// RealStep is a superstep of a log.
type RealStep struct {
	Step      int       `json:"step"`
	Action    []float32 `json:"action"`
	Sizes     []float64 `json:"sizes"`
	MilliCPU  []int64   `json:"milli_cpu"` // of each task
	Replanned bool      `json:"replanned,omitempty"`
	Changed   int       `json:"changed,omitempty"` // tasks whose shares changed
	Planning  float64   `json:"planning_s"`        // of the policy
	Replan    float64   `json:"replan_s"`          // measured; 0 without a re-planning
	Expected  float64   `json:"expected_replan_s"` // the cost of a re-planning that the planner assumed
	Seconds   []float64 `json:"seconds"`           // measured, of each task
	Model     []float64 `json:"model_s"`           // of each task
	Penalty   float64   `json:"model_penalty_s"`   // of the re-planning, by the model
}

// Duration returns the measured duration of the superstep, that of its slowest task.
func (s *RealStep) Duration() float64 { return slices.Max(s.Seconds) }

// PlayReal plays an episode of k8s/GangWindow-v0 in v, a vector of one environment without autoreset. c.Act
// decides, and c.Executor executes each superstep. Shares and workload sizes are the environment's; task
// durations and the time of re-plannings are measured.
func PlayReal(ctx context.Context, c RealConfig, v *envs.Vec) (_ *RealReport, err error) {
	b, p, err := reset(ctx, v, c.Seed)
	if err != nil {
		return nil, err
	}
	t := p.task
	r := &RealReport{RealHeader: RealHeader{
		Env: v.Spec().ID, Kwargs: c.Kwargs, Seed: c.Seed, Policy: c.Policy, Setting: c.Executor.Setting(),
		Method: methods[t.PenaltyModel()], Tasks: p.model.Profile().Tasks,
	}}
	job := Job{MilliCPU: p.shares(), Method: r.Method, Limit: c.Limit}
	if job.Works, err = worksOf(r.Tasks, c.Works); err != nil {
		return nil, err
	}
	if most, want := c.Executor.MaxMilliCPU(), int64(p.model.Config().TotalMilliCPU); want > most {
		return nil, fmt.Errorf("bsp: option total_cpu_m is %d, want at most the %d that there are", want, most)
	}
	for _, w := range job.Works {
		r.Works = append(r.Works, w.String())
	}
	log := json.NewEncoder(cmp.Or(c.Log, io.Discard))
	if err := log.Encode(r.RealHeader); err != nil {
		return nil, err
	}
	crew, err := c.Executor.Start(ctx, job)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, crew.Close()) }()
	_, space := v.Spaces()
	action := make([]float32, space.Size())
	cost := replanCost{prior: t.Episode().Penalty}
	for !b.Done(0) {
		ep := t.Episode()
		s := RealStep{Step: t.Step() - ep.First, Sizes: slices.Clone(t.Instance().True(t.Step())), Expected: ep.Penalty}
		begin := time.Now()
		if err := c.Act(b, action); err != nil {
			return nil, err
		}
		s.Planning, s.Action = time.Since(begin).Seconds(), slices.Clone(action)
		if b, err = v.Step(ctx, action); err != nil {
			return nil, err
		}
		if err := s.execute(ctx, crew, p); err != nil {
			return nil, err
		}
		if err := log.Encode(s); err != nil {
			return nil, err
		}
		r.Steps = append(r.Steps, s)
		if s.Replanned && !c.ModelledCost {
			cost.observe(s.Replan)
			t.ExpectPenalty(cost.mean())
		}
		if c.Done != nil {
			c.Done(s)
		}
	}
	r.Model = v.Env(0).State().Now.Seconds()
	r.sum()
	return r, nil
}

// replanCost estimates the cost of a re-planning by the run's method. It is the mean of the measured costs and
// of the environment's cost, which counts as one measurement.
type replanCost struct {
	prior, sum float64
	n          int
}

func (c *replanCost) observe(seconds float64) { c.sum, c.n = c.sum+seconds, c.n+1 }

func (c *replanCost) mean() float64 { return (c.prior + c.sum) / float64(1+c.n) }

// reset begins an episode.
func reset(ctx context.Context, v *envs.Vec, seed uint64) (*envs.Batch, *player, error) {
	t, ok := v.Env(0).Task().(*gang.Task)
	if !ok || v.NumEnvs() != 1 || v.Autoreset() != envs.Disabled {
		return nil, nil, fmt.Errorf("bsp: %d environments of %s, want one of k8s/GangWindow-v0 without autoreset", v.NumEnvs(), v.Spec().ID)
	}
	b, err := v.Reset(ctx, envs.VecResetOptions{Seeds: []uint64{seed}})
	if err != nil {
		return nil, nil, err
	}
	return b, &player{task: t, model: t.Instance().Model()}, nil
}

// worksOf returns the work of each task.
func worksOf(tasks []string, works []Work) ([]Work, error) {
	all := make([]Work, len(tasks))
	for k, task := range tasks {
		i := slices.IndexFunc(works, func(w Work) bool { return w.Task == task })
		if i < 0 {
			return nil, fmt.Errorf("bsp: task %s of the profile has no workload, want one for each of %q", task, tasks)
		}
		all[k] = works[i]
	}
	if len(works) != len(tasks) {
		return nil, fmt.Errorf("bsp: %d workloads for the %d tasks of the profile, want one for each of %q", len(works), len(tasks), tasks)
	}
	return all, nil
}

// execute carries out the decision of the environment's last step.
func (s *RealStep) execute(ctx context.Context, crew Crew, p *player) error {
	last := p.task.Last()
	s.MilliCPU, s.Model, s.Penalty = p.shares(), slices.Clone(last.Durations), last.Penalty
	if last.Replanned {
		begin := time.Now()
		if err := crew.Replan(ctx, s.MilliCPU); err != nil {
			return fmt.Errorf("re-plan before superstep %d: %w", s.Step, err)
		}
		s.Replanned, s.Changed, s.Replan = true, last.Changed, time.Since(begin).Seconds()
	}
	durations, err := crew.Superstep(ctx, s.Sizes)
	if err != nil {
		return err
	}
	for _, d := range durations {
		s.Seconds = append(s.Seconds, d.Seconds())
	}
	return nil
}

// sum computes the totals over the supersteps.
func (r *RealReport) sum() {
	squares, n := 0.0, 0
	for _, s := range r.Steps {
		r.Planning += s.Planning
		r.Replan += s.Replan
		r.Duration += s.Duration()
		r.Expected = s.Expected
		for k, x := range s.Seconds {
			if x > 0 && s.Model[k] > 0 { // a spline through noisy points may fall below 0 between them
				d := math.Log(x / s.Model[k])
				squares += d * d
				n++
			}
		}
	}
	r.Total = r.Planning + r.Replan + r.Duration
	r.RMS = math.Sqrt(squares / float64(max(n, 1)))
}
