package dqn

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/agents/agentstest"
)

// TestMarginLoss compares loss and gradient with the definition and its finite differences. The
// rows, with the teacher's action and the action values:
//
//	0: 2 of (0.5, −1, 2): no other comes within 0.8                                 margin loss 0
//	1: 0 of (1, 3, 2): 3 + 0.8 − 1                                                  2.8
//	2: 1 of (−0.5, 0.25, 4), 2 masked out: −0.5 + 0.8 − 0.25                        0.05
//	3: 1 of (2, 1.5, 2.5): 2.5 + 0.8 − 1.5                                          1.8
func TestMarginLoss(t *testing.T) {
	for _, dueling := range []bool{false, true} {
		cfg := small()
		cfg.BatchSize, cfg.Dueling = 4, dueling
		values := [4][3]float64{{0.5, -1, 2}, {1, 3, 2}, {-0.5, 0.25, 4}, {2, 1.5, 2.5}}
		width := 3
		var outputs []float64
		for _, row := range values {
			outputs = append(outputs, row[:]...)
			if dueling { // the same values: advantages with their mean as the state's value
				outputs = append(outputs, (row[0]+row[1]+row[2])/3)
				width = 4
			}
		}
		net := agentstest.NewStub(2, agentstest.Rows(outputs, width))
		l := stubLearner(t, cfg, 3, 1, net, net)
		b := l.batch
		copy(b.Obs, []float32{0, 1, 2, 3})
		copy(b.Action, []float32{2, 0, 1, 1})
		copy(b.Weight, []float64{1, 0.5, 1, 1})
		copy(b.Mask, []bool{true, true, true, true, true, true, true, true, false, true, true, true})
		for i := range 4 {
			b.Return[i] = float32(values[i][int(b.Action[i])]) // no error but the margin's
			b.NextMask[3*i] = true
		}
		l.margin = imitateMargin
		loss, err := l.learn()
		if err != nil {
			t.Fatal(err)
		}
		if want := (0 + 0.5*2.8 + 0.05 + 1.8) / 4; math.Abs(loss-want) > 1e-6 {
			t.Errorf("dueling %v: loss %v, want %v", dueling, loss, want)
		}
		if l.right != 0.5 { // in rows 0 and 2
			t.Errorf("dueling %v: the teacher's action is the best in %v of the rows, want 0.5", dueling, l.right)
		}
		objective := func(x []float64) float64 {
			sum := 0.0
			for i := range 4 {
				row, mean := x[i*width:(i+1)*width], 0.0
				if dueling {
					mean = row[3] - (row[0]+row[1]+row[2])/3
				}
				taught := row[int(b.Action[i])]
				most := taught
				for a := range 3 {
					if b.Mask[3*i+a] && a != int(b.Action[i]) {
						most = max(most, row[a]+imitateMargin)
					}
				}
				d := taught + mean - float64(b.Return[i])
				sum += b.Weight[i] * (d*d/2 + most - taught) / 4
			}
			return sum
		}
		for i, want := range fd.Gradient(nil, objective, outputs, &fd.Settings{Formula: fd.Central}) {
			if got := float64(net.DOut[i]); math.Abs(got-want) > 1e-6 {
				t.Errorf("dueling %v: gradient of output %d is %v, want %v", dueling, i, got, want)
			}
		}
	}
}
