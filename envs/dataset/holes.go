package dataset

import (
	"fmt"
	"math"
	"slices"
)

// A Hole is a gap in samples taken at a usual interval.
type Hole struct {
	Before  int     // index of the sample after it
	Missing int     // samples
	Seconds float64 // between the samples beside it
}

// Holes returns the gaps among ascending times in seconds, and the usual interval, which is their
// median interval. A hole is an interval of more than 1.5 times the usual one.
func Holes(seconds []float64) (holes []Hole, usual float64) {
	if len(seconds) < 3 {
		return nil, 0
	}
	gaps := make([]float64, len(seconds)-1)
	for i := range gaps {
		gaps[i] = seconds[i+1] - seconds[i]
	}
	sorted := slices.Sorted(slices.Values(gaps))
	usual = sorted[len(sorted)/2]
	for i, g := range gaps {
		if usual > 0 && g > 1.5*usual {
			holes = append(holes, Hole{Before: i + 1, Missing: int(math.Round(g/usual)) - 1, Seconds: g})
		}
	}
	return holes, usual
}

// HolesText states in a sentence how many samples of what are missing, and where the longest hole is. place returns the
// file and the line of sample i. The text is empty if there are no holes.
func HolesText(what string, holes []Hole, usual float64, place func(i int) string) string {
	if len(holes) == 0 {
		return ""
	}
	missing, longest := 0, holes[0]
	for _, h := range holes {
		missing += h.Missing
		if h.Seconds > longest.Seconds {
			longest = h
		}
	}
	text := fmt.Sprintf("%s: %d samples of %s are missing before this line, by the usual interval of %v s", place(longest.Before), longest.Missing, what, usual)
	if len(holes) > 1 {
		text += fmt.Sprintf("; in all %d in %d places", missing, len(holes))
	}
	return text
}
