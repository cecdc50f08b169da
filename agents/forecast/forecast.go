// Package forecast implements a recommender of vertical pod autoscaling that forecasts. An LSTM
// reads the observations of package vpa and predicts quantiles of future usage, from which fixed
// formulas derive requests. It is a baseline for learned policies and learns nothing from rewards.
//
// It acts on observations of the option encoding:upstream, which hold amounts relative to the
// target of upstream's recommender, and its actions have the same units. So it reads only what any
// policy reads.
//
// Source: the earlier project planned an LSTM recommender (github.com/saeid93/smart-vpa) and did
// not write it; the loss is that of quantile regression (Koenker and Bassett, "Regression
// Quantiles", Econometrica 46(1), 1978).
package forecast

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/optim"
)

// Algo is the name of the recommender in model files.
const Algo = "lstm_forecaster"

// Quantiles of CPU usage are the network's first outputs; one of memory follows.
var Quantiles = [...]float64{0.2, 0.5, 0.8, 0.99}

const (
	memoryQuantile = 0.99
	outputs        = len(Quantiles) + 1
)

// Config holds the settings of the training and of the requests.
type Config struct {
	LearningRate float64 `json:"learning_rate"` // of Adam; falls linearly to 0
	Hidden       int     `json:"hidden"`        // cells of the LSTM
	Horizon      int     `json:"horizon"`       // decisions that a forecast covers
	Episodes     int     `json:"episodes"`      // of training
	Batch        int     `json:"batch"`         // episodes of a gradient step
	Epochs       int     `json:"epochs"`        // passes over the episodes
	MaxGradNorm  float64 `json:"max_grad_norm"` // bound of the gradient's norm
	Quantile     float64 `json:"quantile"`      // of CPU usage, as request; one of Quantiles
	LimitRatio   float64 `json:"limit_ratio"`   // CPU limit over request; limits are at least the highest quantile
	Band         float64 `json:"band"`          // the updater keeps pods within this factor of the target
}

// Defaults returns the defaults: the median is the cheapest request where idle CPU and CPU above
// the request cost the same.
func Defaults() Config {
	return Config{LearningRate: 3e-3, Hidden: 32, Horizon: 12, Episodes: 1024, Batch: 32, Epochs: 30, MaxGradNorm: 1, Quantile: 0.5, LimitRatio: 2, Band: 1.5}
}

func (c *Config) validate() error {
	return agents.Validate("forecast",
		agents.Above("learning_rate", c.LearningRate, 0),
		agents.AtLeast("hidden", c.Hidden, 1),
		agents.AtLeast("horizon", c.Horizon, 1),
		agents.AtLeast("episodes", c.Episodes, 1),
		agents.AtLeast("batch", c.Batch, 1),
		agents.AtLeast("epochs", c.Epochs, 1),
		agents.Above("max_grad_norm", c.MaxGradNorm, 0),
		agents.Hyperparameter{Name: "quantile", Value: c.Quantile, OK: slices.Contains(Quantiles[:], c.Quantile), Range: fmt.Sprintf("one of %v", Quantiles)},
		agents.AtLeast("limit_ratio", c.LimitRatio, 1),
		agents.AtLeast("band", c.Band, 1),
	)
}

// Indices of the elements that the network reads, from the table in the README of
// k8s/VerticalPodAutoscaler-v0.
const (
	obsSize     = 45
	cpuUsed     = 0  // logarithmic, on a scale of cpuDoublings doublings
	memUsed     = 8  // of memDoublings
	dayPeak     = 5  // offset from cpuUsed or memUsed
	timeOfDay   = 16 // four elements: of the day and of the week
	cpuRelative = 29 // used, requested, hour's peak and mean, day's peak, target in force, upstream's lower and upper
	memRelative = 37

	dayPeakRelative = 4 // offset from cpuRelative or memRelative
	cpuDoublings    = 17
	memDoublings    = 20
	actionSize      = 8 // lower, target, upper, uncapped of CPU, then of memory
)

// read lists the elements that the network reads. Requests are not among them, since they do not
// determine future usage.
var read = [...]int{
	cpuRelative, cpuRelative + 2, cpuRelative + 3, cpuRelative + 4, cpuRelative + 6, cpuRelative + 7,
	memRelative, memRelative + 2, memRelative + 3, memRelative + 4, memRelative + 6, memRelative + 7,
	timeOfDay, timeOfDay + 1, timeOfDay + 2, timeOfDay + 3,
}

// Inputs returns the indices of the elements of an observation that the network reads, in its
// order.
func Inputs() []int { return slices.Clone(read[:]) }

