package recommender

import "math"

// AutopilotConfig holds the parameters of an [Autopilot]. Weights are of a fraction of a window's samples.
type AutopilotConfig struct {
	Overrun  float64 // w_o, of samples above the limit
	Underrun float64 // w_u, of samples below it
	Change   float64 // w_ΔL, of a change of the limit
	Switch   float64 // w_Δm, of a change of the model

	HalfLives []float64 // of the models, in windows
	Margins   []float64 // of the models: fractions that they add
	Smoothing float64   // half-life of the models' costs, in windows

	First, Ratio float64 // bounds of buckets: First·Ratio^j
	Buckets      int
}

// Autopilot recommends limits as the machine-learning recommender of Google's Autopilot does. It is an ensemble
// of models, one for each half-life and margin. After each window t of samples, of which the fraction s[j] is in
// bucket j, the model m with decay d_m has the costs
//
//	o[t](L) = (1-d_m)·o[t-1](L) + d_m·Σ s[j] of the buckets above L, and u[t](L) likewise below L,
//	L'_m[t] = argmin over L of w_o·o[t](L) + w_u·u[t](L) + w_ΔL·(L ≠ L'_m[t-1]),
//	L_m[t]  = L'_m[t] and the model's margin,
//	c_m[t]  = (1-d)·c_m[t-1] + d·(w_o·o(L_m[t]) + w_u·u(L_m[t]) + w_ΔL·(L_m[t] ≠ L_m[t-1])),
//
// the last with the samples of window t alone. The limit is that of the model with the least
// c_m[t] + w_Δm·(m ≠ m[t-1]) + w_ΔL·(L_m[t] ≠ L[t-1]). The paper adds margins to amounts; here they are
// fractions of them.
//
// Source: K. Rzadca et al., "Autopilot: workload autoscaling at Google", EuroSys 2020, section 3.2.3.
type Autopilot struct {
	c      AutopilotConfig
	models []model
	decays []decayed
	now    []float64 // fractions of the last window by bucket
	chosen int
	limit  float64
	begun  bool
}

// model is a combination of half-life and margin, with its state.
type model struct {
	decayed int // index of its decayed histogram
	margin  float64
	limit   float64
	cost    float64
}

// decayed is a histogram with decaying windows, and its best bucket.
type decayed struct {
	keep      float64 // 1-d_m
	fractions []float64
	best      int
}

// NewAutopilot returns an Autopilot without samples.
func NewAutopilot(c AutopilotConfig) *Autopilot {
	a := &Autopilot{c: c, now: make([]float64, c.Buckets)}
	for i, h := range c.HalfLives {
		a.decays = append(a.decays, decayed{keep: fade(h), fractions: make([]float64, c.Buckets)})
		for _, m := range c.Margins {
			a.models = append(a.models, model{decayed: i, margin: 1 + m})
		}
	}
	return a
}

// fade returns the part that remains after a window, for a half-life in windows.
func fade(halfLife float64) float64 { return math.Exp2(-1 / halfLife) }

// Reset forgets all samples.
func (a *Autopilot) Reset() {
	for i := range a.decays {
		clear(a.decays[i].fractions)
		a.decays[i].best = 0
	}
	for i := range a.models {
		a.models[i].limit, a.models[i].cost = 0, 0
	}
	a.chosen, a.limit, a.begun = 0, 0, false
}

// bucket returns the bucket of an amount: the first whose bound is at least the amount.
func (a *Autopilot) bucket(v float64) int {
	if v <= a.c.First {
		return 0
	}
	j := int(math.Ceil(math.Log(v/a.c.First)/math.Log(a.c.Ratio) - 1e-9))
	return min(max(j, 0), a.c.Buckets-1)
}

// Add adds a window of samples, which must not be empty, and returns the limit.
func (a *Autopilot) Add(samples []float64) float64 {
	clear(a.now)
	for _, v := range samples {
		a.now[a.bucket(v)] += 1 / float64(len(samples))
	}
	for i := range a.decays {
		a.decays[i].add(a.now, &a.c, a.begun)
	}
	keep := fade(a.c.Smoothing)
	for i := range a.models {
		m := &a.models[i]
		limit := a.c.First * math.Pow(a.c.Ratio, float64(a.decays[m.decayed].best)) * m.margin
		over, under := beside(a.now, a.bucket(limit))
		cost := a.c.Overrun*over + a.c.Underrun*under
		if a.begun && limit != m.limit {
			cost += a.c.Change
		}
		m.cost = keep*m.cost + (1-keep)*cost
		m.limit = limit
	}
	a.choose()
	a.begun = true
	return a.limit
}

// choose chooses the model whose limit is in force.
func (a *Autopilot) choose() {
	best, least := 0, math.Inf(1)
	for i := range a.models {
		m := &a.models[i]
		cost := m.cost
		if a.begun && i != a.chosen {
			cost += a.c.Switch
		}
		if a.begun && m.limit != a.limit {
			cost += a.c.Change
		}
		if cost < least {
			best, least = i, cost
		}
	}
	a.chosen, a.limit = best, a.models[best].limit
}

// add adds a window and chooses the bucket with the least cost.
func (d *decayed) add(now []float64, c *AutopilotConfig, begun bool) {
	above := 0.0
	for j := range now {
		d.fractions[j] = d.keep*d.fractions[j] + (1-d.keep)*now[j]
		above += d.fractions[j]
	}
	before, below := d.best, 0.0
	least := math.Inf(1)
	for j, f := range d.fractions {
		above -= f
		cost := c.Overrun*above + c.Underrun*below
		if begun && j != before {
			cost += c.Change
		}
		if cost < least-1e-12 { // sums in another order differ by less
			d.best, least = j, cost
		}
		below += f
	}
}

// beside returns the fractions above and below a bucket.
func beside(fractions []float64, at int) (above, below float64) {
	for j, f := range fractions {
		switch {
		case j > at:
			above += f
		case j < at:
			below += f
		}
	}
	return above, below
}
