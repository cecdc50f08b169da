package throughput

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/kubernasium/kubernasium/envs/lra"
)

// A Regressor predicts throughputs in unmeasured states. For each application it adds two terms: a ridge regression on
// counts, products of two counts and presence; and a mean of the residuals of measured states, in which nearer states
// weigh more. Measured states keep the mean of their measurements. Predictions stay within the measured range of their
// application, since the squares of the regression grow without bound where nothing was measured;
// [Regressor.Extrapolations] lists these places.
type Regressor struct {
	apps     [lra.NumApps]appRegressor
	Measured [lra.NumStates]bool // states with at least one measurement of all their applications
}

type appRegressor struct {
	weights  []float64
	measured map[lra.State]float64
	states   []lra.State // measured, in order
	residual []float64   // of each

	low, high float64            // measured throughput
	support   [NumFeatures]Range // of each feature in the measured states
}

// Constants of the regression, as first guessed: they are not tuned on held-out states.
const (
	ridge     = 0.1
	nearness  = 1.2 // counts over which the weight of a residual falls by a factor of e
	shrinkage = 0.3 // weight of a residual of 0
)

// FitRegressor fits a regressor to a profile. It omits throughputs of 0, which are failed measurements. It returns an
// error if an application was not measured at all.
func FitRegressor(profile []Measurement) (*Regressor, error) {
	r := &Regressor{}
	for a := range r.apps {
		if err := r.apps[a].fit(profile, a); err != nil {
			return nil, err
		}
	}
	for s := range lra.State(lra.NumStates) {
		r.Measured[s] = true
		for a, k := range s.Counts() {
			if _, ok := r.apps[a].measured[s]; k > 0 && !ok {
				r.Measured[s] = false
			}
		}
	}
	return r, nil
}

// Table returns the table that the regressor predicts.
func (r *Regressor) Table() *lra.Table {
	t, err := lra.NewTable(func(s lra.State, app int) float64 { return r.apps[app].predict(s) })
	if err != nil {
		panic(err) // predictions are finite
	}
	return t
}

func (r *appRegressor) fit(profile []Measurement, app int) error {
	sum, number := map[lra.State]float64{}, map[lra.State]int{}
	for _, m := range profile {
		if m.Counts[app] > 0 && m.RPS[app] > 0 {
			s, err := lra.StateOf(m.Counts)
			if err != nil {
				return err
			}
			sum[s] += m.RPS[app]
			number[s]++
		}
	}
	if len(sum) == 0 {
		return fmt.Errorf("lra: the profile has no measurement of %s", lra.Apps[app])
	}
	r.measured = map[lra.State]float64{}
	var rows, targets []float64
	for s := range lra.State(lra.NumStates) {
		if n := number[s]; n > 0 {
			r.measured[s] = sum[s] / float64(n)
			r.states = append(r.states, s)
			rows = append(rows, terms(s)...)
			targets = append(targets, r.measured[s])
		}
	}
	x := mat.NewDense(len(targets), numTerms, rows)
	var gram mat.SymDense
	gram.SymOuterK(1, x.T())
	for i := range numTerms {
		gram.SetSym(i, i, gram.At(i, i)+ridge)
	}
	var right, weights mat.VecDense
	right.MulVec(x.T(), mat.NewVecDense(len(targets), targets))
	var chol mat.Cholesky
	if !chol.Factorize(&gram) {
		return fmt.Errorf("lra: the regression of %s is singular", lra.Apps[app])
	}
	if err := chol.SolveVecTo(&weights, &right); err != nil {
		return fmt.Errorf("lra: the regression of %s: %w", lra.Apps[app], err)
	}
	r.weights = weights.RawVector().Data
	for i, s := range r.states {
		r.residual = append(r.residual, targets[i]-r.trend(s))
	}
	r.low, r.high = slices.Min(targets), slices.Max(targets)
	r.support = supportOf(r.states)
	return nil
}

func (r *appRegressor) trend(s lra.State) float64 {
	v := 0.0
	for i, f := range terms(s) {
		v += r.weights[i] * f
	}
	return v
}

// predict returns the prediction within the range of the measurements.
func (r *appRegressor) predict(s lra.State) float64 { return min(max(r.unclipped(s), r.low), r.high) }

func (r *appRegressor) unclipped(s lra.State) float64 {
	if v, ok := r.measured[s]; ok {
		return v
	}
	sum, weight := 0.0, shrinkage
	for i, near := range r.states {
		d := 0
		for a, k := range near.Counts() {
			by := k - s.Count(a)
			d += max(by, -by)
		}
		if d > maxDistance {
			continue
		}
		w := math.Exp(-float64(d) / nearness)
		sum += w * r.residual[i]
		weight += w
	}
	return r.trend(s) + sum/weight
}

// maxDistance is the maximum number of containers by which a measured state may differ from a predicted one to count.
const maxDistance = 6

// numTerms is the number of terms of the regression: 1, counts, products of two counts, presence of each application,
// and presence of the store with each application.
const numTerms = 1 + lra.NumApps + lra.NumApps*(lra.NumApps+1)/2 + lra.NumApps + lra.NumApps

func terms(s lra.State) []float64 {
	n := s.Counts()
	f := make([]float64, 0, numTerms)
	f = append(f, 1)
	for a, k := range n {
		f = append(f, float64(k))
		for b := a; b < lra.NumApps; b++ {
			f = append(f, float64(k*n[b]))
		}
	}
	for b, k := range n {
		present, withStore := 0.0, 0.0
		if k > 0 {
			present = 1
		}
		if n[lra.Store] > 0 {
			withStore = float64(n[b])
		}
		f = append(f, present, withStore)
	}
	return f
}
