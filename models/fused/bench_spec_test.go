package fused

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/graph"
	"github.com/kubernasium/kubernasium/models/internal/oracle"
)

// nodeSpec is of nodes with 8 features and 8 globals, two towers of 64 and 64, one logit for
// each node and one of waiting, and three edges for each node unless the layers are dense.
func nodeSpec(nodes int, layer string) models.Spec {
	b, inputs := models.Nodes{N: nodes, Features: 8}, nodes*8+8
	if layer != "" {
		b.Edges = &models.Edges{Offset: inputs, N: 3 * nodes, Undirected: true}
		inputs += 2 * b.Edges.N
	}
	return models.NodeActorCritic(inputs, b, []int{64, 64}, models.Tanh, layer, models.MeanMax, true)
}

// scorerSpec is of nodes alone: one tower and a logit for each.
func scorerSpec(nodes int) models.Spec {
	s := nodeSpec(nodes, "")
	s.Towers, s.Heads = s.Towers[:1], s.Heads[:1]
	return s
}

func normSpec() models.Spec {
	s := models.ActorCritic(81, 4, []int{64, 64}, models.Tanh)
	s.Towers[0].LayerNorm, s.Towers[1].LayerNorm = true, true
	return s
}

// kinds are networks besides dense ones, each with a number of steps and of environments.
var kinds = []struct {
	name     string
	spec     models.Spec
	steps, n int
	gorgonia bool // it can build this and needs no minutes
}{
	{"scorer/nodes=1213", scorerSpec(1213), 1, 1, true},
	{"nodes=1213", nodeSpec(1213, ""), 1, 1, true},
	{"nodes=64", nodeSpec(64, ""), 1, 64, true},
	{"sage/nodes=64", nodeSpec(64, models.SAGE), 1, 64, true},
	{"gcn/nodes=64", nodeSpec(64, models.GCN), 1, 64, true},
	{"sage/nodes=1213", nodeSpec(1213, models.SAGE), 1, 1, false},
	{"norm", normSpec(), 1, 256, true},
	{"lstm/step", models.RecurrentActorCritic(81, 4, []int{64}, models.Tanh, 1, 256, models.CriticLSTM), 1, 8, true},
	{"lstm/sequence=16", models.RecurrentActorCritic(81, 4, []int{64}, models.Tanh, 1, 256, models.CriticLSTM), 16, 8, true},
}

func BenchmarkKinds(b *testing.B) {
	for _, k := range kinds {
		for _, v := range variants() {
			benchKind(b, k.name, v.name, withBiases(b, k.spec, 1, v), k.spec, k.steps, k.n)
		}
		if k.gorgonia {
			g, err := graph.New(k.spec, rand.New(rand.NewPCG(1, 0)))
			if err != nil {
				b.Fatal(err)
			}
			benchKind(b, k.name, "graph", g, k.spec, k.steps, k.n)
		}
	}
}

// benchKind measures Forward, and Forward with Backward, without loss and optimizer.
func benchKind(b *testing.B, name, engine string, net models.Recurrent, spec models.Spec, steps, n int) {
	obs := oracle.Observations(spec, steps*n, rand.New(rand.NewPCG(2, 3)))
	state, starts := make([]float32, n*spec.StateSize()), make([]bool, steps*n)
	dOut := oracle.Normal(steps*n*spec.Outputs(), 3)
	forward := func(b *testing.B) {
		if _, err := net.ForwardSequence(obs, steps, n, state, starts); err != nil {
			b.Fatal(err)
		}
	}
	b.Run(fmt.Sprintf("%s/forward/%s", name, engine), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			forward(b)
		}
	})
	b.Run(fmt.Sprintf("%s/update/%s", name, engine), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			forward(b)
			if err := net.Backward(dOut); err != nil {
				b.Fatal(err)
			}
		}
	})
}
