package planner

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// Names of the controllers that New makes. Unless noted otherwise, they see predicted sizes. C(t, w) is
// Allocator.Configure at step t for window w.
const (
	ControllerStatic        = "static"                       // C(t, Window) at every Window-th step
	ControllerDynamicMPC    = "dynamic_mpc"                  // decides at every step whether to re-plan, and for which window
	ControllerDynamicWindow = "dynamic_window"               // plans a window, waits until it has passed, then plans the next
	ControllerCommitted     = "chc"                          // committed horizon control: receding and averaging fixed horizon control are its extremes
	ControllerThreshold     = "threshold"                    // re-plans when that is predicted to save enough
	ControllerOneTime       = "one_time"                     // plans all windows of the episode once, on true sizes and durations
	ControllerExactMinMax   = "oracle_per_step_exact_minmax" // the shortest superstep that the budget allows, at every step, on true sizes and durations
	ControllerEXPPO         = "exppo_static"                 // profile.Model.Static once
	ControllerEqualSplit    = "equal_3000m"                  // profile.Model.Equal once
	ControllerNever         = "never_reconfigure_1000m"      // StartMilliCPU for each task throughout
)

// Defaults of the controllers, from Kube_Gang_Scheduling (E. Wang, 2021).
const (
	DefaultHorizon   = 10   // supersteps that the dynamic controllers look ahead
	DefaultMaxWindow = 15   // longest window that the dynamic controllers choose
	DefaultLambda    = 1.02 // λ of the dynamic controllers: their distrust of long windows
	DefaultPenalty   = 15.0 // seconds that a reconfiguration costs
)

// Custom is the window that Plan returns for a configuration that is not C(t, w) for any window w.
const Custom = -1

// Planner decides at each step of an episode whether to reconfigure the job. A Planner serves one episode, whose steps
// it must see in order, and one goroutine.
type Planner interface {
	// Name returns the controller's name, with its window if it has one.
	Name() string
	// Plan is called at step t with the levels in force, which it must not change. It returns 0 to keep them. Otherwise
	// it writes the new levels to next and returns the window that they were configured for, or Custom. When ctx ends,
	// Plan returns early; then neither its result nor the Planner is usable.
	Plan(ctx context.Context, t int, current, next []uint16) (window int)
}

// Config selects a controller.
type Config struct {
	Controller string  // one of the Controller constants
	Window     int     // window of static, horizon of the dynamic ones, 1 … the trace's Columns; unused by the others
	Lambda     float64 // factor per superstep by which dynamic controllers distrust a predicted duration, > 0; unused by the others
	MaxWindow  int     // longest window that a dynamic controller or one_time chooses, ≥ 1; 0 stands for DefaultMaxWindow

	// PenaltyFactor scales the penalty that dynamic controllers plan with, > 0; 0 stands for 1. The
	// episode still charges its own. Above 1, a planner reconfigures less often.
	PenaltyFactor float64

	Commitment  int     // of chc: steps to which each plan commits, 1 … Window
	Saving      float64 // of chc and threshold: predicted saving, in penalties, from which a new configuration is adopted, ≥ 0
	LocalSearch bool    // dynamic controllers and one_time configure by Allocator.Search in place of Configure

	// Learned returns the model that dynamic controllers plan with at a step; nil selects the instance's.
	Learned func() *profile.Model

	// Cost returns the seconds that a reconfiguration is expected to cost at the next decision, ≥ 0, if the cost
	// becomes known only within the episode; nil selects the episode's penalty.
	Cost func() float64

	// Planned returns the sizes that a dynamic controller sees at step t, row-major of shape (Window, task). It is for
	// corrected forecasts; nil selects those of the instance.
	Planned func(t int) []float64
}

// Episode is the part of an instance's trace to play, and the cost of reconfigurations.
type Episode struct {
	First       int     // its first step
	Steps       int     // number of its steps, ≥ 1
	Penalty     float64 // seconds that a reconfiguration costs, ≥ 0
	ChargeFirst bool    // whether a reconfiguration in the first step is charged and counted too
}

// Validate returns an error if the episode is not within the trace or its penalty is out of range.
func (e Episode) Validate(tr *Trace) error {
	if e.First < 0 || e.Steps < 1 || e.Steps > tr.Steps-e.First {
		return fmt.Errorf("gang: episode of %d steps from %d, want 1 or more within the trace's %d", e.Steps, e.First, tr.Steps)
	}
	if !(e.Penalty >= 0) || math.IsInf(e.Penalty, 0) {
		return fmt.Errorf("gang: Penalty %v, want a finite number ≥ 0", e.Penalty)
	}
	return nil
}

