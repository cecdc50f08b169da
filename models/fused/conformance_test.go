package fused

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/graph"
	"github.com/kubernasium/kubernasium/models/internal/oracle"
	"github.com/kubernasium/kubernasium/models/optim"
)

// actorCriticLoss is the mean over rows of -adv·log softmax(logits)[action] + (value-target)²/2
// - 0.01·entropy, in float64, and its gradient with respect to the outputs, rows of logits and
// a value.
func actorCriticLoss(out []float32, n int, seed uint64) (loss float64, dOut []float32) {
	rng := rand.New(rand.NewPCG(seed, 5))
	width := len(out) / n
	actions := width - 1
	dOut = make([]float32, len(out))
	for r := range n {
		row := out[r*width : (r+1)*width]
		action, adv, target := rng.IntN(actions), rng.NormFloat64(), rng.NormFloat64()
		z, top := 0.0, math.Inf(-1)
		for _, l := range row[:actions] {
			top = max(top, float64(l))
		}
		for _, l := range row[:actions] {
			z += math.Exp(float64(l) - top)
		}
		logp := func(j int) float64 { return float64(row[j]) - top - math.Log(z) }
		entropy := 0.0
		for j := range actions {
			entropy -= math.Exp(logp(j)) * logp(j)
		}
		dv := float64(row[actions]) - target
		loss += (-adv*logp(action) + dv*dv/2 - 0.01*entropy) / float64(n)
		for j := range actions {
			p := math.Exp(logp(j))
			g := adv*p + 0.01*p*(logp(j)+entropy)
			if j == action {
				g -= adv
			}
			dOut[r*width+j] = float32(g / float64(n))
		}
		dOut[r*width+actions] = float32(dv / float64(n))
	}
	return loss, dOut
}

// policyLoss is the mean over rows of a loss for the heads of any spec: the value as above; each
// block of "action_net" as a categorical distribution, or a Gaussian with "log_std"; half the
// squares of what else there is. Logits have a penalty, since without it the bias that all nodes
// share has the gradient 0, of which Adam would make steps out of rounding errors. Advantages
// are positive, so that the loss does not pass through 0.
func policyLoss(spec models.Spec, out []float32, n int, seed uint64) (loss float64, dOut []float32) {
	rng := rand.New(rand.NewPCG(seed, 6))
	width := spec.Outputs()
	dOut = make([]float32, len(out))
	action, actions := spec.Head("action_net")
	value, _ := spec.Head("value_net")
	logStd, gaussian := spec.Head("log_std")
	blocks := []int{actions}
	for _, h := range spec.Heads {
		if h.Name == "action_net" && len(h.Blocks) > 0 {
			blocks = h.Blocks
		}
	}
	for r := range n {
		row, d := out[r*width:(r+1)*width], dOut[r*width:(r+1)*width]
		adv := math.Abs(rng.NormFloat64())
		add := func(i int, l, g float64) { loss, d[i] = loss+l/float64(n), d[i]+float32(g/float64(n)) }
		for i := range row {
			isAction := i >= action && i < action+actions
			isStd := gaussian > 0 && i >= logStd && i < logStd+gaussian
			x := float64(row[i])
			switch {
			case isAction:
				add(i, 0.05*x*x, 0.1*x)
			case i != value && !isStd:
				add(i, x*x/2, x)
			}
		}
		dv := float64(row[value]) - rng.NormFloat64()
		add(value, dv*dv/2, dv)
		if gaussian > 0 {
			for j := range actions {
				std := math.Exp(float64(row[logStd+j]))
				z := (rng.NormFloat64() - float64(row[action+j])) / std
				// -adv·log p, where log p = -z²/2 - log σ - log √2π, with the entropy log σ
				add(action+j, adv*z*z/2, -adv*z/std)
				add(logStd+j, (adv-0.01)*float64(row[logStd+j]), adv-0.01-adv*z*z)
			}
			continue
		}
		at := action
		for _, size := range blocks {
			l, g := categoricalLoss(row[at:at+size], rng.IntN(size), adv)
			loss += l / float64(n)
			for j := range g {
				d[at+j] += float32(g[j] / float64(n))
			}
			at += size
		}
	}
	return loss, dOut
}

// categoricalLoss is -adv·log p(action) - 0.01·entropy of one distribution and its gradient.
func categoricalLoss(logits []float32, action int, adv float64) (loss float64, d []float64) {
	z, top := 0.0, math.Inf(-1)
	for _, l := range logits {
		top = max(top, float64(l))
	}
	for _, l := range logits {
		z += math.Exp(float64(l) - top)
	}
	logp := func(j int) float64 { return float64(logits[j]) - top - math.Log(z) }
	entropy := 0.0
	for j := range logits {
		entropy -= math.Exp(logp(j)) * logp(j)
	}
	d = make([]float64, len(logits))
	for j := range d {
		p := math.Exp(logp(j))
		d[j] = adv*p + 0.01*p*(logp(j)+entropy)
	}
	d[action] -= adv
	return -adv*logp(action) - 0.01*entropy, d
}

