package planner

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/lra/interference"
)

// contention holds how much interference applications cause and tolerate, for each source; each application is a
// source.
type contention struct {
	tolerate, cause     [lra.NumApps][lra.NumApps]float64
	byCause, byTolerate [lra.NumApps][lra.NumApps]int // sources, most caused and least tolerated first
}

// sensitivity divides the interference of the constraints, as in the artefact.
const sensitivity = 3

// newContention derives the contention from the constraints with an upper limit.
func newContention(constraints []interference.Constraint) *contention {
	f := &contention{}
	for a := range lra.NumApps {
		for b := range lra.NumApps {
			f.tolerate[a][b] = 1
		}
	}
	for _, c := range constraints {
		if c.AtLeast {
			continue
		}
		part := float64(c.Threshold) / lra.MaxSlots
		f.tolerate[c.Subject][c.Other] = (part + sensitivity - 1) / sensitivity
		f.cause[c.Other][c.Subject] = (1 - part) / sensitivity
	}
	for a := range lra.NumApps {
		order := [lra.NumApps]int{0, 1, 2, 3, 4, 5, 6}
		f.byCause[a], f.byTolerate[a] = order, order
		slices.SortStableFunc(f.byCause[a][:], func(i, j int) int { return cmp.Compare(f.cause[a][i], f.cause[a][j]) })
		slices.Reverse(f.byCause[a][:]) // the last of equal ones first, as in the artefact
		slices.SortStableFunc(f.byTolerate[a][:], func(i, j int) int { return cmp.Compare(f.tolerate[a][i], f.tolerate[a][j]) })
	}
	return f
}

// node returns how much interference from a source the containers of a node together tolerate and cause.
func (f *contention) node(s lra.State, source int) (tolerate, cause float64) {
	tolerate = 1
	for a, k := range s.Counts() {
		if k > 0 {
			tolerate = min(tolerate, f.tolerate[a][source])
			cause += float64(k) * f.cause[a][source]
		}
	}
	return tolerate, cause
}

// ParagonAsCoded returns the chooser of the Metis artefact for Paragon, with its errors. For each pair of sources it
// keeps only nodes that tolerate what the application causes at the first source, and cause at most what it tolerates
// at the second. If no node remains, it takes the least loaded. Otherwise it takes, among all nodes and not only the
// remaining ones, the node that fits most tightly for the last pair, but not exactly. If there is none, it takes any
// node; a full one leads to another.
func (p *Problem) ParagonAsCoded(constraints []interference.Constraint, rng *rand.Rand) Chooser {
	f := newContention(constraints)
	seen, to := make(Placement, len(p.Class)), make([]int, len(p.Class))
	remains := make([]bool, len(p.Class))
	return func(x Placement, app int) int {
		for i := range remains {
			remains[i] = true
		}
		for k := range lra.NumApps {
			first, second := f.byCause[app][k], f.byTolerate[app][k]
			left := 0
			for i, s := range x {
				tolerate, _ := f.node(s, first)
				_, cause := f.node(s, second)
				remains[i] = remains[i] && tolerate >= f.cause[app][first] && f.tolerate[app][second] >= cause
				if remains[i] {
					left++
				}
			}
			if left == 0 {
				return p.leastContainers(x, app)
			}
		}
		first, second := f.byCause[app][lra.NumApps-1], f.byTolerate[app][lra.NumApps-1]
		best, node, equal := math.Inf(1), -1, 0
		for i, s := range x {
			tolerate, _ := f.node(s, first)
			_, cause := f.node(s, second)
			d1, d2 := tolerate-f.cause[app][first], f.tolerate[app][second]-cause
			d := math.Inf(1)
			if d1 > 0 && d2 > 0 && s.Total() < p.Slots(i) {
				d = d1 + d2
			}
			if d < best {
				best, equal = d, 0
			}
			if d == best {
				if equal++; rng.IntN(equal) == 0 {
					node = i
				}
			}
		}
		if !Remap(p, x, seen, to) {
			return -1
		}
		return to[node]
	}
}

// leastContainers returns the node with the fewest containers among those that permit app.
func (p *Problem) leastContainers(x Placement, app int) int {
	best := -1
	for i, s := range x {
		if p.Model(i).Next[s][app] != lra.NoState && (best < 0 || s.Total() < x[best].Total()) {
			best = i
		}
	}
	return best
}

// Paragon returns the chooser of Paragon as published. Source by source, the application's most critical one first, it
// keeps only nodes that tolerate what the application causes and cause no more than it tolerates. Of the remaining
// nodes it takes the one with the least to spare, in the sum over all sources. If a source would leave no node, it
// stops before that source and takes the node with the most to spare. It draws among equal nodes.
//
// Source: Delimitrou and Kozyrakis, "Paragon: QoS-Aware Scheduling for Heterogeneous Datacenters", ASPLOS'13, section
// 3.3. What applications cause and tolerate is derived from the constraints, as in the Metis artefact, in place of
// Paragon's measurements.
func (p *Problem) Paragon(constraints []interference.Constraint, rng *rand.Rand) Chooser {
	f := newContention(constraints)
	var nodes, fewer []int
	return func(x Placement, app int) int {
		nodes = nodes[:0]
		for i, s := range x {
			if p.Model(i).Next[s][app] != lra.NoState {
				nodes = append(nodes, i)
			}
		}
		spare := false
		for k := range lra.NumApps {
			source := f.byTolerate[app][k]
			fewer = fewer[:0]
			for _, i := range nodes {
				tolerate, cause := f.node(x[i], source)
				if tolerate >= f.cause[app][source] && f.tolerate[app][source] >= cause {
					fewer = append(fewer, i)
				}
			}
			if len(fewer) == 0 {
				spare = true
				break
			}
			nodes, fewer = fewer, nodes
		}
		best, node, equal := math.Inf(1), -1, 0
		for _, i := range nodes {
			d := 0.0
			for source := range lra.NumApps {
				tolerate, cause := f.node(x[i], source)
				d += tolerate - f.cause[app][source] + f.tolerate[app][source] - cause
			}
			if spare {
				d = -d
			}
			if d < best {
				best, equal = d, 0
			}
			if d == best {
				if equal++; rng.IntN(equal) == 0 {
					node = i
				}
			}
		}
		return node
	}
}
