package vpa

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kubernasium/kubernasium/envs/cluster"
	"github.com/kubernasium/kubernasium/envs/cluster/sim"
	"github.com/kubernasium/kubernasium/envs/pcg"
	"github.com/kubernasium/kubernasium/envs/vpa/actions"
	"github.com/kubernasium/kubernasium/envs/vpa/metrics"
)

// drawn returns a task of generated workloads with the given options.
func drawn(t *testing.T, discrete bool, change func(*Options)) *Task {
	t.Helper()
	o := DefaultOptions()
	o.Steps = 300
	change(&o)
	if err := o.check(1, EncodingLog, EncodingRelative, EncodingUpstream); err != nil {
		t.Fatal(err)
	}
	src, err := newSource(o, discrete)
	if err != nil {
		t.Fatal(err)
	}
	return newTask(src)
}

// constantly plays an episode with one action and returns its cost.
func constantly(t *testing.T, task *Task, action []float32) float64 {
	t.Helper()
	ctx, c := context.Background(), sim.New()
	if err := task.Begin(ctx, c, rand.New(pcg.New(1))); err != nil {
		t.Fatal(err)
	}
	cost := 0.0
	for range task.MaxEpisodeSteps() {
		out, err := task.Apply(ctx, c, action)
		if err != nil {
			t.Fatal(err)
		}
		cost -= out.Reward
	}
	return cost
}

// TestHoldOfBaselines: recommenders decide at every step, however long an action holds, also
// where that is no divisor of the episode.
func TestHoldOfBaselines(t *testing.T) {
	for _, name := range []string{"upstream", "moving_window", "krr_simple"} {
		cost := func(hold, decisions int) float64 {
			task := drawn(t, false, func(o *Options) { o.Hold = hold })
			if n := task.MaxEpisodeSteps(); n != decisions {
				t.Fatalf("hold %d: episodes of %d actions, want %d", hold, n, decisions)
			}
			play(t, task, name, decisions, func(int) {})
			if task.steps != 300 {
				t.Errorf("hold %d: %d steps played, want 300", hold, task.steps)
			}
			return task.ledger.Weighted(&task.ledger.Total)
		}
		if one, seven := cost(1, 300), cost(7, 43); one != seven || one == 0 {
			t.Errorf("%s costs %v, and %v where actions hold for 7 steps", name, one, seven)
		}
	}
}

// TestHoldSums: an action that holds costs what it costs when it is given again at each step.
func TestHoldSums(t *testing.T) {
	action := []float32{-.1, .1, .3, 0, 0, .1, .2, 0}
	for _, encoding := range []string{EncodingLog, EncodingRelative, EncodingUpstream} {
		cost := func(hold int) float64 {
			return constantly(t, drawn(t, false, func(o *Options) { o.Hold, o.Encoding = hold, encoding }), action)
		}
		if one, ten := cost(1), cost(10); math.Abs(one-ten) > 1e-9 || one == 0 {
			t.Errorf("%s: cost %v, and %v where actions hold for 10 steps", encoding, one, ten)
		}
	}
}

// TestHoldScalesOnce: a discrete action that holds scales the target once.
func TestHoldScalesOnce(t *testing.T) {
	task := drawn(t, true, func(o *Options) { o.Hold = 30 })
	ctx, c := context.Background(), sim.New()
	if err := task.Begin(ctx, c, rand.New(pcg.New(1))); err != nil {
		t.Fatal(err)
	}
	before := task.rec.Target
	if _, err := task.Apply(ctx, c, []float32{5*7 + 6}); err != nil { // CPU by 1.25, memory by 2
		t.Fatal(err)
	}
	want := cluster.Resources{MilliCPU: int64(math.Round(1.25 * float64(before.MilliCPU))), MemoryBytes: 2 * before.MemoryBytes}
	if got := task.rec.Target; got != want {
		t.Errorf("target %+v after a held action from %+v, want %+v", got, before, want)
	}
}

// TestUpstreamEncoding: an action of zeros gives the requests of upstream's recommender; 1 is four times
// as much.
func TestUpstreamEncoding(t *testing.T) {
	options := func(o *Options) { o.Encoding = EncodingUpstream }
	task := drawn(t, false, options)
	play(t, task, "upstream", 300, func(int) {})
	want := task.ledger.Weighted(&task.ledger.Total)
	if got := constantly(t, drawn(t, false, options), make([]float32, actions.Size)); got != want || want == 0 {
		t.Errorf("actions of zeros cost %v, and upstream %v", got, want)
	}
	task = drawn(t, false, options)
	if err := task.Begin(context.Background(), sim.New(), rand.New(pcg.New(1))); err != nil {
		t.Fatal(err)
	}
	r := task.decode([]float32{-1, 1, 0, .5, 1, 1, -.5, 0}, 0)
	if got, want := r.Target, metrics.Scale(task.feed.Latest.Target, 4); got != want {
		t.Errorf("factors 4 of %+v give %+v", task.feed.Latest.Target, got)
	}
	if got, want := r.Upper.MemoryBytes, int64(math.Round(float64(task.feed.Latest.Upper.MemoryBytes)/2)); got != want {
		t.Errorf("half of the upper bound %d is %d, want %d", task.feed.Latest.Upper.MemoryBytes, got, want)
	}
}

// TestSafety: actions that ask for the least memory let containers be killed; with safety
// memory, requests hold what upstream's recommender gives and the peak of a day, plus 15 %.
func TestSafety(t *testing.T) {
	for _, discrete := range []bool{false, true} {
		action := []float32{0, 0, 0, 0, -1, -1, -1, -1}
		if discrete {
			action = []float32{3 * 7} // CPU as it is, memory by 0.5
		}
		for _, safety := range []string{SafetyNone, SafetyMemory} {
			task := drawn(t, discrete, func(o *Options) {
				o.Safety, o.Workload, o.Hold, o.InitialLow, o.InitialHigh = safety, "constant", 10, 2, 2
			})
			constantly(t, task, action)
			if safety == SafetyNone {
				if task.ledger.Sum.OOMs == 0 {
					t.Errorf("discrete %v: nothing killed with the least memory", discrete)
				}
				continue
			}
			if task.ledger.Sum.OOMs != 0 {
				t.Errorf("discrete %v: %d OOM kills of a constant workload", discrete, task.ledger.Sum.OOMs)
			}
			least := max(task.feed.Latest.Target.MemoryBytes, int64(math.Ceil(1.15*task.metrics.Day[1].Max())))
			if got := task.dynamics.Pods[0].Requests.MemoryBytes; got < least || got > 2*least {
				t.Errorf("discrete %v: requests %d bytes in the end, want at least %d and about that", discrete, got, least)
			}
		}
	}
}
