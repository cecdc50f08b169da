package cli

import (
	"fmt"
	"math"
)

// Number formats x with two decimals, for tables.
func Number(x float64) string { return fmt.Sprintf("%.2f", x) }

// Interval formats an interval with the given number of decimals. It returns "" if a bound is NaN, as for a
// single value.
func Interval(low, high float64, decimals int) string {
	if math.IsNaN(low) || math.IsNaN(high) {
		return ""
	}
	return fmt.Sprintf("[%.[1]*[2]f, %.[1]*[3]f]", decimals, low, high)
}
