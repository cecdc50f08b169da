package session

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/envs/space"
	"github.com/kubernasium/kubernasium/server/wire"
)

// stepper returns a function that has a session carry out one step of n CartPoles.
func stepper(t testing.TB, n int) (step func()) {
	s := newSession(t, newConfig())
	for _, r := range []any{
		m{"t": "hello", "id": 1, "ver": []int{1, 0}},
		m{"t": "make", "id": 2, "env": "classic/CartPole-v1", "n": n, "autoreset": "SAME_STEP"},
		m{"t": "reset", "id": 3, "eid": 1, "seed": 1},
	} {
		if got := handle(t, s, r); got["t"] == "err" {
			t.Fatal(got)
		}
	}
	l, err := wire.NewLayout(n, space.NewBox(-1, 1, 4), space.Discrete{N: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := wire.NewWriter()
	l.EncodeStepRequest(w, math.MaxUint64, 1, make([]float32, n))
	const idAt = 12 // after the map's header, "t", "step", "id" and the code of a uint64
	id, req := uint64(1)<<40, &Request{Data: w.Bytes()}
	return func() {
		id++
		binary.BigEndian.PutUint64(w.Bytes()[idAt:], id)
		if reply := s.Admit(req); reply != nil {
			t.Fatalf("%q", reply)
		}
		if reply := s.Do(ctx, req); reply[4] != 's' { // of "step.ok"
			t.Fatalf("%q", reply)
		}
	}
}

// A step through session and codec allocates nothing.
func TestStepAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates; run without -race")
	}
	step := stepper(t, 16)
	for range 100 {
		step()
	}
	if got := testing.AllocsPerRun(500, step); got != 0 {
		t.Errorf("%v allocations in a step, want 0", got)
	}
}

func BenchmarkStep(b *testing.B) {
	for _, n := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			step := stepper(b, n)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "env-steps/s")
		})
	}
}

// Quantiles are right to within 10 %.
func TestHistogram(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 {
		t.Errorf("quantile of nothing %v, want 0", h.quantile(0.5))
	}
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * 7 * time.Microsecond)
	}
	h.add(-time.Second) // a clock that was set back
	for q, want := range map[float64]float64{0.01: 70, 0.5: 3500, 0.99: 6930} {
		if got := h.quantile(q); math.Abs(got/want-1) > 0.1 {
			t.Errorf("quantile %v is %v µs, want %v within 10 %%", q, got, want)
		}
	}
}
