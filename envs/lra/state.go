package lra

import "fmt"

// Sizes of the problem.
const (
	NumApps   = 7    // applications
	MaxSlots  = 8    // capacity of a node in containers
	NumStates = 6435 // multisets of at most MaxSlots containers of NumApps applications: C(15, 7)
)

// Apps are the names of the applications in the order of every count: an in-memory store, a model server that reads
// from it, checksums, a key-value store under two loads, scene detection in videos, and image super-resolution, which
// also reads from the store.
var Apps = [NumApps]string{"redis", "mms", "ckm", "ycsba", "ycsbb", "scd", "isr"}

// Store is the application that others read from.
const Store = 0

// Counts holds a number of containers of each application.
type Counts [NumApps]int

// Total returns the number of containers.
func (c Counts) Total() int {
	n := 0
	for _, k := range c {
		n += k
	}
	return n
}

// A State numbers the multisets of at most [MaxSlots] containers, one of which describes a node:
// 0 is the empty node. States are in the order of their total, then
// of their counts.
type State int16

// NoState is returned by [State.Add] and [State.Remove] if there is no such state.
const NoState State = -1

var (
	stateCounts [NumStates]Counts
	stateTotal  [NumStates]int8
	stateNext   [NumStates][NumApps]State
	statePrev   [NumStates][NumApps]State
	stateOf     map[Counts]State
)

func init() {
	stateOf = make(map[Counts]State, NumStates)
	for total := range MaxSlots + 1 {
		enumerate(Counts{}, 0, total)
	}
	for s := range State(NumStates) {
		for a := range NumApps {
			stateNext[s][a], statePrev[s][a] = NoState, NoState
			c := stateCounts[s]
			c[a]++
			if next, ok := stateOf[c]; ok {
				stateNext[s][a] = next
			}
			c[a] -= 2
			if prev, ok := stateOf[c]; ok {
				statePrev[s][a] = prev
			}
		}
	}
}

// enumerate adds all states with the counts of c before app and left containers from app on.
func enumerate(c Counts, app, left int) {
	if app == NumApps-1 {
		c[app] = left
		s := State(len(stateOf))
		stateCounts[s], stateTotal[s], stateOf[c] = c, int8(c.Total()), s
		return
	}
	for k := range left + 1 {
		c[app] = k
		enumerate(c, app+1, left-k)
	}
}

// StateOf returns the state of a node with c containers, or an error if there is none.
func StateOf(c Counts) (State, error) {
	s, ok := stateOf[c]
	if !ok {
		return NoState, fmt.Errorf("lra: counts %v are no state, want each at least 0 and at most %d in total", c, MaxSlots)
	}
	return s, nil
}

// Counts returns the containers of each application.
func (s State) Counts() Counts { return stateCounts[s] }

// Count returns the containers of app.
func (s State) Count(app int) int { return stateCounts[s][app] }

// Total returns the number of containers.
func (s State) Total() int { return int(stateTotal[s]) }

// Add returns the state with one more container of app, or [NoState] if s is full.
func (s State) Add(app int) State { return stateNext[s][app] }

// Remove returns the state without one container of app, or [NoState] if s has none.
func (s State) Remove(app int) State { return statePrev[s][app] }
