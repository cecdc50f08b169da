package forecast

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/kubernasium/kubernasium/agents"
	"github.com/kubernasium/kubernasium/envs"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/models"
	"github.com/kubernasium/kubernasium/models/fused"
)

func newNet(t *testing.T, hidden int) *fused.Network {
	t.Helper()
	net, err := fused.New(Spec(hidden), rand.New(pcg.New(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { net.Close() })
	return net
}

// levels returns episodes whose CPU usage is drawn at each step, uniform between 1 and 4
// times upstream's target, and whose memory is half of it.
func levels(rng *rand.Rand, steps, n int) Episodes {
	e := Episodes{Obs: make([]float32, steps*n*obsSize), Steps: steps, N: n}
	for r := range steps * n {
		o := e.Obs[r*obsSize : (r+1)*obsSize]
		x := 1 + 3*rng.Float64()
		// Upstream's target is at 0.5 of either scale, and so is the day's peak.
		o[cpuUsed] = 0.5 + float32(math.Log2(x)/cpuDoublings)
		o[memUsed] = 0.5 - float32(1./memDoublings)
		o[cpuUsed+dayPeak], o[memUsed+dayPeak] = 0.5, 0.5
	}
	return e
}

// TestDemand: usage of 1 core at first and 3 later, the day's peak 2 and upstream's target 1 core.
func TestDemand(t *testing.T) {
	now, then := make([]float32, obsSize), make([]float32, obsSize)
	at := func(cores float64) float32 { return float32(math.Log2(1000*cores) / cpuDoublings) } // 1 m is 0
	now[cpuUsed], now[cpuUsed+dayPeak], now[cpuRelative+dayPeakRelative] = at(1), at(2), 0.5
	then[cpuUsed] = at(3)
	if got, want := demand(now, then, cpuUsed, cpuRelative, cpuDoublings), math.Log(3)/math.Log(4); math.Abs(got-want) > 1e-6 {
		t.Errorf("demand(3 cores later, target 1 core) = %v, want log4(3) = %v", got, want)
	}
}

// TestPinball: hand-worked, and the derivative by finite differences.
func TestPinball(t *testing.T) {
	for _, tc := range []struct{ x, y, q, want float64 }{{1, 3, 0.8, 1.6}, {3, 1, 0.8, 0.4}, {2, 2, 0.5, 0}} {
		var d float32
		if got := pinball(tc.x, tc.y, tc.q, 1, &d); math.Abs(got-tc.want) > 1e-12 {
			t.Errorf("pinball(%v, %v, %v) = %v, want %v", tc.x, tc.y, tc.q, got, tc.want)
		}
		if tc.x == tc.y {
			continue
		}
		want := fd.Derivative(func(x float64) float64 { var d float32; return pinball(x, tc.y, tc.q, 1, &d) }, tc.x, nil)
		if math.Abs(float64(d)-want) > 1e-6 {
			t.Errorf("its derivative is %v, by differences %v", d, want)
		}
	}
}

// TestLearnsQuantiles: usage is uniform between 1 and 4 times the target, whose quantiles are
// 1+3q, so that the network is to give log4(1+3q).
func TestLearnsQuantiles(t *testing.T) {
	cfg := Defaults()
	cfg.Hidden, cfg.Horizon, cfg.Episodes, cfg.Epochs, cfg.LearningRate = 4, 4, 32*2000, 1, 0.02
	net := newNet(t, cfg.Hidden)
	tr, err := NewTrainer(cfg, net)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		if _, err := tr.Step(levels(rng, 12, 32)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := net.ForwardSequence(make([]float32, len(read)), 1, 1, make([]float32, net.StateSize()), make([]bool, 1))
	if err != nil {
		t.Fatal(err)
	}
	for j, q := range Quantiles {
		if want := math.Log(1+3*q) / math.Log(4); math.Abs(float64(out[j])-want) > 0.03 {
			t.Errorf("the %v-quantile is %v, want %v", q, out[j], want)
		}
	}
	if got := float64(out[len(Quantiles)]); math.Abs(got+0.5) > 0.03 {
		t.Errorf("memory is %v, want -0.5: half of the target", got)
	}
}

// TestRecommend: hand-worked. The band 1.5 is log4(1.5) = 0.2925.
func TestRecommend(t *testing.T) {
	p := &Policy{cfg: Defaults(), at: 1}
	obs, a := make([]float32, obsSize), make([]float32, actionSize)
	obs[cpuRelative+6], obs[cpuRelative+7] = -0.5, 0.25 // upstream's bounds are a half and 1.41 of its target
	p.recommend([]float32{-1, -0.25, 0, 0.1, -0.1008}, obs, a)
	for i, want := range []float32{-0.0425, -0.25, -0.2075, -0.25, -0.2925, 0, 0.2925, 0} {
		if math.Abs(float64(a[i]-want)) > 1e-3 {
			t.Errorf("element %d is %v, want %v", i, a[i], want)
		}
	}
	// A limit of twice the request holds the highest quantile 0.6 if the request is 0.1.
	p.recommend([]float32{-1, -0.25, 0, 0.6, 0}, obs, a)
	if math.Abs(float64(a[1])-0.1) > 1e-6 {
		t.Errorf("the target is %v, want 0.1", a[1])
	}
}

func info() agents.EnvInfo {
	return agents.EnvInfo{ID: "k8s/VerticalPodAutoscaler-v0", Obs: space.NewBox(-1, 1, obsSize), Act: space.NewBox(-1, 1, actionSize), NumEnvs: 2}
}

// TestFile: a policy read from a file acts as the network that was written, and starts again with
// each episode.
func TestFile(t *testing.T) {
	cfg := Defaults()
	cfg.Hidden = 5
	net := newNet(t, cfg.Hidden)
	f, err := File(cfg, info(), net, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := models.Write(&buf, f); err != nil {
		t.Fatal(err)
	}
	back, err := models.Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	other, err := fused.New(back.Meta.Spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := back.Params(other.Params()); err != nil {
		t.Fatal(err)
	}
	p, err := NewPolicy(other, back)
	if err != nil {
		t.Fatal(err)
	}
	b := &envs.Batch{Obs: make([]float32, 2*obsSize), Reward: make([]float64, 2), EpisodeLength: make([]int64, 2),
		Terminated: make([]bool, 2), Truncated: make([]bool, 2)}
	for i := range b.Obs {
		b.Obs[i] = float32(i%7) / 10
	}
	act := func() []float32 {
		a := make([]float32, 2*actionSize)
		if err := p.Act(b, a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := act()
	b.EpisodeLength[0], b.EpisodeLength[1] = 1, 0 // the second begins again
	second := act()
	if first[1] == second[1] || first[actionSize+1] != second[actionSize+1] {
		t.Errorf("targets %v and %v, then %v and %v: want another, and the same again", first[1], first[actionSize+1], second[1], second[actionSize+1])
	}
}

// TestRefuses: spaces, settings and networks of something else.
func TestRefuses(t *testing.T) {
	e := info()
	e.Obs = space.NewBox(-1, 1, 29)
	if err := CheckEnv(e); err == nil {
		t.Error("observations of 29 numbers are taken")
	}
	cfg := Defaults()
	cfg.Quantile = 0.3
	if _, err := NewTrainer(cfg, newNet(t, 4)); err == nil {
		t.Error("a quantile of 0.3 is taken, which the network does not give")
	}
	f, err := File(Defaults(), info(), newNet(t, 4), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Meta.Spec = Spec(4)
	if _, err := NewPolicy(newNet(t, 4), f); !errors.Is(err, models.ErrMismatch) {
		t.Errorf("a network of 4 cells for settings of %d: %v, want ErrMismatch", Defaults().Hidden, err)
	}
	tr, err := NewTrainer(Defaults(), newNet(t, Defaults().Hidden))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Step(Episodes{Obs: make([]float32, 10), Steps: 2, N: 1}); err == nil {
		t.Error("episodes of 10 numbers are taken")
	}
}
