package seriesforecast

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/gang/series"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
	"github.com/kubernasium/kubernasium/models/optim"
)

// Settings of the LSTM.
const (
	hidden       = 8
	window       = 24 // steps read before a forecast, from a state of zeros
	batch        = 16 // windows of a gradient step
	learningRate = 5e-4
	maxEpochs    = 300
	patience     = 40 // training ends after this many epochs without a lower validation error
	maxGradNorm  = 1
	clip         = 5 // bound of inputs, in standard deviations
)

// lookAheads is the number of steps ahead for which the LSTM reads the value a period before.
const lookAheads = 5

// lstm predicts the errors of the seasonal predictor for all steps ahead at once. Its inputs at each step of a window
// are the last change, the seasonal predictor's last error, and for each period: the last value less that a period ago,
// and the values a period before the predicted ones less the last value. Inputs are divided by their standard
// deviations in the training part.
//
// A window that ends at t is computed from the values before t only.
type lstm struct {
	base    series.Predictor
	periods []int
	horizon int
	scale   []float64 // of the inputs
	out     []float64 // of the outputs
	net     models.Recurrent
	epochs  int

	in, state []float32
	starts    []bool
	feature   []float64
	oneStep   [1]float64
}

func lstmSpec(inputs, outputs int) models.Spec {
	return models.Spec{
		Inputs: inputs,
		LSTMs:  []models.LSTM{{Name: "lstm", Hidden: hidden, Layers: 1}},
		Towers: []models.Tower{{Name: "forecast", Reads: "lstm"}},
		Heads:  []models.Head{{Name: "residuals", Tower: 0, Size: outputs, Gain: 0.01}},
	}
}

// first returns the first step that has all inputs.
func (m *lstm) first() int { return max(longest(m.periods), m.base.Period) + 3 }

// start returns the first step that can be forecast.
func (m *lstm) start() int { return m.first() + window - 1 }

// features returns the inputs for the forecast made after past, before scaling.
func (m *lstm) features(past []float64) []float64 {
	n := len(past)
	last := past[n-1]
	m.base.Predict(past, n-1, m.oneStep[:])
	f := append(m.feature[:0], last-past[n-2], last-m.oneStep[0])
	for _, p := range m.periods {
		f = append(f, last-past[n-1-p])
		for k := range lookAheads {
			f = append(f, ago(past, k*(m.horizon-1)/(lookAheads-1), p)-last)
		}
	}
	m.feature = f
	return f
}

// fitLSTM trains on all but the last part of train, which is the validation part for early stopping.
func fitLSTM(ctx context.Context, c Config, train []float64) (*lstm, error) {
	m := &lstm{base: series.FitPredictor(train, c.Day, false), periods: seasons(c.Day, train), horizon: c.Horizon}
	split := validation(c.Day, train)
	if m.start()+minTrain/2 > split {
		return nil, fmt.Errorf("seriesforecast: %d training values, of which %d are for validation, want at least %d before them", len(train), len(train)-split, m.start()+minTrain/2)
	}
	m.measure(train[:split])
	rng := rand.New(pcg.New(c.Seed))
	net, err := fused.New(lstmSpec(len(m.scale), c.Horizon), rng)
	if err != nil {
		return nil, err
	}
	m.net = net
	m.in, m.starts = make([]float32, window*len(m.scale)), make([]bool, window)
	m.state = make([]float32, net.StateSize())
	return m, m.train(ctx, rng, train, split)
}

// measure sets the scales of inputs and outputs.
func (m *lstm) measure(train []float64) {
	var inputs, outputs [][]float64
	base := make([]float64, m.horizon)
	for t := m.first(); t+m.horizon <= len(train); t++ {
		for j, v := range m.features(train[:t]) {
			if len(inputs) <= j {
				inputs = append(inputs, nil)
			}
			inputs[j] = append(inputs[j], v)
		}
		m.base.Predict(train, t, base)
		for h, v := range base {
			if len(outputs) <= h {
				outputs = append(outputs, nil)
			}
			outputs[h] = append(outputs[h], train[t+h]-v)
		}
	}
	scales := func(columns [][]float64) []float64 {
		s := make([]float64, len(columns))
		for j, column := range columns {
			var sum float64
			for _, v := range column {
				sum += v * v
			}
			s[j] = max(math.Sqrt(sum/float64(len(column))), leastStd)
		}
		return s
	}
	m.scale, m.out = scales(inputs), scales(outputs)
}

