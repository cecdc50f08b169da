package subcluster

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// fillBy makes a Scheduler of a planner.
type fillBy func(p *planner.Problem) (planner.Placement, error)

// Fill implements [Scheduler].
func (f fillBy) Fill(p *planner.Problem, x planner.Placement) error {
	y, err := f(p)
	copy(x, y)
	return err
}

// byChooser makes a planner of a chooser, in the order of applications.
func byChooser(chooser func(p *planner.Problem) planner.Chooser) fillBy {
	return func(p *planner.Problem) (planner.Placement, error) {
		return p.Place(planner.AppOrder(p.Batch), chooser(p))
	}
}

// planners are the schedulers that need no file.
var planners = map[string]Scheduler{
	"greedy":              byChooser(func(p *planner.Problem) planner.Chooser { return p.Greedy }),
	"round_robin":         byChooser((*planner.Problem).RoundRobin),
	"least_loaded":        byChooser(func(p *planner.Problem) planner.Chooser { return p.LeastLoaded }),
	"greedy_local_search": fillBy(func(p *planner.Problem) (planner.Placement, error) { return p.GreedyLocalSearch(context.Background()) }),
	"milp": fillBy(func(p *planner.Problem) (planner.Placement, error) {
		s, err := p.Solve(context.Background(), planner.SolveOptions{Nodes: planner.BaselineNodes})
		if err != nil {
			return nil, err
		}
		return s.Placement, nil
	}),
}

// Open returns the planner called name, or reads a file of the published networks or of a registered kind. If name is
// unknown, the error wraps envs.ErrInvalidOption.
func Open(name string) (Scheduler, error) {
	if s, ok := planners[name]; ok {
		return s, nil
	}
	if read := fileReaders[filepath.Ext(name)]; read != nil {
		return read(name)
	}
	return nil, fmt.Errorf("%w: subscheduler is %q, want one of %v or an .npz file", envs.ErrInvalidOption, name, slices.Sorted(maps.Keys(planners)))
}
