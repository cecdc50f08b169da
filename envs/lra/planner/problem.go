// Package planner places batches of containers on nodes: by round-robin, greedily, by local search, like Medea and
// Paragon, and by the integer program, whose linear relaxation bounds all of them.
package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// Class is a kind of node.
type Class struct {
	Slots     int               // its capacity in containers, 1 to MaxSlots
	Speed     float64           // factor on the throughput of every container; 1 is the profiled node
	Spread    int               // most containers of one application; 0 is no limit
	Forbidden [lra.NumApps]bool // applications that may not be placed on it
}

// StandardClass is the node that was profiled.
var StandardClass = Class{Slots: lra.MaxSlots, Speed: 1}

// Values of [Objective.Kind].
const (
	ObjectiveThroughput = "throughput" // throughput of all containers
	ObjectiveSLO        = "slo"        // containers whose throughput is at least Threshold
	ObjectiveVacant     = "vacant"     // throughput, less NodeCost for each node in use
)

// Objective defines the value of a node. Planners maximise its sum over the nodes of a cluster.
type Objective struct {
	Kind      string  // empty is ObjectiveThroughput
	Threshold float64 // of slo, as a multiple of the throughput alone on a node
	NodeCost  float64 // of vacant
}

// A Model gives the value of a node of a class in each state.
type Model struct {
	Class Class
	Value [lra.NumStates]float64
	Next  [lra.NumStates][lra.NumApps]lra.State // as State.Add; NoState also if the class does not permit the addition
}

// NewModel returns the model of nodes of class c by table t.
func NewModel(t *lra.Table, c Class, o Objective) (*Model, error) {
	if c.Slots < 1 || c.Slots > lra.MaxSlots {
		return nil, fmt.Errorf("lra: a node with %d slots, want 1 to %d", c.Slots, lra.MaxSlots)
	}
	if !(c.Speed > 0) || math.IsInf(c.Speed, 0) {
		return nil, fmt.Errorf("lra: a node with speed %v, want a positive number", c.Speed)
	}
	m := &Model{Class: c}
	for s := range lra.State(lra.NumStates) {
		switch o.Kind {
		case "", ObjectiveThroughput:
			m.Value[s] = c.Speed * t.Total[s]
		case ObjectiveSLO:
			m.Value[s] = float64(t.SLO(s, o.Threshold/c.Speed))
		case ObjectiveVacant:
			m.Value[s] = c.Speed * t.Total[s]
			if s != 0 {
				m.Value[s] -= o.NodeCost
			}
		default:
			return nil, fmt.Errorf("lra: objective %q, want %s, %s or %s", o.Kind, ObjectiveThroughput, ObjectiveSLO, ObjectiveVacant)
		}
		for a := range lra.NumApps {
			m.Next[s][a] = lra.NoState
			if next := s.Add(a); next != lra.NoState && m.Permits(next) {
				m.Next[s][a] = next
			}
		}
	}
	return m, nil
}

// Permits reports whether a node of the class may be in state s. Then it may also be in each state with fewer
// containers.
func (m *Model) Permits(s lra.State) bool {
	if s.Total() > m.Class.Slots {
		return false
	}
	for a, k := range s.Counts() {
		if k > 0 && m.Class.Forbidden[a] || m.Class.Spread > 0 && k > m.Class.Spread {
			return false
		}
	}
	return true
}

// A Problem is a batch of containers to place on empty nodes.
type Problem struct {
	Models []*Model // of each class
	Class  []int    // of each node
	Batch  lra.Counts
}

// NewProblem returns the problem of placing batch on equal nodes by table t.
func NewProblem(t *lra.Table, nodes int, batch lra.Counts) (*Problem, error) {
	if nodes < 1 {
		return nil, fmt.Errorf("lra: %d nodes, want at least 1", nodes)
	}
	m, err := NewModel(t, StandardClass, Objective{})
	if err != nil {
		return nil, err
	}
	p := &Problem{Models: []*Model{m}, Class: make([]int, nodes), Batch: batch}
	return p, p.Check()
}

// Check returns an error if the batch exceeds the nodes. Only solvers find out whether each container has a node that
// permits it.
func (p *Problem) Check() error {
	slots := 0
	for _, c := range p.Class {
		slots += p.Models[c].Class.Slots
	}
	for a, k := range p.Batch {
		if k < 0 {
			return fmt.Errorf("lra: %d containers of %s, want at least 0", k, lra.Apps[a])
		}
	}
	if n := p.Batch.Total(); n < 1 || n > slots {
		return fmt.Errorf("lra: %d containers for %d nodes, want 1 to their %d slots", n, len(p.Class), slots)
	}
	return nil
}

// Model returns the model of node i.
func (p *Problem) Model(i int) *Model { return p.Models[p.Class[i]] }

// Slots returns the number of slots of node i.
func (p *Problem) Slots(i int) int { return p.Model(i).Class.Slots }

// A Placement is the state of each node.
type Placement []lra.State

// Value returns the objective of a placement.
func (p *Problem) Value(x Placement) float64 {
	v := 0.0
	for i, s := range x {
		v += p.Model(i).Value[s]
	}
	return v
}

// Average returns the objective of a placement for each container of the batch.
func (p *Problem) Average(x Placement) float64 { return p.Value(x) / float64(p.Batch.Total()) }

// Batch returns the containers of a placement.
func (x Placement) Batch() lra.Counts {
	var b lra.Counts
	for _, s := range x {
		for a, k := range s.Counts() {
			b[a] += k
		}
	}
	return b
}

// AppOrder returns the applications of the containers of batch, one application after the other: the order in which the
// earlier project places.
func AppOrder(batch lra.Counts) []int {
	order := make([]int, 0, batch.Total())
	for a, k := range batch {
		order = append(order, slices.Repeat([]int{a}, k)...)
	}
	return order
}

// RoundsOrder returns the applications of the containers of batch in rounds, one of each remaining application in each.
// In full clusters greedy does better in this order than in [AppOrder], since nodes find partners for their containers.
func RoundsOrder(batch lra.Counts) []int {
	order := make([]int, 0, batch.Total())
	for batch.Total() > 0 {
		for a := range batch {
			if batch[a] > 0 {
				order = append(order, a)
				batch[a]--
			}
		}
	}
	return order
}
