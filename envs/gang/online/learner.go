package online

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// Config holds the prior and the noise of the durations.
type Config struct {
	Noise float64 // standard deviation of the logarithm of an observed duration, > 0; default 0.1, as of the profiled tasks
	Scale float64 // prior standard deviation of the error of the logarithm of a task's durations, > 0; default 0.5
	Size  float64 // … of the exponent of its workload size, > 0; default 0.1
	Share float64 // … of the exponent of its shares, > 0; default 0.3
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return Config{Noise: 0.1, Scale: 0.5, Size: 0.1, Share: 0.3} }

func (c Config) validate() error {
	for _, v := range []float64{c.Noise, c.Scale, c.Size, c.Share} {
		if !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("gang: online learning with standard deviations %+v, want finite numbers > 0", c)
		}
	}
	return nil
}

// terms is the number of parameters of a correction.
const terms = 3

// Learner corrects each task's durations D(w, c) of a profile by a factor with the form of the tasks' law,
//
//	exp(β0 + β1·log(w/w0) − β2·log(min(c, CMax)/c0))
//
// where w0 and c0 are the geometric middle of the profile's sizes and shares. β has a normal prior with mean 0, and
// its posterior is that of Bayesian linear regression of log durations, updated one by one: recursive least squares
// whose initial covariance is the prior's. Apart from their noise, observations should not depend on the parameters.
//
// Source: G. Goodwin, K. Sin, "Adaptive Filtering Prediction and Control", Prentice-Hall 1984, section 3.3.
type Learner struct {
	cfg   Config
	base  *profile.Model
	tasks []posterior

	model   *profile.Model // the last refined one; nil before the first
	made    []float64      // the corners' corrections that model was made with
	corners []float64      // scratch, by task and corner of the profile
	x, px   *mat.VecDense  // scratch
}

// posterior is the posterior of one task.
type posterior struct {
	cmax float64 // millicores
	mean *mat.VecDense
	cov  *mat.SymDense
}

// NewLearner returns a learner that begins with the profile of base.
func NewLearner(cfg Config, base *profile.Model) (*Learner, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Learner{cfg: cfg, base: base, x: mat.NewVecDense(terms, nil), px: mat.NewVecDense(terms, nil)}
	p := base.Profile()
	for k := range p.Tasks {
		law := profile.FitLaw(p, k)
		cmax := 1000 * law.CMax
		if math.IsInf(law.RMS, 1) {
			cmax = p.Shares[len(p.Shares)-1]
		}
		l.tasks = append(l.tasks, posterior{cmax: cmax, mean: mat.NewVecDense(terms, nil), cov: mat.NewSymDense(terms, nil)})
	}
	l.Reset()
	return l, nil
}

// Reset forgets all observations.
func (l *Learner) Reset() {
	for k := range l.tasks {
		l.tasks[k].mean.Zero()
		l.tasks[k].cov.Zero()
		for i, sd := range []float64{l.cfg.Scale, l.cfg.Size, l.cfg.Share} {
			l.tasks[k].cov.SetSym(i, i, sd*sd)
		}
	}
	l.model = nil
}

// Base returns the model that l refines.
func (l *Learner) Base() *profile.Model { return l.base }

// features writes the features of a workload size and shares to l.x.
func (l *Learner) features(task int, size, milliCPU float64) {
	p := l.base.Profile()
	within := func(v float64, axis []float64) (v1, middle float64) {
		low, high := axis[0], axis[len(axis)-1]
		low = max(low, high/1e6) // a profile may begin at size 0
		return min(max(v, low), high), math.Sqrt(low * high)
	}
	w, w0 := within(size, p.Sizes)
	c, c0 := within(milliCPU, p.Shares)
	l.x.SetVec(0, 1)
	l.x.SetVec(1, math.Log(w/w0))
	l.x.SetVec(2, -math.Log(min(c, l.tasks[task].cmax)/c0))
}

// Observe learns that a task took seconds for a superstep of a workload size on that many millicores. A duration that
// is not positive and finite is an error.
func (l *Learner) Observe(task int, size, milliCPU, seconds float64) error {
	if !(seconds > 0) || math.IsInf(seconds, 0) {
		return fmt.Errorf("gang: task %s took %v s, want a finite number > 0", l.base.Profile().Tasks[task], seconds)
	}
	l.features(task, size, milliCPU)
	p := &l.tasks[task]
	residual := math.Log(seconds/l.base.Duration(task, size, milliCPU)) - mat.Dot(l.x, p.mean)
	l.px.MulVec(p.cov, l.x)
	spread := l.cfg.Noise*l.cfg.Noise + mat.Dot(l.x, l.px)
	p.mean.AddScaledVec(p.mean, residual/spread, l.px)
	p.cov.SymRankOne(p.cov, -1/spread, l.px)
	return nil
}

// Correction returns the mean and the standard deviation of the logarithm of the factor that corrects a task's
// durations at a workload size and millicores. The standard deviation measures the uncertainty.
func (l *Learner) Correction(task int, size, milliCPU float64) (mean, std float64) {
	l.features(task, size, milliCPU)
	p := &l.tasks[task]
	l.px.MulVec(p.cov, l.x)
	return mat.Dot(l.x, p.mean), math.Sqrt(max(mat.Dot(l.x, l.px), 0))
}

// negligible is the change of the logarithm of a duration below which Model makes no new table, which takes
// milliseconds: a fiftieth of the scatter of the best known tasks.
const negligible = 0.0005

// Model returns the refined model. A caution other than 0 lengthens durations by that many standard deviations of their
// logarithm, so that plans give more shares to tasks that are little known.
func (l *Learner) Model(caution float64) (*profile.Model, error) {
	base := l.base.Profile()
	l.corners = l.corners[:0] // a correction is linear in the logarithms, except for its standard deviation
	for k := range base.Tasks {
		for _, size := range []float64{base.Sizes[0], base.Sizes[len(base.Sizes)-1]} {
			for _, share := range []float64{base.Shares[0], base.Shares[len(base.Shares)-1]} {
				mean, std := l.Correction(k, size, share)
				l.corners = append(l.corners, mean+caution*std)
			}
		}
	}
	if l.model != nil && floats.EqualApprox(l.corners, l.made, negligible) {
		return l.model, nil
	}
	l.made = append(l.made[:0], l.corners...)
	refined := &profile.Profile{Tasks: base.Tasks, Sizes: base.Sizes, Shares: base.Shares}
	for k := range base.Tasks {
		for i, size := range base.Sizes {
			for j, share := range base.Shares {
				mean, std := l.Correction(k, size, share)
				refined.Durations = append(refined.Durations, base.Duration(k, i, j)*math.Exp(mean+caution*std))
			}
		}
	}
	m, err := profile.NewModel(refined, l.base.Config())
	if err != nil {
		return nil, err
	}
	l.model = m
	return m, nil
}
