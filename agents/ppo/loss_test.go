package ppo

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/stat"

	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/models/team"
)

// lossRow is one row of a minibatch, with ε = 0.2 for policy and value: it says on which side of
// each clip the row lies. flat says that the surrogate does not depend on the policy there.
type lossRow struct {
	name       string
	logits     [3]float64
	mask       [3]bool
	action     int
	ratio, adv float64 // of the new to the old probability
	value, old float64
	ret        float64
	flat       bool
	held       bool // the clipped value does not depend on the new one
}

var lossRows = []lossRow{
	{"unclipped, adv > 0", [3]float64{0.5, -0.25, 1}, [3]bool{true, true, true}, 0, 1.1, 2, 1, 1.1, 3, false, false},
	{"unclipped, adv < 0", [3]float64{0, 1, -1}, [3]bool{true, true, true}, 1, 0.9, -1.5, -1, -1.1, 0.5, false, false},
	{"ratio above, adv > 0: clipped", [3]float64{2, 0, 0}, [3]bool{true, true, true}, 0, 1.5, 1, 1, 0.5, 2, true, true},
	{"ratio above, adv < 0: does not bind", [3]float64{0, 0.5, 0}, [3]bool{true, true, true}, 1, 1.5, -1, 0.5, 1, 2, false, true},
	{"ratio below, adv < 0: clipped", [3]float64{-0.5, 1, 0.25}, [3]bool{true, true, true}, 2, 0.5, -2, 0.5, 0.4, -1, true, false},
	{"ratio below, adv > 0: does not bind", [3]float64{1, 1, 1}, [3]bool{true, true, true}, 2, 0.5, 0.75, 2, 0, 1, false, true},
	{"masked, unclipped", [3]float64{0.5, 5, -0.5}, [3]bool{true, false, true}, 2, 1.05, 1.25, 0, 0.05, 1, false, false},
	{"masked, clipped", [3]float64{3, 0, 0.5}, [3]bool{false, true, true}, 1, 1.3, 0.5, 0, 1, -1, true, true},
	{"one action permitted", [3]float64{1, 2, 3}, [3]bool{false, true, false}, 1, 1, 1, 0.25, 0.25, 0.5, false, false},
}

const eps = 0.2

// logSoftmax returns the log-probability of the action and the entropy, from the definitions.
func logSoftmax(logits []float64, mask [3]bool, action int) (logp, entropy float64) {
	sum := 0.0
	for j, l := range logits {
		if mask[j] {
			sum += math.Exp(l)
		}
	}
	for j, l := range logits {
		if p := math.Exp(l) / sum; mask[j] {
			entropy -= p * math.Log(p)
		}
	}
	return logits[action] - math.Log(sum), entropy
}

// objective is the loss to minimize: the negative of equation 9 of the paper with the surrogate
// of equation 7, the mean over the rows. With clipVf, the value moves at most ε from the old.
func objective(outputs, adv, oldLogProb []float64, rows []lossRow, clipVf bool, entCoef, vfCoef float64) (loss float64, s stats) {
	n := float64(len(rows))
	for i, r := range rows {
		out := outputs[4*i : 4*i+4]
		logp, entropy := logSoftmax(out[:3], r.mask, r.action)
		ratio := math.Exp(logp - oldLogProb[i])
		s.policy -= min(ratio*adv[i], max(1-eps, min(1+eps, ratio))*adv[i]) / n
		value := out[3]
		if clipVf {
			value = r.old + max(-eps, min(eps, value-r.old))
		}
		s.value += (value - r.ret) * (value - r.ret) / n
		s.entropyLoss -= entropy / n
		s.approxKL += (ratio - 1 - math.Log(ratio)) / n
		if ratio > 1+eps || ratio < 1-eps {
			s.clipFraction += 1 / n
		}
	}
	return s.policy + vfCoef*s.value + entCoef*s.entropyLoss, s
}

