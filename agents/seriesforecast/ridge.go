package seriesforecast

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/kubernasium/kubernasium/envs/gang/series"
)

// differences is the number of past changes that the regression reads.
const differences = 11

// penalties are the candidates of the ridge penalty, on standardized features.
var penalties = []float64{1, 10, 100, 1000, 1e4, 1e6}

// ridge predicts the errors of the seasonal predictor, with a separate regression for each step
// ahead. Its features are past changes and, for each period, the values a period before the
// predicted one and a period before the last one, relative to the last. With a large penalty it
// equals the seasonal predictor.
type ridge struct {
	base    series.Predictor
	periods []int
	penalty float64
	steps   []regression // by steps ahead
	row     []float64
}

// regression is a linear function of standardized features.
type regression struct {
	mean, std, weight []float64
	intercept         float64
}

func fitRidge(c Config, train []float64) (*ridge, error) {
	m := &ridge{base: series.FitPredictor(train, c.Day, false), periods: seasons(c.Day, train)}
	if m.start()+minTrain/2 > len(train) {
		return nil, fmt.Errorf("seriesforecast: %d training values, want at least %d for a period of %d", len(train), m.start()+minTrain/2, longest(m.periods))
	}
	split, best := validation(c.Day, train), math.Inf(1)
	for _, penalty := range penalties {
		if err := m.fit(train[:split], c.Horizon, penalty); err != nil {
			return nil, err
		}
		if e := meanSquare(m, train, split, c.Horizon); e < best {
			best, m.penalty = e, penalty
		}
	}
	return m, m.fit(train, c.Horizon, m.penalty)
}

// meanSquare returns the mean squared error of forecasts of the steps of values from first on.
func meanSquare(m Model, values []float64, first, horizon int) float64 {
	dst := make([]float64, horizon)
	sum, n := 0.0, 0
	for t := first; t+horizon <= len(values); t++ {
		if err := m.Forecast(values[:t], dst); err != nil {
			return math.Inf(1)
		}
		for h, v := range dst {
			sum += (v - values[t+h]) * (v - values[t+h])
			n++
		}
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n)
}

// start returns the first step that has all features.
func (m *ridge) start() int { return max(longest(m.periods), m.base.Period, differences) + 2 }

// features writes the features for the forecast of the h-th step after past.
func (m *ridge) features(past []float64, h int, dst []float64) []float64 {
	n := len(past)
	last := past[n-1]
	dst = dst[:0]
	for k := range differences {
		dst = append(dst, last-past[n-2-k])
	}
	for _, p := range m.periods {
		dst = append(dst, ago(past, h, p)-last, past[n-1-p]-last)
	}
	return dst
}

// fit solves the normal equations of each step ahead.
func (m *ridge) fit(train []float64, horizon int, penalty float64) error {
	m.steps = make([]regression, horizon)
	base := make([]float64, horizon)
	var x [][]float64
	targets := make([][]float64, horizon)
	for h := range horizon {
		x, targets[h] = x[:0], targets[h][:0]
		for t := m.start(); t+h < len(train); t++ {
			m.base.Predict(train, t, base[:h+1])
			x = append(x, append([]float64(nil), m.features(train[:t], h, m.row)...))
			targets[h] = append(targets[h], train[t+h]-base[h])
		}
		var err error
		if m.steps[h], err = regress(x, targets[h], penalty); err != nil {
			return fmt.Errorf("seriesforecast: ridge, %d steps ahead: %w", h+1, err)
		}
	}
	return nil
}

// regress minimizes Σ(y − a − w·z)² + penalty·(|w|² + a²) over the standardized features z.
func regress(x [][]float64, y []float64, penalty float64) (regression, error) {
	n, k := len(x), len(x[0])
	r := regression{mean: make([]float64, k), std: make([]float64, k), weight: make([]float64, k)}
	z, column := mat.NewDense(n, k, nil), make([]float64, n)
	for j := range k {
		for i := range n {
			column[i] = x[i][j]
		}
		if r.mean[j], r.std[j] = meanStd(column); r.std[j] == leastStd { // constant: its weight is 0
			r.std[j] = 1
		}
		for i := range n {
			z.Set(i, j, (column[i]-r.mean[j])/r.std[j])
		}
	}
	mean, _ := meanStd(y)
	// Standardized features have mean 0, so the intercept is separate from the weights.
	r.intercept = mean * float64(n) / (float64(n) + penalty)
	centred := mat.NewVecDense(n, nil)
	for i, v := range y {
		centred.SetVec(i, v-mean)
	}
	var gram mat.SymDense
	gram.SymOuterK(1, z.T())
	for j := range k {
		gram.SetSym(j, j, gram.At(j, j)+penalty)
	}
	var right, weight mat.VecDense
	right.MulVec(z.T(), centred)
	var chol mat.Cholesky
	if !chol.Factorize(&gram) {
		return r, fmt.Errorf("the normal equations are singular")
	}
	if err := chol.SolveVecTo(&weight, &right); err != nil {
		return r, err
	}
	copy(r.weight, weight.RawVector().Data)
	return r, nil
}

func (r *regression) at(x []float64) float64 {
	y := r.intercept
	for j, v := range x {
		y += r.weight[j] * (v - r.mean[j]) / r.std[j]
	}
	return y
}

// Forecast implements [Model].
func (m *ridge) Forecast(past, dst []float64) error {
	if len(past) < m.start() || len(dst) != len(m.steps) {
		return fmt.Errorf("seriesforecast: %d past values and a horizon of %d, want at least %d and %d", len(past), len(dst), m.start(), len(m.steps))
	}
	m.base.Predict(past, len(past), dst)
	for h := range dst {
		m.row = m.features(past, h, m.row)
		dst[h] += m.steps[h].at(m.row)
	}
	return nil
}

// Describe implements [Model].
func (m *ridge) Describe() string {
	return fmt.Sprintf("period %d, fade %.2f, penalty %g", m.base.Period, m.base.Fade, m.penalty)
}
