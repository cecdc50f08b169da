package world

import (
	"context"
	"errors"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/files"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/throughput"
)

// Source holds the data that all tasks of one Open share. It is read-only.
type Source struct {
	Options     Options
	Constraints []interference.Constraint // from the table that planners see
	Kinds       []*Kind
	Class       []int // kind of each node
	Slots       int
	Scale       float64 // number of containers that divides objectives
	Bound       float32 // of the features of a node

	table   *lra.Table // table that planners see
	limits  []restricted
	batches []lra.Counts // of the file and the split; nil draws
}

// NewSource reads the files that opts name. Errors of an option wrap envs.ErrInvalidOption.
func NewSource(opts Options) (*Source, error) {
	s := &Source{Options: opts}
	err := opts.check()
	if err != nil {
		return nil, err
	}
	if s.limits, err = opts.restrictions(); err != nil {
		return nil, err
	}
	var kinds []planner.Class
	if kinds, s.Class, err = opts.classes(); err != nil {
		return nil, err
	}
	for _, k := range s.Class {
		s.Slots += kinds[k].Slots
	}
	if err := s.readBatches(); err != nil {
		return nil, err
	}
	score := (*lra.Table)(nil)
	if s.table, score, err = opts.tables(); err != nil {
		return nil, err
	}
	s.Constraints = interference.OfTable(s.table)
	s.Scale = float64(s.Options.Containers)
	if opts.Arrivals == ArrivalsOnline {
		s.Scale = opts.Load * float64(s.Slots)
	} else if s.batches != nil {
		s.Scale = float64(s.batches[0].Total())
	}
	for _, class := range kinds {
		k, err := s.newKind(class, score)
		if err != nil {
			return nil, err
		}
		s.Kinds = append(s.Kinds, k)
	}
	if opts.Reward == RewardGap {
		if err := s.setDues(); err != nil {
			return nil, err
		}
	}
	s.features()
	return s, nil
}

// setDues sets the value of the containers of each state, and of the share of the node, at the duals of the linear
// bound of the mean mix of containers. No state within that mix has a higher value than its dues. Others can have one if
// the mix has less than a node's slots of an application.
func (s *Source) setDues() error {
	p := &planner.Problem{Class: s.Class}
	for a := range p.Batch {
		p.Batch[a] = max(1, int(s.Scale/lra.NumApps))
	}
	for _, k := range s.Kinds {
		p.Models = append(p.Models, k.Score)
	}
	b, err := p.Bound(context.Background())
	if p.Check() != nil || errors.Is(err, planner.ErrInfeasible) {
		return invalid("reward gap needs nodes that hold the mean mix, %d containers of each application: %w", p.Batch[0], err)
	}
	if err != nil {
		return err
	}
	for i, k := range s.Kinds {
		for st := range lra.State(lra.NumStates) {
			k.dues[st] = b.Nodes[i]
			for a, n := range st.Counts() {
				k.dues[st] += b.Apps[a] * float64(n)
			}
		}
	}
	return nil
}

// tables returns the table that planners see and that of the rewards.
func (o *Options) tables() (plan, score *lra.Table, err error) {
	if o.Table == "" {
		plan = throughput.GenerateTable(uint64(o.TableSeed))
	} else if plan, err = files.ReadTableFile(o.Table); err != nil {
		return nil, nil, err
	}
	if o.ScoreTable == "" {
		return plan, plan, nil
	}
	score, err = files.ReadTableFile(o.ScoreTable)
	return plan, score, err
}
