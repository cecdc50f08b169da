package series

import (
	"math"
	"math/rand/v2"
)

// A shape is the model of a generated series: a wave over the day, a factor for each day of the week, and a disturbance
// that fades from step to step.
type shape struct {
	day     int     // steps of a day
	weekly  bool    // days of the week differ
	square  bool    // the wave is on or off
	spread  float64 // standard deviation of the disturbance, relative to the wave's height of 1
	persist float64 // its correlation from one step to the next, in [0, 1)
	drift   float64 // of a random walk with slow return to 0, per step
}

// shapes are modelled on the series of the Numenta Anomaly Benchmark that the earlier project
// uses: taxi rides every half hour (daily and weekly rhythm, smooth), a square daily wave every
// ten minutes with small noise, and hourly room temperatures (weak rhythm, strong drift). They
// are drawn in the proportions in which that project's eight tasks use them.
var shapes = []struct {
	shape
	weight int
}{
	{shape{day: 48, weekly: true, spread: 0.04, persist: 0.8}, 4},
	{shape{day: 144, square: true, spread: 0.03, persist: 0}, 1},
	{shape{day: 24, spread: 0.12, persist: 0.85, drift: 0.03}, 3},
}

// GeneratedHistory is the number of steps before an episode that scalers and forecasters are fitted on: two weeks of
// the shape with a weekly rhythm.
const GeneratedHistory = 2 * 7 * 48

// Generate draws a series of n steps.
func Generate(rng *rand.Rand, n int) Raw {
	s := drawShape(rng)
	phase := rng.IntN(7 * s.day)
	second := 0.2 + 0.4*rng.Float64() // weight of the half-day wave
	shift := 2 * math.Pi * rng.Float64()
	var week [7]float64
	for d := range week {
		week[d] = 1
		if s.weekly {
			week[d] = 0.75 + 0.5*rng.Float64()
		}
	}
	noise := s.spread * math.Sqrt(1-s.persist*s.persist)
	disturbance, walk := s.spread*rng.NormFloat64(), 0.0
	wave := make([]float64, s.day) // repeats every day
	for t := range wave {
		wave[t] = s.wave(t, second, shift)
	}
	values := make([]float64, n)
	at, day := phase%s.day, phase/s.day%7
	for t := range values {
		values[t] = wave[at]*week[day] + disturbance + walk
		if at++; at == s.day {
			at, day = 0, (day+1)%7
		}
		disturbance = s.persist*disturbance + noise*rng.NormFloat64()
		walk = 0.995*walk + s.drift*rng.NormFloat64()
	}
	return Raw{Values: values, Day: s.day}
}

func drawShape(rng *rand.Rand) shape {
	total := 0
	for _, s := range shapes {
		total += s.weight
	}
	k := rng.IntN(total)
	for _, s := range shapes {
		if k -= s.weight; k < 0 {
			return s.shape
		}
	}
	panic("unreachable: k is below the sum of the weights")
}

// wave returns the height of the daily wave at step t of a day, between about -1 and 1.
func (s shape) wave(t int, second, shift float64) float64 {
	x := 2 * math.Pi * float64(t) / float64(s.day)
	if s.square {
		if math.Sin(x) > 0 {
			return 1
		}
		return -1
	}
	return (math.Sin(x) + second*math.Sin(2*x+shift)) / (1 + second)
}
