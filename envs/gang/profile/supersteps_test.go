package profile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/gang/gangtest"
	"github.com/kubernasium/kubernasium/envs/gang/profile"
)

// uneven is a profile whose sizes are no uniform grid.
func uneven(t testing.TB) *profile.Model {
	t.Helper()
	p := *gangtest.LawModel(t, 3).Profile()
	p.Sizes = []float64{1, 2, 7, 7.5, 20, 21, 22, 60, 61, 99}[:len(p.Sizes)]
	m, err := profile.NewModel(&p, profile.DefaultModelConfig())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Many supersteps have the bits of one at a time, at knots, beyond the grid and for sizes that are no numbers.
func TestSupersteps(t *testing.T) {
	for name, m := range map[string]*profile.Model{"even": gangtest.LawModel(t, 5), "uneven": uneven(t)} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			n, knots := m.NumTasks(), m.Profile().Sizes
			special := append([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, math.Copysign(0, -1)}, knots...)
			for _, v := range knots {
				special = append(special, math.Nextafter(v, -1), math.Nextafter(v, 1e9))
			}
			levels, got := make([]uint16, n), make([]float64, 20)
			sizes := make([]float64, len(got)*n)
			for range 2000 {
				for k := range levels {
					levels[k] = uint16(rng.IntN(m.Levels() + 5))
				}
				for i := range sizes {
					if sizes[i] = rng.Float64() * 1.1 * knots[len(knots)-1]; rng.IntN(4) == 0 {
						sizes[i] = special[rng.IntN(len(special))]
					}
				}
				m.Supersteps(got, sizes, levels)
				for h, d := range got {
					want, _ := m.Superstep(sizes[h*n:(h+1)*n], levels)
					if math.Float64bits(d) != math.Float64bits(want) {
						t.Fatalf("Supersteps(%v, %v)[%d] = %v, want %v", sizes[h*n:(h+1)*n], levels, h, d, want)
					}
				}
			}
		})
	}
}

// BenchmarkSupersteps predicts 20 supersteps of eight tasks under changing configurations.
func BenchmarkSupersteps(b *testing.B) {
	m := gangtest.LawModel(b, 8)
	rng := rand.New(rand.NewPCG(1, 2))
	n, dst := m.NumTasks(), make([]float64, 20)
	sizes, levels := make([]float64, (len(dst)+64)*n), make([][]uint16, 64)
	for k := range n {
		v := 25.0
		for h := range len(sizes) / n {
			v = min(max(v+4*rng.NormFloat64(), 5), 50)
			sizes[h*n+k] = v
		}
	}
	for i := range levels {
		for range n {
			levels[i] = append(levels[i], uint16(rng.IntN(40)))
		}
	}
	for _, together := range []bool{false, true} {
		b.Run(fmt.Sprintf("together=%v", together), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				from, l := i%64, levels[i%61]
				if together {
					m.Supersteps(dst, sizes[from*n:], l)
					continue
				}
				for h := range dst {
					dst[h], _ = m.Superstep(sizes[(from+h)*n:(from+h+1)*n], l)
				}
			}
		})
	}
}
