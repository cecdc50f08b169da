package host

import (
	"math"
	"runtime"
	"testing"
	"time"
)

func testSpin(t *testing.T) (s spin, client func(count uint32)) {
	t.Helper()
	memory := make([]byte, 128)
	s = newSpin(memory)
	return s, func(count uint32) { s.requests.Store(count) }
}

// A look ends when the client has counted another frame, also where the counter overflows.
func TestSpinSees(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	}
	for _, seen := range []uint32{0, 7, math.MaxUint32} {
		s, client := testSpin(t)
		s.seen = seen
		client(seen + 1)
		s.wait()
		if s.skip != 0 || s.skips != 0 {
			t.Errorf("skip %d, skips %d after a look that saw frame %d, want 0", s.skip, s.skips, seen+1)
		}
		s.read()
		if s.seen != seen+1 {
			t.Errorf("seen %d after frame %d, want %d", s.seen, seen+1, seen+1)
		}
	}
}

// After looks in vain ever more reads go without one, up to a bound. Each that sees something takes one off.
func TestSpinSkips(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	}
	s, client := testSpin(t)
	for _, want := range []int{1, 3, 7, 15, 31, 63, 64, 64} {
		start := time.Now()
		s.wait()
		if took := time.Since(start); took < spinFor {
			t.Errorf("a look in vain took %v, want at least %v", took, spinFor)
		}
		for reads := range want {
			if s.skip != want-reads {
				t.Fatalf("%d reads without a look to come, want %d", s.skip, want-reads)
			}
			s.wait()
		}
	}
	client(1)
	s.wait()
	if s.skips != 63 || s.skip != 63 {
		t.Errorf("skips %d, skip %d after a look that saw a frame, want 63", s.skips, s.skip)
	}
}

// A client may count a frame after the server has read it; another difference is put right.
func TestSpinCounts(t *testing.T) {
	for _, tc := range []struct {
		name         string
		seen, client uint32
		want         uint32
	}{
		{"in time", 4, 5, 5},
		{"late", 4, 4, 5},
		{"one too many", 4, 6, 6},
		{"far too few", 4, 1, 1},
		{"a client that never counts", 0, 0, 1},
		{"and its next frame", 1, 0, 0},
	} {
		s, client := testSpin(t)
		s.seen = tc.seen
		client(tc.client)
		s.read()
		if s.seen != tc.want {
			t.Errorf("%s: seen %d, want %d", tc.name, s.seen, tc.want)
		}
	}
}

// With one core, and for a connection without shared memory, nobody looks.
func TestSpinLeavesACore(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s, client := testSpin(t)
	client(1) // a look would see it
	s.wait()
	if s.skips != 1 {
		t.Errorf("skips %d with one core, want 1", s.skips)
	}
	if n := spinners.Load(); n != 0 {
		t.Errorf("%d streams look, want 0", n)
	}
	var none spin
	none.wait()
	none.read()
	none.wrote()
}
