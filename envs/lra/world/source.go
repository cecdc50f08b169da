package world

import (
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// source is what all tasks of one Open share. It is read-only.
type source struct {
	opts        Options
	table       *lra.Table       // that planners know
	constraints []lra.Constraint // derived from it
	kinds       []*nodeKind
	class       []int // kind of each node
	limits      []restricted
	batches     []lra.Counts // of the file, those of the split; nil draws
	budget      int          // containers that may violate restrictions
	slots       int
	scale       float64 // containers by which objectives are divided
	bound       float32 // of the features of a node
}

// nodeKind is a class of nodes as the task needs it.
type nodeKind struct {
	plan       *lra.Model   // by the table that planners know
	forbidding []*lra.Model // plan for each set of forbidden applications, by bits in the order of restrict
	score      *lra.Model   // by the table that rewards are by
	throughput [lra.NumStates]float64
	satisfied  [lra.NumStates]int
	dues       [lra.NumStates]float64 // reward gap: subtracted from the objective of the score table; 0 otherwise
	gains      [lra.NumApps + 1][lra.NumStates]float32
	open       [lra.NumApps + 1][lra.NumStates]bool // for a container of the application, restrictions aside
	rows       []float32                            // features of a node: (NumApps+1, NumStates, nodeFeatures); the last application is none
}

// newSource reads what opts name. Its errors wrap envs.ErrInvalidOption where an option is to
// blame.
func newSource(opts Options) (*source, error) {
	s := &source{opts: opts}
	err := opts.check()
	if err != nil {
		return nil, err
	}
	if s.limits, err = opts.restrictions(); err != nil {
		return nil, err
	}
	var kinds []lra.Class
	if kinds, s.class, err = opts.classes(); err != nil {
		return nil, err
	}
	for _, k := range s.class {
		s.slots += kinds[k].Slots
	}
	if err := s.readBatches(); err != nil {
		return nil, err
	}
	s.budget = int(s.opts.SoftViolations * float64(s.opts.Containers))
	score := (*lra.Table)(nil)
	if s.table, score, err = opts.tables(); err != nil {
		return nil, err
	}
	s.constraints = s.table.Constraints()
	s.scale = float64(s.opts.Containers)
	if opts.Arrivals == ArrivalsOnline {
		s.scale = opts.Load * float64(s.slots)
	} else if s.batches != nil {
		s.scale = float64(s.batches[0].Total())
	}
	for _, class := range kinds {
		k, err := s.newKind(class, score)
		if err != nil {
			return nil, err
		}
		s.kinds = append(s.kinds, k)
	}
	if opts.Reward == RewardGap {
		if err := s.setDues(); err != nil {
			return nil, err
		}
	}
	s.features()
	return s, nil
}

// setDues sets what the containers of each state are worth at the duals of the linear bound of
// the containers that run on average, with the share of the node. No state is worth more than
// its dues.
func (s *source) setDues() error {
	p := &lra.Problem{Class: s.class}
	for a := range p.Batch {
		p.Batch[a] = max(1, int(s.scale/lra.NumApps))
	}
	for _, k := range s.kinds {
		p.Models = append(p.Models, k.score)
	}
	b, err := p.Bound()
	if err != nil {
		return err
	}
	for i, k := range s.kinds {
		for st := range lra.State(lra.NumStates) {
			k.dues[st] = b.Nodes[i]
			for a, n := range st.Counts() {
				k.dues[st] += b.Apps[a] * float64(n)
			}
		}
	}
	return nil
}

// tables returns the tables that planners know and that rewards are by.
func (o *Options) tables() (plan, score *lra.Table, err error) {
	if o.Table == "" {
		plan = lra.GenerateTable(uint64(o.TableSeed))
	} else if plan, err = lra.ReadTableFile(o.Table); err != nil {
		return nil, nil, err
	}
	if o.ScoreTable == "" {
		return plan, plan, nil
	}
	score, err = lra.ReadTableFile(o.ScoreTable)
	return plan, score, err
}

// publishedBatches is the number of first rows of a file that the published comparisons use.
const publishedBatches = 30

func (s *source) readBatches() error {
	o := &s.opts
	if o.Batches == "" {
		if o.Arrivals == ArrivalsBatch && o.Containers > s.slots {
			return invalid("containers is %d, want at most %d, the slots of the nodes", o.Containers, s.slots)
		}
		return nil
	}
	all, err := lra.ReadBatchesFile(o.Batches)
	if err != nil {
		return err
	}
	switch {
	case o.Batch >= len(all):
		return invalid("batch is %d, want less than %d, the rows of %s", o.Batch, len(all), o.Batches)
	case o.Batch >= 0:
		all = all[o.Batch : o.Batch+1]
	case o.Split == SplitHeldOut:
		all = all[:min(publishedBatches, len(all))]
	case len(all) <= publishedBatches:
		return invalid("%s has %d batches, none beside the %d of the heldout split", o.Batches, len(all), publishedBatches)
	default:
		all = all[publishedBatches:]
	}
	total := all[0].Total()
	for i, b := range all {
		n := b.Total()
		if n > s.slots {
			return invalid("batch %d of %s has %d containers, want at most %d, the slots of the nodes", i, o.Batches, n, s.slots)
		}
		if n != total && o.Objective == lra.ObjectiveVacant {
			return invalid("objective vacant needs batches of one size, %s has %d and %d", o.Batches, total, n)
		}
	}
	s.batches, o.Containers = all, total
	return nil
}

func (s *source) newKind(class lra.Class, score *lra.Table) (*nodeKind, error) {
	objective := lra.Objective{Kind: s.opts.Objective, Threshold: s.opts.SLOThreshold}
	if objective.Kind == lra.ObjectiveVacant {
		objective.NodeCost = s.opts.Beta * s.scale / float64(s.opts.Nodes)
	}
	k := &nodeKind{}
	var err error
	for forbidden := range 1 << len(s.limits) {
		c := class
		for i, l := range s.limits {
			c.Forbidden[l.app] = forbidden>>i&1 == 1
		}
		m, err := lra.NewModel(s.table, c, objective)
		if err != nil {
			return nil, err
		}
		k.forbidding = append(k.forbidding, m)
	}
	k.plan = k.forbidding[0]
	if k.score, err = lra.NewModel(score, class, objective); err != nil {
		return nil, err
	}
	for st := range lra.State(lra.NumStates) {
		k.throughput[st] = class.Speed * score.Total[st]
		k.satisfied[st] = score.SLO(st, s.opts.SLOThreshold/class.Speed)
	}
	return k, nil
}

// splitStream keeps the episodes of the held-out split apart from those of the training split
// even for equal seeds. Its value is arbitrary.
const splitStream = 0x9e3779b97f4a7c15

// reseed makes own the stream of an episode of the split.
func (s *source) reseed(own *pcg.Source, rng *rand.Rand) {
	seed := rng.Uint64()
	if s.opts.Split == SplitHeldOut {
		seed ^= splitStream
	}
	own.Seed(seed)
}

// drawBatch appends the applications of a batch's containers in the order of placement.
func (s *source) drawBatch(rng *rand.Rand, queue []uint8) []uint8 {
	if s.batches == nil {
		var count lra.Counts
		n := s.opts.Containers
		if low := s.opts.MinContainers; low > 0 {
			n = low + rng.IntN(n-low+1)
		}
		for range n {
			a := rng.IntN(lra.NumApps)
			count[a]++
			queue = append(queue, uint8(a))
		}
		if s.opts.Order == OrderApps {
			queue = appendApps(queue[:0], count)
		}
		return queue
	}
	queue = appendApps(queue, s.batches[rng.IntN(len(s.batches))])
	if s.opts.Order == OrderShuffled {
		for i := len(queue) - 1; i > 0; i-- {
			j := rng.IntN(i + 1)
			queue[i], queue[j] = queue[j], queue[i]
		}
	}
	return queue
}

func appendApps(queue []uint8, batch lra.Counts) []uint8 {
	for a, k := range batch {
		for range k {
			queue = append(queue, uint8(a))
		}
	}
	return queue
}
