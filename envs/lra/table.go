package lra

import (
	"fmt"
	"math"
)

// A Table is the simulator: the throughput of each container of a node in each [State]. Nodes do not affect one
// another, so nothing else matters. A Table in use is read-only.
type Table struct {
	// RPS holds the throughput of one container of each application, as a multiple of its throughput alone on a node; 0
	// if the state has none.
	RPS [NumStates][NumApps]float64
	// Total holds the throughput of all containers of a node.
	Total [NumStates]float64
}

// NewTable returns the table with the throughputs that rps returns; it calls rps only for applications that the state
// has. A negative or non-finite throughput is an error.
func NewTable(rps func(s State, app int) float64) (*Table, error) {
	t := &Table{}
	for s := range State(NumStates) {
		for a, k := range s.Counts() {
			if k == 0 {
				continue
			}
			v := rps(s, a)
			if !(v >= 0) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("lra: the throughput of %s in state %v is %v, want a number that is not negative", Apps[a], s.Counts(), v)
			}
			t.RPS[s][a] = v
			t.Total[s] += float64(k) * v
		}
	}
	return t, nil
}

// Gain returns how much one more container of app adds to the throughput of a node in state s, which must not be full.
func (t *Table) Gain(s State, app int) float64 { return t.Total[s.Add(app)] - t.Total[s] }

// SLO returns how many containers of state s achieve at least threshold.
func (t *Table) SLO(s State, threshold float64) int {
	n := 0
	for a, k := range s.Counts() {
		if k > 0 && t.RPS[s][a] >= threshold {
			n += k
		}
	}
	return n
}
