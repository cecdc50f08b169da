package hierarchical

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/subcluster"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// fillBy makes a SubScheduler of a planner.
type fillBy func(p *planner.Problem) (planner.Placement, error)

// Fill implements [subcluster.Scheduler].
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

// subSchedulers are the baselines that can fill a sub-cluster.
var subSchedulers = map[string]subcluster.Scheduler{
	"greedy":              byChooser(func(p *planner.Problem) planner.Chooser { return p.Greedy }),
	"round_robin":         byChooser((*planner.Problem).RoundRobin),
	"least_loaded":        byChooser(func(p *planner.Problem) planner.Chooser { return p.LeastLoaded }),
	"greedy_local_search": fillBy(func(p *planner.Problem) (planner.Placement, error) { return p.GreedyLocalSearch(context.Background()) }),
	"milp": fillBy(func(p *planner.Problem) (planner.Placement, error) {
		s, err := p.Solve(context.Background(), planner.SolveOptions{Nodes: world.BaselineNodes})
		if err != nil {
			return nil, err
		}
		return s.Placement, nil
	}),
}

// readSubScheduler reads a file of the published networks or of another known kind.
func readSubScheduler(path string) (subcluster.Scheduler, error) {
	if read := subcluster.FileReader(filepath.Ext(path)); read != nil {
		return read(path)
	}
	return nil, fmt.Errorf("%w: subscheduler is %q, want one of %v or an .npz file", envs.ErrInvalidOption, path, slices.Sorted(maps.Keys(subSchedulers)))
}
