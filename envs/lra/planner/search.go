package planner

import (
	"context"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// LocalSearch improves x by moving a container to another node or swapping two containers of different nodes, each time
// by the step that gains most, until none raises the value. Nodes of one class in one state are alike: LocalSearch
// compares kinds of nodes and changes the first node of a kind. It ends early when ctx does, and returns the number of
// steps.
func (p *Problem) LocalSearch(ctx context.Context, x Placement) int {
	const epsilon = 1e-9 // smaller gains are rounding errors
	for steps := 0; ; steps++ {
		kinds := p.kinds(x)
		best := exchange{gain: epsilon}
		for i, from := range kinds {
			if ctx.Err() != nil {
				return steps
			}
			for j, to := range kinds {
				if i != j || from.second >= 0 {
					p.bestExchange(x, from.first, to.at(i == j), &best)
				}
			}
		}
		if best.gain <= epsilon {
			return steps
		}
		x[best.from], x[best.to] = best.fromState, best.toState
	}
}

// kind is a class of nodes in one state, with its first two nodes; second is -1 if there is only one.
type kind struct{ first, second int }

func (k kind) at(second bool) int {
	if second {
		return k.second
	}
	return k.first
}

// kinds returns the kinds of nodes in x in the order of their first nodes.
func (p *Problem) kinds(x Placement) []kind {
	type key struct {
		class int
		state lra.State
	}
	index := make(map[key]int, len(x))
	var all []kind
	for i, s := range x {
		k := key{p.Class[i], s}
		if at, ok := index[k]; !ok {
			index[k] = len(all)
			all = append(all, kind{i, -1})
		} else if all[at].second < 0 {
			all[at].second = i
		}
	}
	return all
}

type exchange struct {
	gain               float64
	from, to           int
	fromState, toState lra.State
}

// bestExchange replaces best if moving a container from one node to the other, or swapping two of them, gains more.
func (p *Problem) bestExchange(x Placement, from, to int, best *exchange) {
	mf, mt, sf, st := p.Model(from), p.Model(to), x[from], x[to]
	base := mf.Value[sf] + mt.Value[st]
	consider := func(f, t lra.State) {
		if gain := mf.Value[f] + mt.Value[t] - base; gain > best.gain {
			*best = exchange{gain, from, to, f, t}
		}
	}
	for a := range lra.NumApps {
		less := sf.Remove(a)
		if less == lra.NoState {
			continue
		}
		if t := mt.Next[st][a]; t != lra.NoState {
			consider(less, t)
		}
		for b := range lra.NumApps {
			if a == b {
				continue
			}
			room := st.Remove(b)
			if room == lra.NoState {
				continue
			}
			f, t := mf.Next[less][b], mt.Next[room][a]
			if f != lra.NoState && t != lra.NoState {
				consider(f, t)
			}
		}
	}
}
