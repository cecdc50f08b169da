package fused

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/models/internal/oracle"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/graph"
)

// benchSpecs are the networks of the benchmarks, named by their widths.
var benchSpecs = []struct {
	name string
	spec models.Spec
}{
	{"32-64-64-9", models.Spec{
		Inputs: 32,
		Towers: []models.Tower{{Name: "t", Hidden: []int{64, 64}, Activation: models.Tanh}},
		Heads:  []models.Head{{Name: "h", Size: 9, Gain: 1}},
	}},
	{"2x81-64-64-4+1", models.ActorCritic(81, 4, []int{64, 64}, models.Tanh)},
	{"2x512-64-64-65+1", models.ActorCritic(512, 65, []int{64, 64}, models.Tanh)},
}

// benchEngines returns the networks of a spec by the name of what computes them.
func benchEngines(b *testing.B, spec models.Spec) (names []string, networks []models.Network) {
	for _, v := range variants() {
		names, networks = append(names, v.name), append(networks, withBiases(b, spec, 1, v))
	}
	g, err := graph.New(spec, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		b.Fatal(err)
	}
	return append(names, "graph"), append(networks, g)
}

func BenchmarkForward(b *testing.B) {
	for _, s := range benchSpecs {
		names, networks := benchEngines(b, s.spec)
		for _, n := range []int{1, 8, 64} {
			for i, net := range networks {
				b.Run(fmt.Sprintf("%s/n=%d/%s", s.name, n, names[i]), func(b *testing.B) {
					obs := oracle.Normal(n*s.spec.Inputs, 2)
					b.ReportAllocs()
					for b.Loop() {
						if _, err := net.Forward(obs, n); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// One Forward and one Backward, without loss and optimizer.
func BenchmarkForwardBackward(b *testing.B) {
	for _, s := range benchSpecs {
		names, networks := benchEngines(b, s.spec)
		for _, n := range []int{64, 256, 2048} {
			for i, net := range networks {
				b.Run(fmt.Sprintf("%s/n=%d/%s", s.name, n, names[i]), func(b *testing.B) {
					benchUpdate(b, net, s.spec, n)
				})
			}
		}
	}
}

func BenchmarkWorkers(b *testing.B) {
	for _, s := range benchSpecs {
		for _, n := range []int{512, 2048} {
			for _, workers := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/n=%d/workers=%d", s.name, n, workers), func(b *testing.B) {
					net := withBiases(b, s.spec, 1, variants()[0])
					net.SetWorkers(workers)
					benchUpdate(b, net, s.spec, n)
				})
			}
		}
	}
}

func benchUpdate(b *testing.B, net models.Network, spec models.Spec, n int) {
	obs, dOut := oracle.Normal(n*spec.Inputs, 2), oracle.Normal(n*spec.Outputs(), 3)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := net.Forward(obs, n); err != nil {
			b.Fatal(err)
		}
		if err := net.Backward(dOut); err != nil {
			b.Fatal(err)
		}
	}
}
