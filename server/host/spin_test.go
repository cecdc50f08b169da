package host

import (
	"math"
	"runtime"
	"testing"
	"time"
	"unsafe"
)

func testSpin(t *testing.T) (s spin, client func(count uint32)) {
	t.Helper()
	s.head = &sharedHead{}
	return s, func(count uint32) { s.head.called.Store(count) }
}

// The head lies in the memory as the protocol says.
func TestSharedHead(t *testing.T) {
	var h sharedHead
	for _, tc := range []struct {
		name      string
		got, want uintptr
	}{
		{"asleep", unsafe.Offsetof(h.asleep), 4},
		{"request", unsafe.Offsetof(h.request), 16},
		{"replied", unsafe.Offsetof(h.replied), 64},
		{"serverAsleep", unsafe.Offsetof(h.serverAsleep), 68},
		{"reply", unsafe.Offsetof(h.reply), 80},
	} {
		if tc.got != tc.want {
			t.Errorf("%s lies at %d, want %d", tc.name, tc.got, tc.want)
		}
	}
}

// A look ends when the client has put another request into the memory, also where the counter overflows.
func TestSpinSees(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	}
	for _, taken := range []uint32{0, 7, math.MaxUint32} {
		s, client := testSpin(t)
		s.taken = taken
		client(taken + 1)
		if !s.wait() {
			t.Errorf("wait() = false with request %d", taken+1)
		}
		if s.skip != 0 || s.skips != 0 || s.head.serverAsleep.Load() != 0 {
			t.Errorf("skip %d, skips %d, asleep %d after a look that saw request %d, want 0", s.skip, s.skips, s.head.serverAsleep.Load(), taken+1)
		}
	}
}

// A side that is to sleep says so, and looks again afterwards: the other one may have written before it knew.
func TestSpinSleeps(t *testing.T) {
	s, client := testSpin(t)
	s.skip = 2
	if s.wait() || s.head.serverAsleep.Load() != 1 {
		t.Errorf("asleep %d without a request, want 1", s.head.serverAsleep.Load())
	}
	s.wake()
	if s.head.serverAsleep.Load() != 0 {
		t.Error("asleep after wake")
	}
	client(1)
	if !s.wait() || s.head.serverAsleep.Load() != 0 {
		t.Errorf("asleep %d with a request that nobody looked for, want 0", s.head.serverAsleep.Load())
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
	if !s.wait() {
		t.Error("wait() = false with a request")
	}
	if s.skips != 63 || s.skip != 63 {
		t.Errorf("skips %d, skip %d after a look that saw a frame, want 63", s.skips, s.skip)
	}
}

// With one core, and for a connection without shared memory, nobody looks.
func TestSpinLeavesACore(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s, client := testSpin(t)
	client(1)
	if !s.wait() { // a look would see it, and so does who is to sleep
		t.Error("wait() = false with a request")
	}
	if s.skips != 1 {
		t.Errorf("skips %d with one core, want 1", s.skips)
	}
	if n := spinners.Load(); n != 0 {
		t.Errorf("%d streams look, want 0", n)
	}
	var none spin
	if none.wait() || none.called() {
		t.Error("a request without memory")
	}
	none.wake()
}
