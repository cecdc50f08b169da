package profile

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestColumnsOfOrdinaryNumbers: the table for vectors has the durations of the curves, and there is none where vectors
// would order them in another way.
func TestColumnsOfOrdinaryNumbers(t *testing.T) {
	model := func() *Model {
		m, err := NewModel(Generate(rand.New(rand.NewPCG(1, 2))), DefaultModelConfig())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := model()
	c := m.Columns()
	for k := range m.NumTasks() {
		for _, size := range []float64{5, 10, 17.3, 30, 49.9, 60} {
			curve := m.Curve(k, size)
			coef, u := c.Of(m, k, size)
			for l := range c.Stride {
				cubic := cubic{coef[l], coef[c.Stride+l], coef[2*c.Stride+l], coef[3*c.Stride+l]}
				if got, want := cubic.at(u), curve.At(l); got != want {
					t.Fatalf("task %d, size %v, level %d: %v, want %v", k, size, l, got, want)
				}
			}
		}
	}
	for _, v := range []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), 1e200} {
		m := model()
		m.table[17][0] = v
		if m.Columns() != nil {
			t.Errorf("a table with a constant of %v", v)
		}
	}
}
