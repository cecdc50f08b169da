package seriesforecast

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/optimize"
)

// holtWinters is exponential smoothing with additive seasons and a damped additive trend. For the
// value y of step t and a period of m steps,
//
//	level  l(t) = α·(y − s(t−m)) + (1−α)·(l(t−1) + φ·b(t−1))
//	trend  b(t) = β·(l(t) − l(t−1)) + (1−β)·φ·b(t−1)
//	season s(t) = γ·(y − l(t−1) − φ·b(t−1)) + (1−γ)·s(t−m)
//
// and the forecast h steps ahead is l(t) + (φ + … + φ^h)·b(t) + the latest s of that phase. A period
// of 0 has no seasons.
//
// Source: Hyndman and Athanasopoulos, "Forecasting: Principles and Practice", 3rd edition, section 8.3.
type holtWinters struct {
	period                   int
	alpha, beta, gamma, damp float64
	level, trend             float64 // before the first step
	seasons                  []float64
	horizon                  int
	nowLevel, nowTrend       float64 // after the steps observed
	nowSeasons               []float64
}

// newHoltWinters sets the state before the first step: the level is the mean of the first period, the
// trend the mean change to the second, and the seasons the first period's differences from its mean.
func newHoltWinters(train []float64, period, horizon int) *holtWinters {
	m := &holtWinters{period: period, horizon: horizon, seasons: make([]float64, period), nowSeasons: make([]float64, period)}
	if period == 0 {
		m.level = train[0]
		return m
	}
	first, _ := meanStd(train[:period])
	second, _ := meanStd(train[period : 2*period])
	m.level, m.trend = first, (second-first)/float64(period)
	for i := range m.seasons {
		m.seasons[i] = train[i] - first
	}
	return m
}

// restart returns to the state before the first step.
func (m *holtWinters) restart() {
	m.nowLevel, m.nowTrend = m.level, m.trend
	copy(m.nowSeasons, m.seasons)
}

// observe updates the state with the value of step t.
func (m *holtWinters) observe(t int, y float64) {
	season := 0.0
	if m.period > 0 {
		season = m.nowSeasons[t%m.period]
	}
	expected := m.nowLevel + m.damp*m.nowTrend
	level := m.alpha*(y-season) + (1-m.alpha)*expected
	m.nowTrend = m.beta*(level-m.nowLevel) + (1-m.beta)*m.damp*m.nowTrend
	if m.period > 0 {
		m.nowSeasons[t%m.period] = m.gamma*(y-expected) + (1-m.gamma)*season
	}
	m.nowLevel = level
}

// predict writes forecasts of the steps from t on, after all values before t were observed.
func (m *holtWinters) predict(t int, dst []float64) {
	trend, factor := 0.0, 1.0
	for h := range dst {
		factor *= m.damp
		trend += factor * m.nowTrend
		dst[h] = m.nowLevel + trend
		if m.period > 0 {
			dst[h] += m.nowSeasons[(t+h)%m.period]
		}
	}
}

// Forecast implements [Model].
func (m *holtWinters) Forecast(past, dst []float64) error {
	if len(past) < 2*m.period || len(dst) != m.horizon {
		return fmt.Errorf("seriesforecast: %d past values and a horizon of %d, want at least %d and %d", len(past), len(dst), 2*m.period, m.horizon)
	}
	m.restart()
	for t, y := range past {
		m.observe(t, y)
	}
	m.predict(len(past), dst)
	return nil
}

// Describe implements [Model].
func (m *holtWinters) Describe() string {
	return fmt.Sprintf("period %d, α %.3f, β %.3f, γ %.3f, φ %.3f", m.period, m.alpha, m.beta, m.gamma, m.damp)
}

// error returns the mean squared error of the forecasts made at steps from first on, one in five.
func (m *holtWinters) error(values []float64, first int, dst []float64) float64 {
	const stride = 5
	m.restart()
	sum, n := 0.0, 0
	for t, y := range values {
		if t >= first && (t-first)%stride == 0 && t+m.horizon <= len(values) {
			m.predict(t, dst)
			for h, v := range dst {
				sum += (v - values[t+h]) * (v - values[t+h])
			}
			n += m.horizon
		}
		m.observe(t, y)
	}
	return sum / float64(max(n, 1))
}

// set sets the smoothing constants, in (0, 1), from unbounded numbers.
func (m *holtWinters) set(x []float64) {
	for i, p := range []*float64{&m.alpha, &m.beta, &m.gamma, &m.damp} {
		*p = 1 / (1 + math.Exp(-x[i]))
	}
}

// fit chooses the constants that minimize the error over all steps ahead; those that are best one
// step ahead follow noise.
func (m *holtWinters) fit(train []float64) error {
	dst, first := make([]float64, m.horizon), max(m.period, 10)
	start := []float64{0, -3, -2, 1}
	r, err := optimize.Minimize(optimize.Problem{Func: func(x []float64) float64 {
		m.set(x)
		if e := m.error(train, first, dst); !math.IsNaN(e) {
			return e
		}
		return math.Inf(1)
	}}, start, &optimize.Settings{FuncEvaluations: 2000}, &optimize.NelderMead{})
	if err != nil {
		return fmt.Errorf("seriesforecast: %s: %w", HoltWinters, err)
	}
	m.set(r.X)
	return nil
}

// fitHoltWinters chooses the period with the lowest error on the last part of train, fitted to the part before.
func fitHoltWinters(c Config, train []float64) (*holtWinters, error) {
	split, period, best := validation(c.Day, train), 0, math.Inf(1)
	for _, p := range append([]int{0}, seasons(c.Day, train[:split])...) {
		m := newHoltWinters(train, p, c.Horizon)
		if err := m.fit(train[:split]); err != nil {
			return nil, err
		}
		if e := m.error(train, split, make([]float64, c.Horizon)); e < best {
			best, period = e, p
		}
	}
	m := newHoltWinters(train, period, c.Horizon)
	return m, m.fit(train)
}