// The network and Gorgonia's, from equal parameters on equal batches: the loss to 1e-5, every
// gradient to 1e-4 of the largest of its parameter, and weights after 100 updates by Adam to
// 1e-3.
func TestConformance(t *testing.T) {
	for name, spec := range map[string]models.Spec{
		"tanh": models.ActorCritic(12, 5, []int{33, 17}, models.Tanh),
		"relu": models.ActorCritic(12, 5, []int{33, 17}, models.ReLU),
		"shared": {
			Inputs: 12, Towers: []models.Tower{{Name: "t", Hidden: []int{32, 32}, Activation: models.Tanh}},
			Heads: []models.Head{{Name: "action_net", Size: 5, Gain: 0.01}, {Name: "value_net", Size: 1, Gain: 1}},
		},
	} {
		for i, v := range variants() {
			if testing.Short() && i > 0 {
				break
			}
			t.Run(v.name+"/"+name, func(t *testing.T) { conform(t, spec, v) })
		}
	}
}

// Networks of all kinds, on sequences with a state and starts of episodes.
func TestSpecConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("TestSpecs compares the same networks with another reference; run without -short")
	}
	for name, spec := range oracle.Specs() {
		for _, v := range variants() {
			t.Run(v.name+"/"+name, func(t *testing.T) { conformSequences(t, spec, v) })
		}
	}
}

func conformSequences(t *testing.T, spec models.Spec, v variant) {
	const steps, n = 4, 16
	ours, err := newNetwork(spec, rand.New(rand.NewPCG(1, 2)), v)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := graph.New(spec, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	compareTraining(t, ours, theirs, func(net models.Network, step uint64) float64 {
		t.Helper()
		_, obs, state, starts := oracle.Sequence(spec, steps, n, step)
		out, err := net.(models.Recurrent).ForwardSequence(obs, steps, n, state, starts)
		if err != nil {
			t.Fatal(err)
		}
		loss, dOut := policyLoss(spec, out, steps*n, step)
		if err := net.Backward(dOut); err != nil {
			t.Fatal(err)
		}
		return loss
	})
}

func conform(t *testing.T, spec models.Spec, v variant) {
	const n = 300 // two shards
	ours, err := newNetwork(spec, rand.New(rand.NewPCG(1, 2)), v)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := graph.New(spec, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	compareTraining(t, ours, theirs, func(net models.Network, step uint64) float64 {
		t.Helper()
		out, err := net.Forward(oracle.Normal(n*spec.Inputs, step), n)
		if err != nil {
			t.Fatal(err)
		}
		loss, dOut := actorCriticLoss(out, n, step)
		if err := net.Backward(dOut); err != nil {
			t.Fatal(err)
		}
		return loss
	})
}

// compareTraining trains both networks by Adam and compares losses, the first gradients and
// the weights at the end. update computes the gradients and returns the loss.
func compareTraining(t *testing.T, ours, theirs models.Network, update func(net models.Network, step uint64) float64) {
	t.Helper()
	updates := 100
	if testing.Short() {
		updates = 20 // Gorgonia takes seconds for each network under the race detector
	}
	a, b := optim.NewAdam(ours.Params(), optim.DefaultAdam()), optim.NewAdam(theirs.Params(), optim.DefaultAdam())
	for step := range uint64(updates) {
		lossA, lossB := update(ours, step), update(theirs, step)
		if math.Abs(lossA-lossB) > 1e-5*math.Abs(lossB) {
			t.Fatalf("step %d: loss %v, Gorgonia's %v", step, lossA, lossB)
		}
		if step == 0 {
			var want []float64
			for _, p := range theirs.Params() {
				want = append(want, oracle.Float64s(p.Grad)...)
			}
			oracle.CheckGradients(t, "first update", ours.Params(), want)
		}
		a.Step(1e-3)
		b.Step(1e-3)
	}
	for i, p := range ours.Params() {
		for j, got := range p.Value {
			if want := theirs.Params()[i].Value[j]; math.Abs(float64(got-want)) > 1e-3*max(1e-2, math.Abs(float64(want))) {
				t.Fatalf("after %d updates %s[%d] is %v, Gorgonia's %v", updates, p.Name, j, got, want)
			}
		}
	}
}