// Spec returns the network: an LSTM and a linear layer.
func Spec(hidden int) models.Spec {
	return models.Spec{
		Inputs: len(read),
		LSTMs:  []models.LSTM{{Name: "lstm", Hidden: hidden, Layers: 1}},
		Towers: []models.Tower{{Name: "forecast", Reads: "lstm"}},
		Heads:  []models.Head{{Name: "quantiles", Tower: 0, Size: outputs, Gain: 1}},
	}
}

func inputs(dst, obs []float32) {
	for i, k := range read {
		dst[i] = obs[k]
	}
}

// checkSpaces returns an error unless the spaces are those of the recommender's environment.
func checkSpaces(obs, act int) error {
	if obs != obsSize || act != actionSize {
		return fmt.Errorf("forecast: observations of %d and actions of %d numbers, want %d and %d: k8s/VerticalPodAutoscaler-v0 with encoding:upstream",
			obs, act, obsSize, actionSize)
	}
	return nil
}

// Episodes holds observations of whole episodes, row-major of shape (Steps, N, observation). No pod
// may have been throttled or killed in them, so that usage equals demand.
type Episodes struct {
	Obs   []float32
	Steps int
	N     int
}

// Trainer trains the network. It is not safe for concurrent use.
type Trainer struct {
	cfg    Config
	net    models.Recurrent
	params []models.Param
	adam   optim.Optimizer
	seen   int // episodes of the current pass

	in, dOut []float32
	state    []float32
	starts   []bool
}

// NewTrainer returns a Trainer of net, which was built from [Spec].
func NewTrainer(cfg Config, net models.Recurrent) (*Trainer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Trainer{cfg: cfg, net: net, params: net.Params(), adam: optim.NewAdam(net.Params(), optim.DefaultAdam())}, nil
}

// Step makes one gradient step on the episodes and returns the mean pinball loss, in logarithms to
// the base 4. The horizon ends with the episode, so the last step has none.
func (t *Trainer) Step(e Episodes) (float64, error) {
	loss, err := t.Loss(e)
	if err != nil {
		return 0, err
	}
	if err := t.net.Backward(t.dOut); err != nil {
		return 0, err
	}
	optim.ClipGradNorm(t.params, t.cfg.MaxGradNorm)
	t.adam.Step(t.cfg.LearningRate * max(0, 1-float64(t.seen)/float64(t.cfg.Episodes*t.cfg.Epochs)))
	t.seen += e.N
	return loss, nil
}

// Loss returns the mean pinball loss on the episodes, without learning.
func (t *Trainer) Loss(e Episodes) (float64, error) {
	rows := e.Steps * e.N
	if e.Steps < 2 || len(e.Obs) != rows*obsSize {
		return 0, fmt.Errorf("forecast: %d numbers for %d steps of %d episodes, want at least 2 steps of %d each", len(e.Obs), e.Steps, e.N, obsSize)
	}
	if len(t.in) != rows*len(read) {
		t.in, t.dOut = make([]float32, rows*len(read)), make([]float32, rows*outputs)
		t.state, t.starts = make([]float32, e.N*t.net.StateSize()), make([]bool, rows)
	}
	for r := range rows {
		inputs(t.in[r*len(read):(r+1)*len(read)], e.Obs[r*obsSize:])
	}
	out, err := t.net.ForwardSequence(t.in, e.Steps, e.N, t.state, t.starts)
	if err != nil {
		return 0, err
	}
	loss := t.loss(e, out)
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, fmt.Errorf("forecast: loss %v after %d episodes", loss, t.seen)
	}
	return loss, nil
}

// loss returns the mean pinball loss of the outputs and writes its gradient.
func (t *Trainer) loss(e Episodes, out []float32) float64 {
	clear(t.dOut)
	sum, weight := 0.0, 1/float64((e.Steps-1)*e.N*outputs)
	for s := range e.Steps - 1 {
		ahead := min(t.cfg.Horizon, e.Steps-1-s)
		w := weight / float64(ahead)
		for i := range e.N {
			row := s*e.N + i
			now := e.Obs[row*obsSize : (row+1)*obsSize]
			o, d := out[row*outputs:(row+1)*outputs], t.dOut[row*outputs:(row+1)*outputs]
			for k := 1; k <= ahead; k++ {
				then := e.Obs[(row+k*e.N)*obsSize : (row+k*e.N+1)*obsSize]
				cpu := demand(now, then, cpuUsed, cpuRelative, cpuDoublings)
				for j, q := range Quantiles {
					sum += w * pinball(float64(o[j]), cpu, q, w, &d[j])
				}
				mem := demand(now, then, memUsed, memRelative, memDoublings)
				sum += w * pinball(float64(o[len(Quantiles)]), mem, memoryQuantile, w, &d[len(Quantiles)])
			}
		}
	}
	return sum
}

