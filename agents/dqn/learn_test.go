package dqn

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/agents/agentstest"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/graph"
	"github.com/kubernasium/kubernasium/models/optim"
)

// online and target are values of three actions at observations 0 to 3.
var (
	online = [4][3]float32{{0.5, -1, 2}, {1, 3, 2}, {-0.5, 0.25, 4}, {2, 2, 2}}
	target = [4][3]float32{{5, 0, 1}, {10, 20, 30}, {-4, -5, -6}, {1, 1, 1}}
)

func lookUp(table [4][3]float32) *agentstest.Stub {
	return agentstest.NewStub(2, func(obs []float32, _ float32) []float32 { return table[int(obs[0])][:] })
}

// fill sets the learner's batch to these transitions.
func fill(l *Learner) {
	b := l.batch
	copy(b.Obs, []float32{0, 2, 3, 1})
	copy(b.Action, []float32{2, 0, 1, 1})
	copy(b.Return, []float32{1, -2, 0.5, 3})
	copy(b.Discount, []float32{0.5, 0.25, 0, 0.5})
	copy(b.NextObs, []float32{1, 1, 0, 2})
	copy(b.NextMask, []bool{true, true, true, true, true, false, true, true, true, false, true, false})
	copy(b.Weight, []float64{1, 1, 1, 1})
}

// Worked by hand from the tables, with targets Return + Discount·V(NextObs):
//
//	row  Q    V, plain       V, double        target, plain   double
//	0    2    30             20 (action 1)    16              11
//	1   −0.5  20 (not 30)    20 (action 1)    3               3
//	2    2    —              —                0.5             0.5
//	3    3    −5 (not −4)    −5 (not −6)      0.5             0.5
func TestTargets(t *testing.T) {
	for _, tc := range []struct {
		name   string
		double bool
		td     []float64
	}{
		{"plain", false, []float64{2 - 16, -0.5 - 3, 1.5, 2.5}},
		{"double", true, []float64{2 - 11, -0.5 - 3, 1.5, 2.5}},
	} {
		cfg := small()
		cfg.BatchSize, cfg.DoubleQ = 4, tc.double
		l := stubLearner(t, cfg, 3, 1, lookUp(online), lookUp(target))
		fill(l)
		loss, err := l.learn()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.td, l.td); diff != "" {
			t.Errorf("%s: errors (-want +got):\n%s", tc.name, diff)
		}
		want := 0.0
		for _, d := range tc.td {
			want += (math.Abs(d) - 0.5) / 4
		}
		if math.Abs(loss-want) > 1e-6 {
			t.Errorf("%s: loss %v, want %v", tc.name, loss, want)
		}
	}
}

// TestGradientAgainstFiniteDifferences takes errors on both sides of ±1, unequal weights, and a
// loss that is written out from its definition.
func TestGradientAgainstFiniteDifferences(t *testing.T) {
	for _, dueling := range []bool{false, true} {
		cfg := small()
		cfg.BatchSize, cfg.Dueling = 4, dueling
		width := 3
		if dueling {
			width = 4
		}
		outputs := []float64{0.5, -1, 2, 0.25, 1, 3, 2, -0.5, -0.5, 0.25, 4, 1, 2, 1.5, 2, -1}[:4*width]
		net := agentstest.NewStub(2, agentstest.Rows(outputs, width))
		l := stubLearner(t, cfg, 3, 1, net, net)
		b := l.batch
		copy(b.Obs, []float32{0, 1, 2, 3})
		copy(b.Action, []float32{2, 0, 1, 1})
		copy(b.Weight, []float64{1, 0.5, 0.25, 0.75})
		q := func(x []float64, i int) float64 {
			row, a := x[i*width:(i+1)*width], int(b.Action[i])
			if !dueling {
				return row[a]
			}
			return row[3] + row[a] - (row[0]+row[1]+row[2])/3
		}
		for i, d := range []float64{0.5, -0.75, 3, -2} { // the errors
			b.Return[i] = float32(q(outputs, i) - d)
			b.NextMask[3*i] = true
		}
		objective := func(x []float64) float64 {
			loss := 0.0
			for i := range 4 {
				d := math.Abs(q(x, i) - float64(b.Return[i]))
				h := d - 0.5
				if d < 1 {
					h = d * d / 2
				}
				loss += b.Weight[i] * h / 4
			}
			return loss
		}
		loss, err := l.learn()
		if err != nil {
			t.Fatal(err)
		}
		if want := objective(outputs); math.Abs(loss-want) > 1e-6 {
			t.Errorf("dueling %v: loss %v, want %v", dueling, loss, want)
		}
		for i, want := range fd.Gradient(nil, objective, outputs, &fd.Settings{Formula: fd.Central}) {
			if got := float64(net.DOut[i]); math.Abs(got-want) > 1e-6 {
				t.Errorf("dueling %v: gradient of output %d is %v, want %v", dueling, i, got, want)
			}
		}
	}
}

// sb3Case is the output of testdata/sb3.py for one configuration.
type sb3Case struct {
	Loss   float64   `json:"loss"`
	Params []float32 `json:"params"`
	Target []float32 `json:"target"`
}

// TestAgainstStableBaselines3 makes three gradient steps on one batch and then moves the target
// network, as DQN of stable-baselines3 2.9.2 does in testdata/sb3.py.
func TestAgainstStableBaselines3(t *testing.T) {
	agentstest.CheckSB3(t, "testdata/sb3.json", map[string]func(*Config){
		"defaults": func(*Config) {},
		"clipped":  func(c *Config) { c.MaxGradNorm, c.Tau = 0.1, 0.25 },
	}, func(t *testing.T, configure func(*Config)) sb3Case {
		cfg := small()
		cfg.NetArch, cfg.BatchSize = []int{4}, 8
		configure(&cfg)
		return trainLikeSB3(t, cfg)
	})
}

func trainLikeSB3(t *testing.T, cfg Config) sb3Case {
	t.Helper()
	env := agentstest.SB3Env(1)
	l, err := New(cfg, env, func(spec models.Spec) (models.Network, error) { return graph.New(spec, nil) }, 1)
	if err != nil {
		t.Fatal(err)
	}
	agentstest.SetSine(l.nets.Params, 0)
	agentstest.SetSine(l.nets.TargetParams, 5)
	b := l.batch
	for i := range 8 {
		x := float64(i)
		b.Obs[2*i], b.Obs[2*i+1] = float32(0.25*x-1), float32(0.5-0.125*x*x)
		b.NextObs[2*i], b.NextObs[2*i+1] = float32(0.25*x-0.5), float32(math.Cos(x))
		b.Action[i], b.Return[i], b.Discount[i], b.Weight[i] = float32(i%3), float32(i-3), [2]float32{0.9, 0.5}[i%2], 1
		for a := range 3 {
			b.NextMask[3*i+a] = true
		}
	}
	b.Discount[3] = 0
	var got sb3Case
	for range 3 {
		loss, err := l.learn()
		if err != nil {
			t.Fatal(err)
		}
		got.Loss += loss / 3
		optim.ClipGradNorm(l.nets.Params, cfg.MaxGradNorm)
		l.nets.Adam.Step(0.05)
	}
	l.updateTarget()
	got.Params, got.Target = agentstest.Flat(l.nets.Params), agentstest.Flat(l.nets.TargetParams)
	return got
}
