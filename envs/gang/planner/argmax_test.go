package planner

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestKeyKeepsOrder(t *testing.T) {
	values := []float64{math.Inf(-1), -2.5, -1, -1e-300, 0, 1e-300, 1, 2.5, math.MaxFloat64, math.Inf(1)}
	for i, v := range values {
		if got := unkey(key(v)); got != v {
			t.Errorf("unkey(key(%v)) = %v", v, got)
		}
		if key(v) == 0 || i > 0 && key(v) <= key(values[i-1]) {
			t.Errorf("key(%v) = %d is out of order", v, key(v))
		}
	}
}

func TestArgmaxFirstOfEqual(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var v [lanes]uint64
		for i := range v {
			v[i] = rng.Uint64N(5)
		}
		want := 0
		for i := range v {
			if v[i] > v[want] {
				want = i
			}
		}
		if i, most := argmax(&v); i != want || most != v[want] {
			t.Fatalf("argmax(%v) = %d, %d, want %d, %d", v, i, most, want, v[want])
		}
	}
}
