// Package metrics holds the observed usage of pods, with its peaks, means and quantiles over time.
package metrics

import (
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// Usage holds the observed usage: for each step, the largest of all pods.
type Usage struct {
	Seen      []cluster.Resources // the history, then each step's
	Hour, Day [2]Window           // CPU and memory of the last hour, of the last day
}

// NewUsage returns a Usage with steps of interval seconds.
func NewUsage(interval float64) (m Usage) {
	hour, day := max(1, int(3600/interval)), max(1, int(24*3600/interval))
	for r := range m.Hour {
		m.Hour[r], m.Day[r] = NewWindow(hour), NewWindow(day)
	}
	return m
}

// Reset removes the samples.
func (m *Usage) Reset() {
	m.Seen = m.Seen[:0]
	for r := range m.Hour {
		m.Hour[r].Reset()
		m.Day[r].Reset()
	}
}

// Observe adds a step's usage.
func (m *Usage) Observe(u cluster.Resources) {
	m.Seen = append(m.Seen, u)
	cpu, mem := float64(u.MilliCPU), float64(u.MemoryBytes)
	m.Hour[0].Push(cpu)
	m.Hour[1].Push(mem)
	m.Day[0].Push(cpu)
	m.Day[1].Push(mem)
}

// Last returns the last observed usage.
func (m *Usage) Last() cluster.Resources { return m.Seen[len(m.Seen)-1] }

// Clone returns a deep copy.
func (m *Usage) Clone() Usage {
	c := *m
	c.Seen = slices.Clone(m.Seen)
	for r := range m.Hour {
		c.Hour[r], c.Day[r] = m.Hour[r].Clone(), m.Day[r].Clone()
	}
	return c
}

// Bytes returns the size of the windows.
func (m *Usage) Bytes() int64 {
	n := 0
	for r := range m.Hour {
		n += len(m.Hour[r].ring) + len(m.Day[r].ring)
	}
	return 12 * int64(n) // a number and a position
}

// Window tracks the mean and the largest of the last n numbers pushed.
type Window struct {
	ring  []float64 // the last n numbers
	next  int       // position of the next number
	count int       // numbers in ring
	sum   float64

	// peaks holds the positions in ring of the numbers that are larger than all later ones, in a
	// ring of their own that begins at first. The first one is the largest number.
	peaks       []int32
	first, held int
}

// NewWindow returns a window of n numbers.
func NewWindow(n int) Window { return Window{ring: make([]float64, n), peaks: make([]int32, n)} }

// Reset removes the numbers.
func (w *Window) Reset() {
	w.next, w.count, w.sum, w.first, w.held = 0, 0, 0, 0, 0
}

// Push adds a number.
func (w *Window) Push(v float64) {
	n := len(w.ring)
	if w.count == n {
		w.sum -= w.ring[w.next]
		if int(w.peaks[w.first]) == w.next {
			if w.first++; w.first == n {
				w.first = 0
			}
			w.held--
		}
	} else {
		w.count++
	}
	w.ring[w.next] = v
	w.sum += v
	for w.held > 0 {
		at := w.first + w.held - 1
		if at >= n {
			at -= n
		}
		if w.ring[w.peaks[at]] > v {
			break
		}
		w.held--
	}
	at := w.first + w.held
	if at >= n {
		at -= n
	}
	w.peaks[at] = int32(w.next)
	w.held++
	if w.next++; w.next == n {
		w.next = 0
	}
}

// Max returns the largest number, or 0 if there is none.
func (w *Window) Max() float64 {
	if w.held == 0 {
		return 0
	}
	return w.ring[w.peaks[w.first]]
}

// Last returns the last number, or 0 if there is none.
func (w *Window) Last() float64 {
	if w.count == 0 {
		return 0
	}
	return w.ring[(w.next+len(w.ring)-1)%len(w.ring)]
}

// Mean returns the mean, or 0 if there is none.
func (w *Window) Mean() float64 {
	if w.count == 0 {
		return 0
	}
	return max(w.sum, 0) / float64(w.count)
}

// Clone returns a deep copy.
func (w *Window) Clone() Window {
	c := *w
	c.ring, c.peaks = slices.Clone(w.ring), slices.Clone(w.peaks)
	return c
}