// record returns a learner whose rollout is the rows, and what the network puts out for them.
func record(t *testing.T, cfg Config, rows []lossRow) (l *Learner, net *agentstest.Stub, outputs, oldLogProb []float64) {
	t.Helper()
	net = agentstest.NewStub(3, func(obs []float32, _ float32) []float32 {
		r := rows[int(obs[0])]
		return []float32{float32(r.logits[0]), float32(r.logits[1]), float32(r.logits[2]), float32(r.value)}
	})
	l = stubLearner(t, cfg, net, 1)
	for i, r := range rows {
		logp, _ := logSoftmax(r.logits[:], r.mask, r.action)
		old := float32(logp - math.Log(r.ratio))
		l.collector.Buf.Obs[i], l.collector.Buf.Action[i], l.collector.Buf.LogProb[i] = float32(i), float32(r.action), old
		l.collector.Buf.Adv[i], l.collector.Buf.Value[i], l.collector.Buf.Ret[i] = float32(r.adv), float32(r.old), float32(r.ret)
		copy(l.collector.Buf.Mask[3*i:], r.mask[:])
		oldLogProb = append(oldLogProb, float64(old))
		for _, x := range append(r.logits[:], r.value) {
			outputs = append(outputs, float64(float32(x)))
		}
	}
	return l, net, outputs, oldLogProb
}

func TestGradientAgainstFiniteDifferences(t *testing.T) {
	for _, tc := range []struct {
		name      string
		normalize bool
		clipVf    bool
		ent, vf   float64
	}{
		{"policy alone", false, false, 0, 0},
		{"normalized advantages", true, false, 0, 0},
		{"value", false, false, 0, 0.5},
		{"clipped value", false, true, 0, 0.5},
		{"entropy", false, false, 0.3, 0},
		{"everything", true, true, 0.01, 0.7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := small(len(lossRows), len(lossRows))
			cfg.NormalizeAdvantage, cfg.EntCoef, cfg.VfCoef = tc.normalize, tc.ent, tc.vf
			if tc.clipVf {
				cfg.ClipRangeVf.Initial = eps
			}
			l, net, outputs, oldLogProb := record(t, cfg, lossRows)
			adv, perm := make([]float64, len(lossRows)), make([]int, len(lossRows))
			for i, r := range lossRows {
				adv[i], perm[i] = r.adv, i
			}
			if tc.normalize {
				mean, deviation := stat.MeanStdDev(adv, nil) // the sample's, over n-1
				for i := range adv {
					adv[i] = (adv[i] - mean) / (deviation + 1e-8)
				}
			}
			got, err := gradientOf(l, perm, eps, cfg.ClipRangeVf.Initial)
			if err != nil {
				t.Fatal(err)
			}
			loss, want := objective(outputs, adv, oldLogProb, lossRows, tc.clipVf, tc.ent, tc.vf)
			want.loss, want.minibatches = loss, 1
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(stats{}), cmpopts.EquateApprox(1e-6, 1e-7)); diff != "" {
				t.Errorf("losses (-want +got):\n%s", diff)
			}
			gradient := fd.Gradient(nil, func(x []float64) float64 {
				loss, _ := objective(x, adv, oldLogProb, lossRows, tc.clipVf, tc.ent, tc.vf)
				return loss
			}, outputs, &fd.Settings{Formula: fd.Central})
			for i, want := range gradient {
				if got := float64(net.DOut[i]); math.Abs(got-want) > 1e-6 {
					t.Errorf("%s: gradient of output %d is %v, want %v", lossRows[i/4].name, i%4, got, want)
				}
			}
		})
	}
}

// gradientOf computes the gradient of a minibatch of the given rows, or sequences of a recurrent policy.
func gradientOf(l *Learner, part []int, clip, clipVf float64) (stats, error) {
	l.perm = part
	l.cfg.BatchSize = len(part)
	if q := l.collector.Seq; q != nil {
		l.cfg.BatchSize *= q.Steps
	}
	l.adv = l.adv[:l.cfg.BatchSize]
	for block := range team.Blocks(len(l.records), packedRows) {
		l.packRecords(0, block)
	}
	l.begin(clip, clipVf)
	l.gatherAdvantages(0, 0)
	return l.gradient(0)
}

// lossesOf returns the losses of the first rows of the rollout and their gradients, with given outputs and advantages.
func lossesOf(l *Learner, out, adv []float32, clip, clipVf float64) ([]stats, []float32) {
	b := &l.batch
	b.rows, b.adv = nil, adv
	for i := range adv {
		b.rows = append(b.rows, i)
	}
	l.packRecords(0, 0)
	l.begin(clip, clipVf)
	l.gatherRows(0, 0, len(adv))
	l.rowLosses(0, 0, len(adv), out)
	return slices.Clone(b.stats[:len(adv)]), slices.Clone(b.dOut[:len(out)])
}