// input writes the scaled inputs for the forecast made after past.
func (m *lstm) input(past []float64, dst []float32) {
	for j, v := range m.features(past) {
		dst[j] = float32(min(max(v/m.scale[j], -clip), clip))
	}
}

// train makes gradient steps until the error on the validation part has not fallen for a while, and
// keeps the parameters with which it was lowest.
func (m *lstm) train(ctx context.Context, rng *rand.Rand, train []float64, split int) error {
	params := m.net.Params()
	adam := optim.NewAdam(params, optim.DefaultAdam())
	b := newBatches(m, train)
	var ends []int // ends of windows whose targets lie before the validation part
	for t := m.start(); t+m.horizon <= split; t++ {
		ends = append(ends, t)
	}
	best, bestValues, bestEpoch := meanSquare(m, train, split, m.horizon), values(params), 0
	for epoch := 1; epoch <= maxEpochs && epoch-bestEpoch <= patience; epoch++ {
		rng.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		for i := 0; i+batch <= len(ends); i += batch {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := b.step(ends[i : i+batch]); err != nil {
				return err
			}
			optim.ClipGradNorm(params, maxGradNorm)
			adam.Step(learningRate)
		}
		if e := meanSquare(m, train, split, m.horizon); e < best {
			best, bestValues, bestEpoch = e, values(params), epoch
		}
	}
	for i, p := range params {
		copy(p.Value, bestValues[i])
	}
	m.epochs = bestEpoch
	return nil
}

// values returns copies of the parameters' values.
func values(params []models.Param) [][]float32 {
	all := make([][]float32, len(params))
	for i, p := range params {
		all[i] = append([]float32(nil), p.Value...)
	}
	return all
}

// batches holds the arrays of gradient steps.
type batches struct {
	*lstm
	train     []float64
	in, dOut  []float32
	state     []float32
	starts    []bool
	predicted []float64
}

func newBatches(m *lstm, train []float64) *batches {
	return &batches{lstm: m, train: train, in: make([]float32, window*batch*len(m.scale)), dOut: make([]float32, window*batch*m.horizon),
		state: make([]float32, batch*m.net.StateSize()), starts: make([]bool, window*batch), predicted: make([]float64, m.horizon)}
}

// step computes the gradient of the mean squared error of the last outputs of the windows that end at
// these steps.
func (b *batches) step(ends []int) error {
	k := len(b.scale)
	for i, t := range ends {
		for s := range window {
			row := s*batch + i
			b.input(b.train[:t-window+1+s], b.in[row*k:(row+1)*k])
		}
	}
	clear(b.state)
	out, err := b.net.ForwardSequence(b.in, window, batch, b.state, b.starts)
	if err != nil {
		return err
	}
	clear(b.dOut)
	weight := 2 / float64(batch*b.horizon)
	for i, t := range ends {
		row := (window-1)*batch + i
		o, d := out[row*b.horizon:(row+1)*b.horizon], b.dOut[row*b.horizon:(row+1)*b.horizon]
		b.base.Predict(b.train, t, b.predicted)
		for h := range d {
			target := (b.train[t+h] - b.predicted[h]) / b.out[h]
			d[h] = float32(weight * (float64(o[h]) - target))
		}
	}
	return b.net.Backward(b.dOut)
}

// Forecast implements [Model].
func (m *lstm) Forecast(past, dst []float64) error {
	if len(past) < m.start() || len(dst) != m.horizon {
		return fmt.Errorf("seriesforecast: %d past values and a horizon of %d, want at least %d and %d", len(past), len(dst), m.start(), m.horizon)
	}
	k := len(m.scale)
	for s := range window {
		m.input(past[:len(past)-window+1+s], m.in[s*k:(s+1)*k])
	}
	clear(m.state)
	out, err := m.net.ForwardSequence(m.in, window, 1, m.state, m.starts)
	if err != nil {
		return err
	}
	m.base.Predict(past, len(past), dst)
	for h := range dst {
		dst[h] += m.out[h] * float64(out[(window-1)*m.horizon+h])
	}
	return nil
}

// Describe implements [Model].
func (m *lstm) Describe() string {
	return fmt.Sprintf("%d cells, %d epochs, over period %d, fade %.2f", hidden, m.epochs, m.base.Period, m.base.Fade)
}
