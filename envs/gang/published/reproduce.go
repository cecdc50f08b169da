package published

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/kubernasium/kubernasium/envs/gang/planner"
)

// Modes of a Case.
const (
	ModeForecast = "forecast" // planners see forecasts
	ModeActual   = "actual"   // planners see the true sizes
	ModeAny      = "any"      // the controller uses no predicted size
)

// Case is one run over the dataset.
type Case struct {
	Mode       string  `json:"mode"`       // one of the Mode constants
	Controller string  `json:"controller"` // one of the Controller constants
	Window     int     `json:"window"`     // see planner.Config
	Lambda     float64 `json:"lambda"`     // see planner.Config
	Penalty    float64 `json:"penalty"`    // seconds that a reconfiguration costs; default 15
	Steps      int     `json:"steps"`      // supersteps from the first, 1 … 1000; default 400
}

// DefaultCases returns the runs with published results: the static windows and the dynamic MPC of Kube_Gang_Scheduling
// (E. Wang, 2021), which ran its perfect-knowledge MPC with λ = 1.0, and the horizons of both dynamic controllers in
// its fork Kube_Gang_Scheduling-main (K. C. R. Chitta).
func DefaultCases() []Case {
	c := func(mode, controller string, window int, lambda float64) Case {
		return Case{mode, controller, window, lambda, planner.DefaultPenalty, 400}
	}
	cases := []Case{c(ModeAny, planner.ControllerEXPPO, 0, 0), c(ModeAny, planner.ControllerNever, 0, 0)}
	for _, mode := range []string{ModeForecast, ModeActual} {
		for w := 1; w <= 9; w++ {
			cases = append(cases, c(mode, planner.ControllerStatic, w, 0))
		}
	}
	cases = append(cases, c(ModeActual, planner.ControllerDynamicMPC, planner.DefaultHorizon, 1))
	for _, controller := range []string{planner.ControllerDynamicMPC, planner.ControllerDynamicWindow} {
		for h := 1; h <= 10; h++ {
			cases = append(cases, c(ModeForecast, controller, h, planner.DefaultLambda))
		}
	}
	return cases
}

// Result is the outcome of a Case, and the published total if there is one.
type Result struct {
	Case
	Duration      float64  `json:"duration"`       // seconds, without penalties
	Checkpoints   int      `json:"checkpoints"`    // reconfigurations after the first step
	Total         float64  `json:"total"`          // seconds, with penalties
	Published     *float64 `json:"published"`      // nil if no total is published
	RelativeError *float64 `json:"relative_error"` // |Total − Published| / Published
}

// Reproduce runs the cases, DefaultCases if there are none, on the data below dir and
// compares them with the published tables there. Cases run in parallel; results are in
// the order of the cases.
func Reproduce(dir string, cases ...Case) ([]Result, error) {
	if len(cases) == 0 {
		cases = DefaultCases()
	}
	data, err := ReadDataset(dir)
	if err != nil {
		return nil, err
	}
	published, err := readPublished(dir)
	if err != nil {
		return nil, err
	}
	instances := map[string]*planner.Instance{}
	for mode, tr := range map[string]*planner.Trace{ModeForecast: data.Forecast, ModeActual: data.Actual, ModeAny: data.Actual} {
		if instances[mode], err = planner.NewInstance(context.Background(), data.Model, tr, 0, 1); err != nil {
			return nil, err
		}
	}
	results, errs := make([]Result, len(cases)), make([]error, len(cases))
	var wg sync.WaitGroup
	queue := make(chan int)
	for range min(len(cases), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range queue {
				results[i], errs[i] = cases[i].run(instances, published)
			}
		})
	}
	for i := range cases {
		queue <- i
	}
	close(queue)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return results, nil
}

// normal returns the case with zeros for the settings that its controller does not use.
func (c Case) normal() Case {
	switch c.Controller {
	case planner.ControllerStatic:
		c.Lambda = 0
	case planner.ControllerOneTime:
		c.Window = 0
	case planner.ControllerEXPPO, planner.ControllerEqualSplit, planner.ControllerNever:
		c.Mode, c.Window, c.Lambda = ModeAny, 0, 0
	case planner.ControllerExactMinMax:
		c.Window, c.Lambda = 0, 0
	}
	return c
}

func (c Case) run(instances map[string]*planner.Instance, published map[Case]float64) (Result, error) {
	in, ok := instances[c.Mode]
	if !ok {
		return Result{}, fmt.Errorf("gang: mode %q, want %s, %s or %s", c.Mode, ModeForecast, ModeActual, ModeAny)
	}
	ep := planner.Episode{Steps: c.Steps, Penalty: c.Penalty}
	p, err := planner.New(planner.Config{Controller: c.Controller, Window: c.Window, Lambda: c.Lambda}, in, ep)
	if err != nil {
		return Result{}, err
	}
	run, err := planner.Simulate(in, p, ep, false)
	if err != nil {
		return Result{}, err
	}
	c = c.normal()
	r := Result{Case: c, Duration: run.Duration, Checkpoints: run.Checkpoints, Total: run.Total}
	if total, ok := published[c]; ok {
		r.Published, r.RelativeError = &total, new(math.Abs(run.Total-total)/total)
	}
	return r, nil
}