// charges reports whether a reconfiguration at step t costs the penalty.
func (e Episode) charges(t int) bool { return t != e.First || e.ChargeFirst }

// New makes the planner of an episode.
func New(cfg Config, in *Instance, ep Episode) (Planner, error) {
	if err := ep.Validate(in.trace); err != nil {
		return nil, err
	}
	cfg.MaxWindow = cmp.Or(cfg.MaxWindow, DefaultMaxWindow)
	cfg.PenaltyFactor = cmp.Or(cfg.PenaltyFactor, 1)
	p := planner{cfg: cfg, in: in, ep: ep}
	switch cfg.Controller {
	case ControllerStatic, ControllerDynamicMPC, ControllerDynamicWindow, ControllerCommitted, ControllerThreshold:
		if cfg.Window < 1 || cfg.Window > in.trace.Columns {
			return nil, fmt.Errorf("gang: Window %d of controller %s, want 1 to the trace's %d columns", cfg.Window, cfg.Controller, in.trace.Columns)
		}
		p.allocator = NewAllocator(in.model, cfg.Window)
		p.configs = newConfigurer(p.allocator, cfg, in)
	}
	switch cfg.Controller {
	case ControllerDynamicMPC, ControllerDynamicWindow, ControllerCommitted, ControllerOneTime:
		if !(cfg.Lambda > 0) || math.IsInf(cfg.Lambda, 0) {
			return nil, fmt.Errorf("gang: Lambda %v of controller %s, want a finite number > 0", cfg.Lambda, cfg.Controller)
		}
		if cfg.MaxWindow < 1 {
			return nil, fmt.Errorf("gang: MaxWindow %d of controller %s, want at least 1", cfg.MaxWindow, cfg.Controller)
		}
	}
	if !(cfg.PenaltyFactor > 0) || math.IsInf(cfg.PenaltyFactor, 0) {
		return nil, fmt.Errorf("gang: PenaltyFactor %v of controller %s, want a finite number > 0", cfg.PenaltyFactor, cfg.Controller)
	}
	if cfg.Controller == ControllerCommitted && (cfg.Commitment < 1 || cfg.Commitment > cfg.Window) {
		return nil, fmt.Errorf("gang: Commitment %d of controller %s, want 1 to its Window, %d", cfg.Commitment, cfg.Controller, cfg.Window)
	}
	if !(cfg.Saving >= 0) || math.IsInf(cfg.Saving, 0) {
		return nil, fmt.Errorf("gang: Saving %v of controller %s, want a finite number ≥ 0", cfg.Saving, cfg.Controller)
	}
	switch cfg.Controller {
	case ControllerCommitted:
		return newCommittedPlanner(p), nil
	case ControllerThreshold:
		return &thresholdPlanner{p}, nil
	case ControllerStatic:
		return &staticPlanner{p}, nil
	case ControllerDynamicMPC:
		return &mpcPlanner{p, newSegmentation(p.configs, cfg.Window, cfg)}, nil
	case ControllerDynamicWindow:
		return &windowPlanner{p, newSegmentation(p.configs, cfg.Window, cfg), ep.First}, nil
	case ControllerOneTime:
		return &oneTimePlanner{p, nil, ep.First}, nil
	case ControllerExactMinMax:
		p.allocator = NewAllocator(in.truth, 1)
		return &exactPlanner{p}, nil
	case ControllerEXPPO:
		return &oncePlanner{p, in.model.Static}, nil
	case ControllerEqualSplit:
		return &oncePlanner{p, in.model.Equal}, nil
	case ControllerNever:
		return &oncePlanner{p, nil}, nil
	}
	return nil, fmt.Errorf("gang: unknown controller %q", cfg.Controller)
}

// planner holds the fields that all planners share.
type planner struct {
	cfg       Config
	in        *Instance
	ep        Episode
	allocator *Allocator
	configs   *configurer // by the allocator
}

func (p *planner) Name() string {
	switch p.cfg.Controller {
	case ControllerStatic, ControllerDynamicMPC, ControllerDynamicWindow, ControllerCommitted, ControllerThreshold:
		return fmt.Sprintf("%s_%d", p.cfg.Controller, p.cfg.Window)
	}
	return p.cfg.Controller
}

// left returns the number of remaining steps of the episode at step t, including t.
func (p *planner) left(t int) int { return p.ep.First + p.ep.Steps - t }

