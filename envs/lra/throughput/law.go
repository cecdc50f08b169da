// Package throughput predicts the throughput of containers that share a node: by a law, which generates tables, and by
// a regression, which completes measured tables.
package throughput

import (
	"math"
	"math/rand/v2"

	"github.com/kubernasium/kubernasium/envs/lra"
	"github.com/kubernasium/kubernasium/envs/pcg"
)

// Law gives the throughput of a container beside others, as a multiple of its throughput alone:
//
//	(1 + Affinity · r / (r + Shared·u + Crowd·v)) · (1 + Σ_b Contention[b] · n_b)^−Exponent
//
// where n_b counts the other containers of application b, r those of the store that the application reads from, u the
// other readers of that store, and v the rest; the first factor is 1 if r is 0.
type Law struct {
	Contention    [lra.NumApps]float64
	Exponent      float64
	Affinity      float64 // of readers of the store; 0 for others
	Shared, Crowd float64
	Residual      float64 // root mean square of the residuals on the published profile
}

// laws are least-squares fits to the complete published profile of the earlier project.
var laws = [lra.NumApps]Law{
	{Contention: [lra.NumApps]float64{.009, .065, .083, .035, .035, .021, .063}, Exponent: 3, Residual: .062},
	{Contention: [lra.NumApps]float64{2.091, 0, .004, .072, .070, .078, .065}, Exponent: .366, Affinity: 3, Shared: .152, Crowd: .126, Residual: .065},
	{Contention: [lra.NumApps]float64{3, 0, .234, .313, .319, .276, .346}, Exponent: .292, Residual: .055},
	{Contention: [lra.NumApps]float64{.418, .105, .124, .239, .274, .237, .222}, Exponent: .531, Residual: .036},
	{Contention: [lra.NumApps]float64{.506, .125, .132, .194, .271, .280, .267}, Exponent: .480, Residual: .041},
	{Contention: [lra.NumApps]float64{.183, .047, .015, .109, .109, .093, .100}, Exponent: .670, Residual: .039},
	{Contention: [lra.NumApps]float64{.001, 0, 0, 0, 0, 0, .001}, Exponent: 2.077, Affinity: .461, Shared: .046, Residual: .049},
}

// Throughput returns the throughput of a container of app in state s, which must have one.
func (l *Law) Throughput(s lra.State, app int) float64 {
	n := s.Counts()
	n[app]--
	load := 1.0
	for b, k := range n {
		load += l.Contention[b] * float64(k)
	}
	v := math.Pow(load, -l.Exponent)
	if r := float64(n[lra.Store]); l.Affinity > 0 && r > 0 {
		readers := 0
		for b := range laws {
			if laws[b].Affinity > 0 {
				readers += n[b]
			}
		}
		u := float64(readers)
		v *= 1 + l.Affinity*r/(r+l.Shared*u+l.Crowd*(float64(n.Total())-r-u))
	}
	return v
}

// GenerateTable returns a table by the fitted laws. A seed other than 0 generates other applications of the same kind:
// it multiplies each coefficient of contention and affinity by a lognormal factor of scale 0.25, and each entry by one
// with the scale of the law's residual.
func GenerateTable(seed uint64) *lra.Table {
	own := laws
	rng := rand.New(pcg.New(seed))
	if seed != 0 {
		for a := range own {
			for b := range own[a].Contention {
				own[a].Contention[b] *= math.Exp(0.25 * rng.NormFloat64())
			}
			own[a].Affinity *= math.Exp(0.25 * rng.NormFloat64())
		}
	}
	t, err := lra.NewTable(func(s lra.State, app int) float64 {
		v := own[app].Throughput(s, app)
		if seed != 0 && s.Total() > 1 {
			v *= math.Exp(own[app].Residual * rng.NormFloat64())
		}
		return v
	})
	if err != nil {
		panic(err) // a law gives positive numbers
	}
	return t
}
