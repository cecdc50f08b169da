package metrics

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWindow compares with the mean and the largest of the last numbers, found by looking.
func TestWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 7, 60} {
		w := NewWindow(n)
		for range 2 {
			w.Reset()
			var all []float64
			for range 500 {
				v := float64(rng.IntN(20))
				w.Push(v)
				all = append(all, v)
				last := all[max(0, len(all)-n):]
				sum := 0.0
				for _, x := range last {
					sum += x
				}
				if got, want := w.Max(), slices.Max(last); got != want {
					t.Fatalf("window %d: max %v, want %v", n, got, want)
				}
				if got, want := w.Mean(), sum/float64(len(last)); got != want {
					t.Fatalf("window %d: mean %v, want %v", n, got, want)
				}
			}
		}
	}
}
