package recommender

import (
	"strings"
	"testing"
	"time"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// The values are those of upstream's estimators for one sample: percentile, then margin.
func TestSingleSamples(t *testing.T) {
	r := defaultRecommender(t)
	for milli, want := range map[int64]int64{50: 63, 100: 126, 250: 296, 500: 587, 1000: 1168, 2000: 2406} {
		s := r.NewState(0)
		var c Container
		c.AddCPU(s, 0, milli)
		var rec Recommendation
		if s.Recommend(&rec); rec.Target.MilliCPU != want {
			t.Errorf("target for %d m is %d, want %d", milli, rec.Target.MilliCPU, want)
		}
	}
	raw := defaultRecommender(t, func(c *Config) { c.MinMemoryMB = 0 })
	for mib, want := range map[int64]int64{
		128: 163378051, 256: 323522422, 512: 628694953, 1024: 1238659775, 2048: 2539377048, 4096: 4992073454,
	} {
		s := raw.NewState(0)
		var c Container
		c.AddMemory(s, 0, mib<<20)
		var rec Recommendation
		if s.Recommend(&rec); rec.Target.MemoryBytes != want {
			t.Errorf("target for %d MiB is %d, want %d", mib, rec.Target.MemoryBytes, want)
		}
	}
}

func TestPercentileOfThreeSamples(t *testing.T) {
	r := defaultRecommender(t, func(c *Config) {
		c.MarginFraction = 0
		c.CPU.LowerPercentile, c.CPU.TargetPercentile = 0.2, 0.2
		c.Memory.LowerPercentile, c.Memory.TargetPercentile = 0.5, 0.5
	})
	s := r.NewState(0)
	for i := range int64(3) { // of three pods, so that there are three memory peaks
		var c Container
		c.AddCPU(s, 0, 1000*(i+1))
		c.AddMemory(s, 0, 1e9*(i+1))
	}
	var rec Recommendation
	s.Recommend(&rec)
	if want := (Amounts{1016, 2093479957}); rec.Target != want {
		t.Errorf("target %v, want %v", rec.Target, want)
	}
}

// 9 CPU samples 2 min apart: 16 of 1440 minutes, 9 of 1440 samples, so that the confidence is
// 9/1440 = 0.00625. The upper bound is times 1 + 1/0.00625 = 161, the lower one times
// (1 + 0.001/0.00625)^-2 = 1.16^-2 = 0.743163. 1 core becomes 1168 m with its margin, 1 GiB
// 1238659775 B.
func TestConfidence(t *testing.T) {
	s := defaultRecommender(t).NewState(0)
	var c Container
	for i := range 9 {
		c.AddCPU(s, time.Duration(i)*2*time.Minute, 1000)
		c.AddMemory(s, time.Duration(i)*2*time.Minute, 1<<30)
	}
	var rec Recommendation
	s.Recommend(&rec)
	want := Bounds{
		Lower:  Amounts{868, 920525992},
		Target: Amounts{1168, 1238659775},
		Upper:  Amounts{188048, 199424223775},
	}
	if rec.Bounds != want {
		t.Errorf("%+v, want %+v", rec.Bounds, want)
	}
}

func TestMinimum(t *testing.T) {
	for containers, want := range map[int]Amounts{1: {25, 262144000}, 2: {12, 131072000}, 3: {8, 87381333}} {
		s := defaultRecommender(t, func(c *Config) { c.Containers = containers }).NewState(0)
		var rec Recommendation
		s.Recommend(&rec) // before any sample
		if rec.Bounds != (Bounds{want, want, want}) {
			t.Errorf("%d containers, no sample: %+v, want %v", containers, rec.Bounds, want)
		}
		var c Container
		c.AddCPU(s, 0, 1)
		c.AddMemory(s, 0, 1e6)
		s.Recommend(&rec)
		if rec.Lower != want || rec.Upper != (Amounts{MaxAmount, MaxAmount}) {
			t.Errorf("%d containers, one sample: %+v, want a lower bound of %v and none above", containers, rec.Bounds, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct{ x, round, want int64 }{
		{100, 7, 105}, {100, 10, 100}, {0, 5, 0}, {100, 1, 100}, {1000, 3, 1002}, {1231241, 13, 1231243},
		{839500000, 128 * mebi, 896 * mebi}, {262144000, 256 * mebi, 256 * mebi},
	} {
		e := estimator{round: c.round}
		if got := e.format(c.x); got != c.want {
			t.Errorf("%d rounded up to a multiple of %d is %d, want %d", c.x, c.round, got, c.want)
		}
	}
}

func TestAmount(t *testing.T) {
	for x, want := range map[float64]int64{
		69.946: 69, 615.35112: 615, 17.2071: 17, 4.55: 4, 12.3456789: 12, 1.23456789: 1, -1: 0, 1e14: 1e14, 1e15: 1e14,
	} {
		if got := amount(x); got != want {
			t.Errorf("amount(%v) = %d, want %d", x, got, want)
		}
	}
}

func TestPolicy(t *testing.T) {
	// The amounts of upstream's tables, whose M and G stand for any unit of memory.
	a := func(cpu, memory int64) Amounts { return Amounts{cpu, memory} }
	first := Bounds{Lower: a(31, 31), Target: a(42, 42), Upper: a(53, 53)}
	second := Bounds{Lower: a(20, 4300), Target: a(30, 5000), Upper: a(50, 5500)}
	for _, c := range []struct {
		name   string
		policy Policy
		in     Bounds
		want   Bounds
	}{
		{"none", Policy{}, first, first},
		{"min", Policy{MinAllowed: a(50, 50)}, first, Bounds{a(50, 50), a(50, 50), a(53, 53)}},
		{"max", Policy{MaxAllowed: a(40, 40)}, first, Bounds{a(31, 31), a(40, 40), a(40, 40)}},
		{"global max", Policy{GlobalMaxAllowed: a(40, 40)}, first, Bounds{a(31, 31), a(40, 40), a(40, 40)}},
		{"min and global max", Policy{MinAllowed: a(35, 35), GlobalMaxAllowed: a(50, 50)}, first, Bounds{a(35, 35), a(42, 42), a(50, 50)}},
		{"CPU max, global memory max", Policy{MaxAllowed: a(40, 0), GlobalMaxAllowed: a(0, 40)}, first, Bounds{a(31, 31), a(40, 40), a(40, 40)}},
		{"CPU max over global max", Policy{MaxAllowed: a(40, 0), GlobalMaxAllowed: a(30, 30)}, first, Bounds{a(31, 30), a(40, 30), a(40, 30)}},
		{"min and max", Policy{MinAllowed: a(40, 4000), MaxAllowed: a(45, 4500)}, second, Bounds{a(40, 4300), a(40, 4500), a(45, 4500)}},
		{"whole cores", Policy{IntegerCPU: true}, Bounds{a(5200, 1), a(8000, 1), a(8100, 1)}, Bounds{a(6000, 1), a(8000, 1), a(9000, 1)}},
		{"whole cores, then max", Policy{IntegerCPU: true, MaxAllowed: a(8500, 0)}, Bounds{a(5200, 1), a(8000, 1), a(8900, 1)}, Bounds{a(6000, 1), a(8000, 1), a(8500, 1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := Recommendation{Bounds: c.in, UncappedTarget: c.in.Target}
			c.policy.Apply(&rec)
			if rec.Bounds != c.want || rec.UncappedTarget != c.in.Target {
				t.Errorf("%+v, uncapped %v; want %+v, uncapped %v", rec.Bounds, rec.UncappedTarget, c.want, c.in.Target)
			}
		})
	}
	rec := Recommendation{UncappedTarget: a(8100, 1)}
	(&Policy{IntegerCPU: true}).Apply(&rec)
	if rec.UncappedTarget != a(9000, 1) {
		t.Errorf("uncapped target in whole cores: %v, want 9000m", rec.UncappedTarget)
	}
}

func TestAllocations(t *testing.T) {
	s := defaultRecommender(t).NewState(0)
	var c Container
	var rec Recommendation
	var now time.Duration
	policy := Policy{IntegerCPU: true, MaxAllowed: Amounts{1000, 0}}
	if n := testing.AllocsPerRun(1000, func() {
		now += time.Hour
		c.AddCPU(s, now, int64(now/time.Hour)%3000)
		c.AddMemory(s, now, int64(now)%1e10)
		if err := c.RecordOOM(s, now, 1e9); err != nil {
			t.Fatal(err)
		}
		s.Recommend(&rec)
		policy.Apply(&rec)
	}); n != 0 {
		t.Errorf("%v allocations a step, want 0", n)
	}
}
