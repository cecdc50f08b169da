package hierarchical

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/world"
)

// fillBy makes a SubScheduler of a planner.
type fillBy func(p *lra.Problem) (lra.Placement, error)

// Fill implements [SubScheduler].
func (f fillBy) Fill(p *lra.Problem, x lra.Placement) error {
	y, err := f(p)
	copy(x, y)
	return err
}

// byChooser makes a planner of a chooser, in the order of applications.
func byChooser(chooser func(p *lra.Problem) lra.Chooser) fillBy {
	return func(p *lra.Problem) (lra.Placement, error) { return p.Place(lra.AppOrder(p.Batch), chooser(p)) }
}

// subSchedulers are the baselines that can fill a sub-cluster.
var subSchedulers = map[string]lra.SubScheduler{
	"greedy":              byChooser(func(p *lra.Problem) lra.Chooser { return p.Greedy }),
	"round_robin":         byChooser((*lra.Problem).RoundRobin),
	"least_loaded":        byChooser(func(p *lra.Problem) lra.Chooser { return p.LeastLoaded }),
	"greedy_local_search": fillBy(func(p *lra.Problem) (lra.Placement, error) { return p.GreedyLocalSearch(context.Background()) }),
	"milp": fillBy(func(p *lra.Problem) (lra.Placement, error) {
		s, err := p.Solve(context.Background(), lra.SolveOptions{Nodes: world.BaselineNodes})
		if err != nil {
			return nil, err
		}
		return s.Placement, nil
	}),
}

// readSubScheduler reads a file of the published networks or of another known kind.
func readSubScheduler(path string) (lra.SubScheduler, error) {
	if read := lra.SubSchedulerFile(filepath.Ext(path)); read != nil {
		return read(path)
	}
	return nil, fmt.Errorf("%w: subscheduler is %q, want one of %v or an .npz file", envs.ErrInvalidOption, path, slices.Sorted(maps.Keys(subSchedulers)))
}
