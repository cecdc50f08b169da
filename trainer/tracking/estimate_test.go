package tracking

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

// TestEstimateJSON: ends of an interval that are not finite numbers are null. If four of five models have the same value
// in all episodes, a third of all resamples (0.8 to the power of 5) have only these. They have no spread, so that the lower
// end is minus infinity.
func TestEstimateJSON(t *testing.T) {
	same := slices.Repeat([]float64{500}, 4)
	e := TwoWayTest([][]float64{same, same, same, same, {460, 470, 480, 490}}).Estimate
	if !math.IsInf(e.Low, -1) || !(e.High > 500) || math.IsInf(e.High, 1) {
		t.Fatalf("interval [%v, %v], want one without a lower end", e.Low, e.High)
	}
	for _, tc := range []struct {
		e    Estimate
		want string
	}{
		{Estimate{495, e.Low, 510.5}, `{"mean":495,"low":null,"high":510.5}`},
		{Estimate{1, math.NaN(), math.NaN()}, `{"mean":1,"low":null,"high":null}`},
		{Estimate{1e21, -0.1, 2}, `{"mean":1e+21,"low":-0.1,"high":2}`},
	} {
		if got, err := json.Marshal(tc.e); err != nil || string(got) != tc.want {
			t.Errorf("%v is %s, %v; want %s", tc.e, got, err, tc.want)
		}
	}
}
