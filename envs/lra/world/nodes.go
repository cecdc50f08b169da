package world

import (
	"errors"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/planner"
)

// kind returns the kind of node i.
func (e *Episode) kind(i int) *Kind { return e.src.Kinds[e.src.Class[i]] }

// Slots returns the number of slots of node i.
func (e *Episode) Slots(i int) int { return e.kind(i).Plan.Class.Slots }

// Permits reports whether node i permits a container of app now.
func (e *Episode) Permits(i, app int) bool {
	return e.kind(i).Plan.Next[e.x[i]][app] != lra.NoState && (e.forbid[i] == 0 || e.meant(i, app) || e.Violations < e.budget)
}

// FirstOpen returns the first node in [first, end) that permits the container to place, or first if none does.
func (e *Episode) FirstOpen(first, end int) int {
	for i := first; i < end; i++ {
		if e.Permits(i, e.App()) {
			return i
		}
	}
	return first
}

// Choose returns the node that a chooser takes for the container to place, or the first permitted one if the chooser finds none.
func (e *Episode) Choose(c planner.Chooser) int {
	app := e.App()
	if node := c(e.x, app); node >= 0 && e.Permits(node, app) {
		return node
	}
	return e.FirstOpen(0, len(e.x))
}

// meant reports whether node i is meant for app.
func (e *Episode) meant(i, app int) bool {
	for k, l := range e.src.limits {
		if l.app == app {
			return e.forbid[i]>>k&1 == 0
		}
	}
	return true
}

// refresh updates gains and mask for the container to place.
func (e *Episode) refresh() {
	app := e.App()
	e.open = 0
	limited := len(e.src.limits) > 0
	for i, s := range e.x {
		k := e.kind(i)
		e.rows[i*NodeFeatures+GainFeature] = k.gains[app][s]
		ok := k.open[app][s]
		if limited && ok {
			ok = e.Permits(i, app)
		}
		e.mask[i] = ok
		if ok {
			e.open++
		}
	}
}

// set changes the state of a node.
func (e *Episode) set(node int, to lra.State) {
	k, app := e.kind(node), e.App()
	e.Move(k, e.x[node], to)
	e.x[node] = to
	copy(e.rows[node*NodeFeatures:], k.Row(app, to))
	was := e.mask[node]
	e.mask[node] = app != NoApp && e.Permits(node, app)
	switch {
	case was && !e.mask[node]:
		e.open--
	case !was && e.mask[node]:
		e.open++
	}
}

// Empty returns the nodes of the episode as a planner's problem without a batch. Planners keep restrictions without
// exception.
func (e *Episode) Empty() *planner.Problem {
	p := &planner.Problem{}
	first := make([]int, len(e.src.Kinds))
	for k, kind := range e.src.Kinds {
		first[k] = len(p.Models)
		p.Models = append(p.Models, kind.Forbidding...)
	}
	for i, k := range e.src.Class {
		p.Class = append(p.Class, first[k]+int(e.forbid[i]))
	}
	return p
}

// Problem returns the batch of the running episode on empty nodes. It returns [ErrNoBatch] with
// online arrivals.
func (e *Episode) Problem() (*planner.Problem, error) {
	if e.Online() {
		return nil, ErrNoBatch
	}
	p := e.Empty()
	for _, a := range e.queue {
		p.Batch[a]++
	}
	return p, nil
}

// ErrNoBatch is returned by [Episode.Problem].
var ErrNoBatch = errors.New("lra: containers that come and go are no batch to plan")
