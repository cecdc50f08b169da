package vpa

import (
	"slices"

	"github.com/kubernasium/kubernasium/envs/cluster"
)

// metrics holds the observed usage: for each step, the largest of all pods.
type metrics struct {
	seen      []cluster.Resources // the history, then each step's
	hour, day [2]window           // CPU and memory of the last hour, of the last day
}

func newMetrics(interval float64) (m metrics) {
	hour, day := max(1, int(3600/interval)), max(1, int(24*3600/interval))
	for r := range m.hour {
		m.hour[r], m.day[r] = newWindow(hour), newWindow(day)
	}
	return m
}

func (m *metrics) reset() {
	m.seen = m.seen[:0]
	for r := range m.hour {
		m.hour[r].reset()
		m.day[r].reset()
	}
}

// observe adds a step's usage.
func (m *metrics) observe(u cluster.Resources) {
	m.seen = append(m.seen, u)
	cpu, mem := float64(u.MilliCPU), float64(u.MemoryBytes)
	m.hour[0].push(cpu)
	m.hour[1].push(mem)
	m.day[0].push(cpu)
	m.day[1].push(mem)
}

// last returns the usage observed last.
func (m *metrics) last() cluster.Resources { return m.seen[len(m.seen)-1] }

func (m *metrics) clone() metrics {
	c := *m
	c.seen = slices.Clone(m.seen)
	for r := range m.hour {
		c.hour[r], c.day[r] = m.hour[r].clone(), m.day[r].clone()
	}
	return c
}

// window tracks the mean and the largest of the last n numbers pushed.
type window struct {
	ring  []float64 // the last n numbers
	next  int       // where the next goes
	count int       // numbers in ring
	sum   float64

	// peaks holds the positions, in pushes, of the numbers that are larger than all later ones, in
	// a ring of their own that begins at first. The first one is the largest number.
	peaks       []int
	first, held int
	pushes      int
}

func newWindow(n int) window { return window{ring: make([]float64, n), peaks: make([]int, n)} }

func (w *window) reset() {
	w.next, w.count, w.sum, w.first, w.held, w.pushes = 0, 0, 0, 0, 0, 0
}

func (w *window) push(v float64) {
	n := len(w.ring)
	if w.count == n {
		w.sum -= w.ring[w.next]
		if w.peaks[w.first] == w.pushes-n {
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
		if w.ring[w.peaks[at]%n] > v {
			break
		}
		w.held--
	}
	at := w.first + w.held
	if at >= n {
		at -= n
	}
	w.peaks[at] = w.pushes
	w.held++
	w.pushes++
	if w.next++; w.next == n {
		w.next = 0
	}
}

// max returns the largest number, or 0 if there is none.
func (w *window) max() float64 {
	if w.held == 0 {
		return 0
	}
	return w.ring[w.peaks[w.first]%len(w.ring)]
}

// last returns the number pushed last, or 0 if there is none.
func (w *window) last() float64 {
	if w.count == 0 {
		return 0
	}
	return w.ring[(w.next+len(w.ring)-1)%len(w.ring)]
}

// mean returns the mean, or 0 if there is none.
func (w *window) mean() float64 {
	if w.count == 0 {
		return 0
	}
	return max(w.sum, 0) / float64(w.count)
}

func (w *window) clone() window {
	c := *w
	c.ring, c.peaks = slices.Clone(w.ring), slices.Clone(w.peaks)
	return c
}

func scaled(u cluster.Resources, f float64) cluster.Resources {
	if f == 1 {
		return u
	}
	return cluster.Resources{MilliCPU: int64(float64(u.MilliCPU) * f), MemoryBytes: int64(float64(u.MemoryBytes) * f)}
}
