//go:build amd64 && !purego

package optim

import (
	"math"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/tools/asmtest"
)

// widths returns the vector widths that this CPU has, and 0 for none.
func widths() []int {
	w := []int{0}
	if cpu.X86.HasAVX2 {
		w = append(w, 8)
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ {
		w = append(w, 16)
	}
	return w
}

// trained returns the parameters after clipped steps of Adam with vectors of that width.
func trained(t *testing.T, width, n int) (value []float32, norms []float64) {
	t.Helper()
	defer func(w int) { lanes = w }(lanes)
	lanes = width
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	p := models.Param{Name: "w", Shape: []int{n}, Value: make([]float32, n), Grad: make([]float32, n)}
	for i := range p.Value {
		p.Value[i] = float32(rng.NormFloat64())
	}
	params := []models.Param{p}
	adam := NewAdam(params, AdamConfig{Beta1: 0.9, Beta2: 0.999, Eps: 1e-5})
	for step := range 4 {
		for i := range p.Grad { // of many magnitudes, subnormal squares and zero among them
			p.Grad[i] = float32(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(50)-30)))
			if rng.IntN(10) == 0 {
				p.Grad[i] = 0
			}
		}
		norms = append(norms, ClipGradNorm(params, math.Pow(10, float64(step-2))))
		adam.Step(1e-3)
	}
	return p.Value, norms
}

// TestVectorsGiveTheSameBits compares vectors of each width with Go's own loop, for every length
// about theirs.
func TestVectorsGiveTheSameBits(t *testing.T) {
	for n := 1; n <= 100; n++ {
		want, wantNorms := trained(t, 0, n)
		for _, w := range widths()[1:] {
			got, norms := trained(t, w, n)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d elements, vectors of %d: parameter %d is %v, want %v", n, w, i, got[i], want[i])
				}
			}
			for i := range norms {
				if norms[i] != wantNorms[i] {
					t.Fatalf("%d elements, vectors of %d: norm %d is %v, want %v", n, w, i, norms[i], wantNorms[i])
				}
			}
		}
	}
}

func BenchmarkClippedAdam(b *testing.B) {
	defer func(w int) { lanes = w }(lanes)
	for _, w := range widths() {
		b.Run(map[int]string{0: "go", 8: "avx2", 16: "avx512"}[w], func(b *testing.B) {
			lanes = w
			const n = 72_000 // two towers 512-64-64
			p := []models.Param{{Name: "w", Shape: []int{n}, Value: make([]float32, n), Grad: make([]float32, n)}}
			adam := NewAdam(p, DefaultAdam())
			b.ReportAllocs()
			for b.Loop() {
				for i := range p[0].Grad {
					p[0].Grad[i] = 1
				}
				ClipGradNorm(p, 0.5)
				adam.Step(1e-3)
			}
		})
	}
}

// The assembly and its stubs are those that the generator writes.
func TestGenerated(t *testing.T) { asmtest.Check(t, "optim", "vectors_amd64.s", "vectors_amd64.go") }
