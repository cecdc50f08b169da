package planner

import (
	"math"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// MeanValues returns for each application how much a container of it adds to the value of a node, averaged over the
// states that have one.
func MeanValues(m *Model) (mean [lra.NumApps]float64) {
	for a := range lra.NumApps {
		n := 0
		for s := range lra.State(lra.NumStates) {
			if less := s.Remove(a); less != lra.NoState && m.Permits(s) {
				mean[a] += m.Value[s] - m.Value[less]
				n++
			}
		}
		mean[a] /= float64(n)
	}
	return mean
}

// BestFill returns the state with the highest value less the prices of its containers, among those with at least low
// containers and within rest.
func (m *Model) BestFill(rest lra.Counts, pi *[lra.NumApps]float64, low int) lra.State {
	best, bestWorth := lra.NoState, math.Inf(-1)
	for s := range lra.State(lra.NumStates) {
		if s.Total() < low {
			continue
		}
		worth, ok := m.Value[s], true
		for a, k := range s.Counts() {
			if k > rest[a] {
				ok = false
				break
			}
			worth -= pi[a] * float64(k)
		}
		if ok && worth > bestWorth {
			best, bestWorth = s, worth
		}
	}
	return best
}

// Worth is the expected discounted value of a node in each state, with its future containers.
type Worth [lra.NumStates]float64

// Offers describes the containers that are offered to a node. Time is in mean lifetimes of a container.
type Offers struct {
	Prices   [lra.NumApps]float64 // of a container, while it runs
	Rate     float64              // at which the node is offered a container of each application
	Discount float64              // discount rate of the future
}

// WorthTolerance is the change of a worth below which [Worth.Improve] stops.
const WorthTolerance = 1e-3

// Start sets the initial worth: the value of a state, paid for one lifetime.
func (w *Worth) Start(m *Model, discount float64) {
	for s := range w {
		w[s] = m.Value[s] / (1 + discount)
	}
}

// Improve improves w by the given number of sweeps over the states. The node sells the throughput of its containers and
// pays their prices. It is offered a container of each application at a rate, and loses each of its containers at rate
// 1.
//
// Source: with the arrivals priced, the nodes become independent decision problems: Whittle, "Restless bandits:
// activity allocation in a changing world", Journal of Applied Probability 25A, 1988.
func (w *Worth) Improve(m *Model, o *Offers, sweeps int) {
	var price [lra.NumApps]float64 // of a container, discounted to its arrival
	for a, v := range o.Prices {
		price[a] = v / (1 + o.Discount)
	}
	for range sweeps {
		change := 0.0
		for s := lra.State(lra.NumStates - 1); s >= 0; s-- {
			sum, rate, here := m.Value[s], o.Discount, w[s]
			for a := range lra.NumApps {
				if next := m.Next[s][a]; next != lra.NoState {
					if v := w[next] - price[a]; v > here {
						sum += o.Rate * v
						rate += o.Rate
					}
				}
				if k := s.Count(a); k > 0 {
					sum += float64(k) * w[s.Remove(a)]
					rate += float64(k)
				}
			}
			v := sum / rate
			change = max(change, math.Abs(v-here))
			w[s] = v
		}
		if change < WorthTolerance {
			return
		}
	}
}