// demand returns the logarithm to the base 4 of the ratio of the usage at a later observation to
// upstream's target now. It takes both relative to the day's peak: usage itself is often less than
// a quarter of the target, and the observation clips relative amounts there.
func demand(now, then []float32, used, relative int, doublings float64) float64 {
	return float64(now[relative+dayPeakRelative]) + doublings/2*float64(then[used]-now[used+dayPeak])
}

// pinball returns the loss of x as the q-quantile of the distribution of y, and adds w times its
// derivative by x to d.
func pinball(x, y, q, w float64, d *float32) float64 {
	if y >= x {
		*d -= float32(w * q)
		return q * (y - x)
	}
	*d += float32(w * (1 - q))
	return (1 - q) * (x - y)
}

// Policy is the recommender. It must act on every batch of its environments.
type Policy struct {
	cfg   Config
	net   models.Recurrent
	at    int // index of cfg.Quantile in Quantiles
	in    []float32
	state []float32
	start []bool
}

var _ agents.Policy = (*Policy)(nil)

// NewPolicy returns the recommender of a model file; net holds its parameters. The error wraps
// [models.ErrMismatch].
func NewPolicy(net models.Network, f models.File) (*Policy, error) {
	p := &Policy{}
	if err := json.Unmarshal(f.Meta.Config, &p.cfg); err != nil {
		return nil, fmt.Errorf("forecast: %w: settings: %w", models.ErrMismatch, err)
	}
	if err := p.cfg.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", models.ErrMismatch, err)
	}
	var ok bool
	if p.net, ok = net.(models.Recurrent); !ok || !f.Meta.Spec.Equal(Spec(p.cfg.Hidden)) {
		return nil, fmt.Errorf("forecast: %w: the network is no forecaster of %d cells", models.ErrMismatch, p.cfg.Hidden)
	}
	for i, q := range Quantiles {
		if q == p.cfg.Quantile {
			p.at = i
		}
	}
	return p, nil
}

// Act implements [agents.Policy].
func (p *Policy) Act(b *envs.Batch, actions []float32) error {
	n := len(b.Reward)
	if err := checkSpaces(len(b.Obs)/n, len(actions)/n); err != nil {
		return err
	}
	if len(p.start) != n {
		p.in, p.state, p.start = make([]float32, n*len(read)), make([]float32, n*p.net.StateSize()), make([]bool, n)
	}
	for i := range n {
		inputs(p.in[i*len(read):(i+1)*len(read)], b.Obs[i*obsSize:])
		p.start[i] = b.Begins(i)
	}
	out, err := p.net.ForwardStep(p.in, n, p.state, p.start)
	if err != nil {
		return fmt.Errorf("forecast: %w", err)
	}
	for i := range n {
		p.recommend(out[i*outputs:(i+1)*outputs], b.Obs[i*obsSize:(i+1)*obsSize], actions[i*actionSize:(i+1)*actionSize])
	}
	return nil
}

// recommend turns a forecast into an action. The CPU target is the quantile, or more if the limit
// would otherwise be below the highest quantile; the memory target is its quantile plus 15 %.
// Bounds are a band around the targets. The action expresses them as factors of upstream's bounds,
// which the observation states relative to upstream's target.
func (p *Policy) recommend(out, obs, action []float32) {
	band := math.Log(p.cfg.Band) / math.Log(4)
	cpu := float64(out[p.at])
	cpu = max(cpu, float64(out[len(Quantiles)-1])-math.Log(p.cfg.LimitRatio)/math.Log(4))
	mem := float64(out[len(Quantiles)]) + math.Log(1.15)/math.Log(4)
	for r, x := range [...]float64{cpu, mem} {
		a, beside := action[4*r:4*r+4], obs[cpuRelative+8*r:]
		a[0] = element(x - band - float64(beside[6]))
		a[1] = element(x)
		a[2] = element(x + band - float64(beside[7]))
		a[3] = a[1]
	}
}

func element(x float64) float32 { return float32(min(max(x, -1), 1)) }

// File returns the model file of a network that was trained in env.
func File(cfg Config, env agents.EnvInfo, net models.Network, seed uint64, steps int) (models.File, error) {
	return env.NewFile(agents.Record{Algo: Algo, Spec: Spec(cfg.Hidden), Config: cfg, Seed: seed, Timesteps: steps}, net.Params())
}

// CheckEnv returns an error for environments that the recommender cannot play.
func CheckEnv(env agents.EnvInfo) error { return checkSpaces(env.Obs.Size(), env.Act.Size()) }
