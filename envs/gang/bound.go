package gang

import "math"

// MaxDuration returns the longest duration that the model gives for any task, workload size
// and level.
func (m *Model) MaxDuration() float64 {
	longest := 0.0
	intervals := len(m.profile.Sizes) - 1
	for i := range m.table {
		k := i / m.levels % intervals
		longest = max(longest, m.table[i].max(m.profile.Sizes[k+1]-m.profile.Sizes[k]))
	}
	return longest
}

// max returns the largest value of the polynomial on [0, h]: at an end, or where the
// derivative c1 + 2·c2·u + 3·c3·u² is 0.
func (c *cubic) max(h float64) float64 {
	highest := max(c.at(0), c.at(h))
	a, b := 3*c[3], 2*c[2]
	roots := [2]float64{math.NaN(), math.NaN()}
	if a == 0 {
		roots[0] = -c[1] / b
	} else {
		d := math.Sqrt(b*b - 4*a*c[1]) // NaN without extremes
		roots[0], roots[1] = (-b-d)/(2*a), (-b+d)/(2*a)
	}
	for _, u := range roots {
		if u > 0 && u < h {
			highest = max(highest, c.at(u))
		}
	}
	return highest
}
