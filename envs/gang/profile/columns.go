package profile

import "math"

// Columns is the table of a [Model] for vector code: for each task and size interval, the constants of the cubics of
// all levels, then their linear, square and cubic coefficients. It is shared and must not be changed.
type Columns struct {
	Stride int // levels of an array; those beyond the model's repeat the last one
	coef   []float64
}

// Columns returns the table for vector code. It returns nil if a duration might be infinite, NaN or negative zero,
// which vectors and keys order differently.
func (m *Model) Columns() *Columns {
	m.columnsOnce.Do(func() {
		const most = 1e100 // of a coefficient; sizes are at most 1e9
		c := &Columns{Stride: (m.levels + 7) / 8 * 8}
		rows := len(m.table) / m.levels
		c.coef = make([]float64, rows*4*c.Stride)
		for r := range rows {
			for l := range c.Stride {
				cubic := &m.table[r*m.levels+min(l, m.levels-1)]
				for q, v := range cubic {
					if !(math.Abs(v) < most) || q == 0 && v == 0 {
						return
					}
					c.coef[(r*4+q)*c.Stride+l] = v
				}
			}
		}
		m.columns = c
	})
	return m.columns
}

// Of returns the coefficients of a task's cubics at a workload size, and their argument u.
func (c *Columns) Of(m *Model, task int, size float64) (coef []float64, u float64) {
	i, u := locate(m.profile.Sizes, size)
	n := 4 * c.Stride
	first := (task*(len(m.profile.Sizes)-1) + i) * n
	return c.coef[first : first+n : first+n], u
}
