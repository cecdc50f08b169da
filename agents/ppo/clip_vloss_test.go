package ppo

import (
	"math"
	"testing"
)

// TestClipVLoss takes values that have moved from 1, with ε = 0.2, and the maximum of both
// squared errors, worked by hand:
//
//	value  return  unclipped  clipped at  its loss  greater    moves
//	1.5    0.5     1          1.2         0.49      unclipped  yes: away from the return
//	1.5    2       0.25       1.2         0.64      clipped    no: far enough towards it
//	0.5    0.75    0.0625     0.8         0.0025    unclipped  yes: beyond it
//	1.1    3       3.61       —           —         unclipped  yes: within ε
//
// Source: CleanRL, ppo.py, clip_vloss; OpenAI Baselines, ppo2.
func TestClipVLoss(t *testing.T) {
	for _, tc := range []struct{ value, ret, loss, sb3 float64 }{
		{1.5, 0.5, 1, 0.49},
		{1.5, 2, 0.64, 0.64},
		{0.5, 0.75, 0.0625, 0.0025},
		{1.1, 3, 3.61, 3.61},
	} {
		for _, greater := range []bool{true, false} {
			cfg := small(2, 2)
			cfg.EntCoef, cfg.VfCoef, cfg.ClipVLoss = 0, 1, greater
			cfg.ClipRangeVf.Initial = eps
			row := lossRow{mask: [3]bool{true, true, true}, ratio: 1, value: tc.value, old: 1, ret: tc.ret}
			l, _, _, _ := record(t, cfg, []lossRow{row, row})
			s, dOut := lossesOf(l, []float32{0, 0, 0, float32(tc.value)}, []float32{0}, eps, eps)
			got := s[0].value
			want, slope := tc.sb3, 0.0
			if greater {
				want = tc.loss
			}
			if unclipped := (tc.value - tc.ret) * (tc.value - tc.ret); want == tc.loss && math.Abs(unclipped-tc.loss) < 1e-9 {
				slope = 2 * (tc.value - tc.ret)
			}
			if math.Abs(got-want) > 1e-6 || math.Abs(float64(dOut[3])-slope) > 1e-6 {
				t.Errorf("value %v, return %v, clip_vloss %v: loss %v with slope %v, want %v with %v", tc.value, tc.ret, greater, got, dOut[3], want, slope)
			}
		}
	}
}
