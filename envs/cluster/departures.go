package cluster

import "time"

// Departure is the end of a running pod.
type Departure struct {
	At        time.Duration
	Pod, Node int32
	Devices   uint64 // that the pod has; see Pod.Devices
}

func (d *Departure) before(e *Departure) bool { return d.At < e.At || d.At == e.At && d.Pod < e.Pod }

// Departures is a binary heap with the first departure, by time, then by pod, at index 0.
// container/heap would box each departure.
type Departures []Departure

// Push adds a departure.
func (h *Departures) Push(d Departure) {
	*h = append(*h, d)
	a := *h
	i := len(a) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !d.before(&a[parent]) {
			break
		}
		a[i] = a[parent]
		i = parent
	}
	a[i] = d
}

// Pop removes and returns the first departure; h must not be empty.
func (h *Departures) Pop() Departure {
	a := *h
	first, last := a[0], a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	if len(a) == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(a) {
			break
		}
		if child+1 < len(a) && a[child+1].before(&a[child]) {
			child++
		}
		if !a[child].before(&last) {
			break
		}
		a[i] = a[child]
		i = child
	}
	a[i] = last
	return first
}