// penalty returns the seconds that the dynamic controllers expect a reconfiguration to cost.
func (p *planner) penalty() float64 { return p.cfg.PenaltyFactor * p.cost() }

// cost returns the expected seconds of a reconfiguration.
func (p *planner) cost() float64 {
	if p.cfg.Cost != nil {
		return p.cfg.Cost()
	}
	return p.ep.Penalty
}

// load prepares the allocator for the sizes that the planner sees at step t.
func (p *planner) load(t int) {
	sizes := p.cfg.Planned
	if sizes == nil {
		sizes = p.in.Planned
	}
	if p.cfg.Learned != nil {
		p.allocator.SetModel(p.cfg.Learned())
	}
	p.allocator.Load(sizes(t)[:p.cfg.Window*p.in.trace.Tasks])
	p.configs.step = t
}

type staticPlanner struct{ planner }

func (p *staticPlanner) Plan(_ context.Context, t int, _, next []uint16) int {
	w := p.cfg.Window
	if (t-p.ep.First)%w != 0 {
		return 0
	}
	if w <= p.in.windows {
		copy(next, p.in.Config(t, w))
		return w
	}
	p.load(t)
	p.allocator.Configure(0, w, next)
	return w
}

// oncePlanner sets one configuration in the first step, or none if configure is nil.
type oncePlanner struct {
	planner
	configure func(levels []uint16)
}

func (p *oncePlanner) Plan(_ context.Context, t int, _, next []uint16) int {
	if t != p.ep.First || p.configure == nil {
		return 0
	}
	p.configure(next)
	return Custom
}

type exactPlanner struct{ planner }

func (p *exactPlanner) Plan(_ context.Context, t int, _, next []uint16) int {
	p.allocator.Load(p.in.True(t))
	p.allocator.ExactMinMax(0, next)
	return Custom
}

// tieMargin is the relative saving that the MPC needs to keep its configuration. In a tie it
// reconfigures, and with λ = 1 ties occur: the best new configuration may shorten no
// superstep before the next one is due. Without the margin, rounding would decide them.
const tieMargin = 1e-12

type mpcPlanner struct {
	planner
	seg *segmentation
}

func (p *mpcPlanner) Plan(ctx context.Context, t int, current, next []uint16) int {
	left, charge := p.left(t), p.ep.charges(t)
	p.load(t)
	p.seg.solve(ctx, left, p.penalty(), charge)
	if cost, _ := p.seg.keep(left, p.penalty(), current); cost < p.seg.cost[0]*(1-tieMargin) {
		return 0
	}
	copy(next, p.seg.first)
	return p.seg.window[0]
}

type windowPlanner struct {
	planner
	seg *segmentation
	due int // the step at which the current window has passed
}

func (p *windowPlanner) Plan(ctx context.Context, t int, _, next []uint16) int {
	if t == p.ep.First {
		p.due = t
	}
	if t < p.due {
		return 0
	}
	p.load(t)
	p.seg.solve(ctx, p.left(t), p.penalty(), p.ep.charges(t))
	copy(next, p.seg.first)
	p.due = t + p.seg.window[0]
	return p.seg.window[0]
}

// oneTimePlanner knows the true sizes of the whole episode before it begins.
type oneTimePlanner struct {
	planner
	seg *segmentation // nil until the first Plan
	due int
}

// solve plans the episode.
func (p *oneTimePlanner) solve(ctx context.Context) {
	n := p.in.trace.Tasks
	p.allocator = NewAllocator(p.in.truth, p.ep.Steps)
	p.allocator.load(ctx, p.in.trace.True[p.ep.First*n:(p.ep.First+p.ep.Steps)*n])
	p.configs = &configurer{allocator: p.allocator, search: p.cfg.LocalSearch}
	p.seg = newSegmentation(p.configs, p.ep.Steps, p.cfg)
	p.seg.solve(ctx, p.ep.Steps, p.ep.Penalty, p.ep.ChargeFirst)
}

func (p *oneTimePlanner) Plan(ctx context.Context, t int, _, next []uint16) int {
	if t == p.ep.First {
		p.due = t
	}
	if t < p.due {
		return 0
	}
	if p.seg == nil {
		p.solve(ctx)
	}
	if ctx.Err() != nil {
		return 0
	}
	w := p.seg.window[t-p.ep.First]
	p.configs.configure(t-p.ep.First, w, next)
	p.due = t + w
	return Custom
}
