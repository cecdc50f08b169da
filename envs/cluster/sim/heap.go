package sim

import "time"

// event is the completion of a pod.
type event struct {
	at  time.Duration
	pod int32
}

func (e event) before(f event) bool { return e.at < f.at || e.at == f.at && e.pod < f.pod }

// heap is a binary heap with the first event at index 0. container/heap would box each event.
type heap []event

func (h *heap) push(e event) {
	*h = append(*h, e)
	a := *h
	i := len(a) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(a[parent]) {
			break
		}
		a[i] = a[parent]
		i = parent
	}
	a[i] = e
}

// pop removes and returns the first event; h must not be empty.
func (h *heap) pop() event {
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
		if child+1 < len(a) && a[child+1].before(a[child]) {
			child++
		}
		if !a[child].before(last) {
			break
		}
		a[i] = a[child]
		i = child
	}
	a[i] = last
	return first
}
