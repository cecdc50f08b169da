package vmath

import (
	"slices"
	"testing"
)

// TestPrefetch: arrays of every kind may be asked for, none among them, and stay as they are. It allocates nothing.
func TestPrefetch(t *testing.T) {
	floats := make([]float32, 1000)
	for i := range floats {
		floats[i] = float32(i)
	}
	want := slices.Clone(floats)
	for i := range floats {
		Prefetch(floats[i:])
		Prefetch(floats[:i])
	}
	Prefetch([]bool{true})
	Prefetch([]int(nil))
	if !slices.Equal(floats, want) {
		t.Error("Prefetch changed its array")
	}
	if n := testing.AllocsPerRun(10, func() { Prefetch(floats) }); n != 0 {
		t.Errorf("%v allocs/op, want 0", n)
	}
}
