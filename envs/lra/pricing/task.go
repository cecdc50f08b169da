package pricing

import (
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
	"github.com/kubernasium/kubernasium/envs/lra/prices"
	"github.com/kubernasium/kubernasium/envs/lra/world"
	"github.com/kubernasium/kubernasium/envs/space"
)

// Sizes of the spaces of k8s/LRAPricing-v0.
const (
	features     = lra.NumApps + 3
	onlinePeriod = 200 // containers placed at the same prices
)

// Task is the environment of k8s/LRAPricing-v0: an action is a price of a container of each application. A batch is
// placed node by node: the next node gets the remaining containers whose value less their prices is highest. An
// arriving container goes to the node that gains most in worth, which includes future containers at the prices. It
// implements [envs.Task].
type Task struct {
	src    *source
	ep     *world.Episode
	reward world.Reward

	scale prices.Scale
	pi    [lra.NumApps]float64
	worth *planner.Worth // online: of a node and its future containers; nil with a batch

	node   int              // batch: the next to fill
	first  [lra.NumApps]int // batch: the first unbound pod of each application
	rest   lra.Counts       // batch: unbound containers
	placed []cluster.Op
}

var (
	_ envs.Task       = (*Task)(nil)
	_ envs.InfoWriter = (*Task)(nil)
	_ envs.Limiter    = (*Task)(nil)
)

func newTask(src *source) *Task {
	t := &Task{src: src, ep: world.NewEpisode(src.Source)}
	if t.ep.Online() {
		t.worth = new(planner.Worth)
	}
	return t
}

// MaxEpisodeSteps implements [envs.Limiter].
func (t *Task) MaxEpisodeSteps() int {
	if !t.ep.Online() {
		return 0
	}
	return (t.src.Options.Containers + t.src.period - 1) / t.src.period
}

// Spaces implements [envs.Task].
func (t *Task) Spaces() (obs, act space.Space) {
	actions := lra.NumApps
	if t.ep.Online() {
		actions += prices.RateActions
	}
	return space.NewBox(0, 1, t.src.shape), space.NewBox(-prices.MaxAction, prices.MaxAction, actions)
}

// Info implements [envs.InfoWriter].
func (t *Task) Info(_ *cluster.State, dst []float64) { t.ep.Info(dst) }

// Bytes implements [envs.Sized].
func (t *Task) Bytes() envs.Bytes { return t.src.Bytes() }
