package forecast

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/gang"
	"github.com/kubernasium/kubernasium/envs/gang/planner"
	"github.com/kubernasium/kubernasium/envs/gang/rules"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Task is k8s/GangForecast-v0: the dynamics of [gang.Task], with the dynamic MPC as planner. The agent corrects the
// planner's forecasts, task by task. It implements [envs.Task].
type Task struct {
	*gang.Task
	opts Options

	window    int             // of the last superstep
	task      int             // whose forecast the next action corrects
	corrected []float64       // sizes to plan with, of shape (horizon, task)
	mpc       planner.Planner // of the episode; plans with corrected
	decided   bool            // Plan or Keep has replaced the decision of mpc
	next      []uint16        // scratch: levels to change to
	keep      [1]float32      // the action of gang.Task that makes no plan of its own
}

var (
	_ envs.Task         = (*Task)(nil)
	_ envs.InfoWriter   = (*Task)(nil)
	_ envs.Limiter      = (*Task)(nil)
	_ envs.Renderer     = (*Task)(nil)
	_ envs.Planner      = (*Task)(nil)
	_ envs.Cloner       = (*Task)(nil)
	_ envs.Resumer      = (*Task)(nil)
	_ envs.FeatureNamer = (*Task)(nil)
	_ rules.Follower    = (*Task)(nil)
)

func newTask(m maker) *Task {
	t := &Task{Task: m.dynamics(), opts: m.opts}
	t.corrected, t.next = make([]float64, t.opts.Horizon*t.tasks()), make([]uint16, t.tasks())
	return t
}

// Dynamics implements [rules.Follower].
func (t *Task) Dynamics() rules.Job { return t.Task }

func (t *Task) tasks() int { return len(t.Levels()) }

// Due implements [rules.Follower]: the next action corrects the last task's forecast.
func (t *Task) Due() bool { return t.task == t.tasks()-1 }

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	return space.NewBox(-1, 1, len(t.names())), space.NewBox(-1, 1, t.opts.Horizon)
}

// MaxEpisodeSteps implements [envs.Limiter].
func (t *Task) MaxEpisodeSteps() int { return t.opts.Steps * t.tasks() }

// Begin implements [envs.Task].
func (t *Task) Begin(ctx context.Context, c cluster.Cluster, rng *rand.Rand) error {
	if err := t.Task.Begin(ctx, c, rng); err != nil {
		return err
	}
	t.task, t.window, t.decided = 0, 0, false
	return t.prepare()
}

// prepare makes the episode's planner.
func (t *Task) prepare() (err error) {
	t.mpc, err = planner.New(planner.Config{
		Controller: planner.ControllerDynamicMPC, Window: t.opts.Horizon, Lambda: t.opts.Lambda,
		PenaltyFactor: t.opts.PenaltyFactor, Planned: func(int) []float64 { return t.corrected },
	}, t.Instance(), t.Episode())
	return err
}

// Apply implements [envs.Task]: it corrects the forecast of one task. After the last task, the planner decides and the
// superstep is executed.
func (t *Task) Apply(ctx context.Context, c cluster.Cluster, action []float32) (envs.Outcome, error) {
	k, n := t.task, t.tasks()
	planned := t.Instance().Planned(t.Step())
	for h, a := range action {
		size := planned[h*n+k] + float64(a)*t.opts.Correction
		t.corrected[h*n+k] = min(max(size, t.opts.SizeLow), t.opts.SizeHigh)
	}
	if !t.Due() {
		t.task++
		return envs.Outcome{}, nil
	}
	window := 0
	if !t.decided {
		window = t.mpc.Plan(ctx, t.Step(), t.Levels(), t.next)
		if err := ctx.Err(); err != nil {
			return envs.Outcome{}, err
		}
		if window > 0 {
			t.Task.Plan(t.next)
		}
	}
	t.task, t.window, t.decided = 0, window, false
	return t.Task.Apply(ctx, c, t.keep[:])
}

// Info implements [envs.InfoWriter]. The window is that of the environment's planner.
func (t *Task) Info(s *cluster.State, dst []float64) {
	t.Task.Info(s, dst)
	dst[slices.IndexFunc(gang.InfoColumns, func(c envs.Column) bool { return c.Name == "window" })] = float64(t.window)
}

// Plan sets the configuration to change to before the next superstep, in place of the environment's
// planner.
func (t *Task) Plan(levels []uint16) {
	t.Task.Plan(levels)
	t.decided = true
}

// Keep keeps the configuration in the next superstep, in place of the environment's planner.
func (t *Task) Keep() { t.decided = true }

// TakePlan implements [envs.Planner].
func (t *Task) TakePlan() envs.Plan {
	if !t.decided {
		return nil
	}
	t.decided = false
	return decision{t.Task.TakePlan()}
}

// LeavePlan implements [envs.Planner].
func (t *Task) LeavePlan(p envs.Plan) {
	t.decided = true
	if levels := p.(decision).levels; levels != nil {
		t.Task.LeavePlan(levels)
	}
}

// decision is a plan: levels to change to, or nil to keep those in force.
type decision struct{ levels envs.Plan }

// Clone implements [envs.Cloner].
func (t *Task) Clone(rng *rand.Rand) envs.Task {
	c := *t
	c.Task = t.Task.Clone(rng).(*gang.Task)
	c.corrected, c.next = slices.Clone(t.corrected), slices.Clone(t.next)
	if t.mpc != nil {
		if err := c.prepare(); err != nil {
			panic(err) // the original's planner has the same arguments
		}
	}
	return &c
}

// episode is the state of a Task in the middle of an episode.
type episode struct {
	Dynamics     json.RawMessage // of gang.Task
	Window, Task int
	Corrected    []float64
}

// AppendEpisode implements [envs.Resumer].
func (t *Task) AppendEpisode(dst []byte, s *cluster.State) ([]byte, error) {
	dynamics, err := t.Task.AppendEpisode(nil, s)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(episode{dynamics, t.window, t.task, t.corrected})
	return append(dst, data...), err
}

// ResumeEpisode implements [envs.Resumer].
func (t *Task) ResumeEpisode(ctx context.Context, c cluster.Cluster, data []byte) error {
	var e episode
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	if e.Task < 0 || e.Task >= t.tasks() || len(e.Corrected) != len(t.corrected) {
		return fmt.Errorf("forecast: task %d of %d and %d corrected sizes, want %d", e.Task, t.tasks(), len(e.Corrected), len(t.corrected))
	}
	t.window, t.task = e.Window, e.Task
	copy(t.corrected, e.Corrected)
	return t.Task.ResumeEpisode(ctx, c, e.Dynamics)
}