// TestRowsTogether: losses and gradients are the same bits whether the distributions of a block are computed together or
// one by one, with all and with some actions permitted, and where a logit or the value is infinite.
func TestRowsTogether(t *testing.T) {
	cfg := small(len(lossRows), len(lossRows))
	cfg.EntCoef, cfg.ClipRangeVf.Initial = 0.01, eps
	inf := float32(math.Inf(1))
	for _, tc := range []struct {
		name     string
		at       int
		x        float32
		together bool // the way that computes them
	}{
		{"finite", 0, 0.5, true},
		{"a great ratio", 0, 800, true},
		{"an infinite value", 3, inf, true},
		{"a permitted logit of -Inf", 1, -inf, false},
		{"a permitted logit of NaN", 1, float32(math.NaN()), false},
		{"a logit of +Inf masked out", 4*6 + 1, inf, true}, // row 6 masks action 1
	} {
		l, _, outputs, _ := record(t, cfg, lossRows)
		var out, adv []float32
		for _, x := range outputs {
			out = append(out, float32(x))
		}
		for _, r := range lossRows {
			adv = append(adv, float32(r.adv))
		}
		out[tc.at] = tc.x
		l.batch.stats[0].clipFraction = 7 // of an earlier minibatch
		s, d := lossesOf(l, out, adv, eps, eps)
		if got := l.together(&l.batch.blocks[0], 0, len(adv), out, slices.Clone(d)); got != tc.together {
			t.Errorf("%s: rows are computed together: %v, want %v", tc.name, got, tc.together)
		}
		l.batch.blocks[0].rows = nil
		wantS, wantD := lossesOf(l, out, adv, eps, eps)
		if got, want := fmt.Sprintf("%x", d), fmt.Sprintf("%x", wantD); got != want {
			t.Errorf("%s: gradients %v, want %v", tc.name, got, want)
		}
		if got, want := fmt.Sprintf("%x", s), fmt.Sprintf("%x", wantS); got != want {
			t.Errorf("%s: losses %v, want %v", tc.name, got, want)
		}
	}
}

// TestSumsInOrder: each loss is summed in the order of the rows, so that any number of workers gives the same sum. In
// float64, (1 + 1e16) - 1e16 is 0, and (-1e16 + 1e16) + 1 is 1.
func TestSumsInOrder(t *testing.T) {
	l := &Learner{}
	l.batch.rows = make([]int, 3)
	for _, x := range []float64{1, 1e16, -1e16} {
		l.batch.stats = append(l.batch.stats, stats{policy: x, value: 2 * x, entropyLoss: 4 * x, approxKL: 8 * x, clipFraction: 16 * x})
	}
	l.batch.sums = stats{policy: 7, value: 7, entropyLoss: 7, approxKL: 7, clipFraction: 7} // of an earlier minibatch
	for part := range sums {
		l.sumStats(0, part)
	}
	if want := (stats{}); l.batch.sums != want {
		t.Errorf("sums %+v, want %+v", l.batch.sums, want)
	}
	l.batch.rows = l.batch.rows[:1]
	for part := range sums {
		l.sumStats(0, part)
	}
	if want := (stats{policy: 1, value: 2, entropyLoss: 4, approxKL: 8, clipFraction: 16}); l.batch.sums != want {
		t.Errorf("sums of one row %+v, want %+v", l.batch.sums, want)
	}
}

// TestFlatBranches asks which rows have no gradient at all: those that a clip holds, as the
// names of lossRows say.
func TestFlatBranches(t *testing.T) {
	cfg := small(len(lossRows), len(lossRows))
	cfg.NormalizeAdvantage, cfg.EntCoef, cfg.VfCoef = false, 0, 1
	cfg.ClipRangeVf.Initial = eps
	l, _, outputs, _ := record(t, cfg, lossRows)
	var out, adv []float32
	for i, r := range lossRows {
		for _, x := range outputs[4*i : 4*i+4] {
			out = append(out, float32(x))
		}
		adv = append(adv, float32(r.adv))
	}
	_, all := lossesOf(l, out, adv, eps, eps)
	for i, r := range lossRows {
		dOut := all[4*i : 4*i+4]
		certain := r.mask == [3]bool{false, true, false}
		if flat := dOut[r.action] == 0; flat != (r.flat || certain) {
			t.Errorf("%s: policy gradient %v, want zero: %v", r.name, dOut[:3], r.flat)
		}
		if held := dOut[3] == 0; held != r.held {
			t.Errorf("%s: value gradient %v, want zero: %v", r.name, dOut[3], r.held)
		}
		for j, ok := range r.mask {
			if !ok && dOut[j] != 0 {
				t.Errorf("%s: masked action %d has gradient %v", r.name, j, dOut[j])
			}
		}
	}
}
