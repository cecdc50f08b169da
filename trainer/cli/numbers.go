package cli

import (
	"fmt"
	"math"
)

// Number writes x with two decimals, as tables have it.
func Number(x float64) string { return fmt.Sprintf("%.2f", x) }

// Interval writes an interval with two decimals, or "" if a bound is NaN, as of one value.
func Interval(low, high float64) string {
	if math.IsNaN(low) || math.IsNaN(high) {
		return ""
	}
	return fmt.Sprintf("[%.2f, %.2f]", low, high)
}
