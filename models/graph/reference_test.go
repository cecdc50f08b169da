package graph

import (
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/internal/oracle"
)

// newNetwork returns a network whose biases are random, too.
func newNetwork(t testing.TB, spec models.Spec, seed uint64) *Network {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	n, err := New(spec, rng)
	if err != nil {
		t.Fatal(err)
	}
	oracle.DrawBiases(n.Params(), rng)
	return n
}

// reference returns the results of the oracle for n rows.
func reference(spec models.Spec, params, obs []float64, n int) []float64 {
	out, _ := oracle.New(spec, params).Forward(oracle.Batch{Steps: 1, N: n, Obs: obs})
	return out
}
