package cli

import (
	"fmt"
	"math"
)

func Number(x float64) string { return fmt.Sprintf("%.2f", x) }

func Interval(low, high float64) string {
	if math.IsNaN(low) || math.IsNaN(high) {
		return ""
	}
	return fmt.Sprintf("[%.2f, %.2f]", low, high)
}
