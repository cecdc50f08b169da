package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// suffixes of Kubernetes' quantities.
var suffixes = map[string]float64{
	"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}

// ParseQuantity parses an amount in the notation of Kubernetes' API, such as 250m, 12345n, 128Mi or 1e3.
//
// Source: k8s.io/apimachinery/pkg/api/resource, the grammar of Quantity.
func ParseQuantity(text string) (float64, error) {
	number, factor := text, 1.0
	if i := strings.LastIndexAny(text, "0123456789."); i >= 0 {
		var ok bool
		number = text[:i+1]
		if factor, ok = suffixes[text[i+1:]]; !ok {
			return 0, fmt.Errorf("quantity %q: unknown suffix %q", text, text[i+1:])
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	exponent := strings.ContainsAny(number, "eE") // an exponent replaces the suffix
	if err != nil || exponent && number != text || math.IsInf(v, 0) || math.IsNaN(v) || strings.ContainsAny(number, "xXpP_") {
		return 0, fmt.Errorf("quantity %q, want a number with a suffix such as 250m or 128Mi", text)
	}
	return v * factor, nil
}
