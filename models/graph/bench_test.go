package graph

import (
	"testing"

	"github.com/kubernasium/kubernasium/models/internal/oracle"

	"github.com/kubernasium/kubernasium/models"
)

// benchSpec is the network of the benchmarks: 81 observations, two towers of 64 and 64.
var benchSpec = models.ActorCritic(81, 4, []int{64, 64}, models.Tanh)

func BenchmarkForward8(b *testing.B)   { benchForward(b, 8) }
func BenchmarkForward256(b *testing.B) { benchForward(b, 256) }

func benchForward(b *testing.B, n int) {
	net, obs := newNetwork(b, benchSpec, 1), oracle.Normal(n*benchSpec.Inputs, 2)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := net.Forward(obs, n); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBackward256(b *testing.B) {
	const n = 256
	net, obs := newNetwork(b, benchSpec, 1), oracle.Normal(n*benchSpec.Inputs, 2)
	if _, err := net.Forward(obs, n); err != nil {
		b.Fatal(err)
	}
	dOut := oracle.Normal(n*benchSpec.Outputs(), 3)
	b.ReportAllocs()
	for b.Loop() {
		if err := net.Backward(dOut); err != nil {
			b.Fatal(err)
		}
	}
}

// The first Forward and Backward of a batch size.
func BenchmarkCompile(b *testing.B) {
	net, obs := newNetwork(b, benchSpec, 1), oracle.Normal(8*benchSpec.Inputs, 2)
	dOut := oracle.Normal(8*benchSpec.Outputs(), 3)
	for b.Loop() {
		if err := net.Close(); err != nil {
			b.Fatal(err)
		}
		if _, err := net.Forward(obs, 8); err != nil {
			b.Fatal(err)
		}
		if err := net.Backward(dOut); err != nil {
			b.Fatal(err)
		}
	}
}
