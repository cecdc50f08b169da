package command

import (
	"math"
	"runtime/debug"
	"testing"
)

// TestMemoryLimits: flags win over the machine's memory, and GOMEMLIMIT over the limit for the collector.
func TestMemoryLimits(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	debug.SetMemoryLimit(math.MaxInt64)

	t.Setenv("GOMEMLIMIT", "1GiB")
	var o options
	o.limitMemory()
	if l := o.limits; l.MemoryServer != machineMemory()/2 || l.MemoryServer < 64<<20 || l.MemorySession != l.MemoryServer/2 {
		t.Errorf("limits of %d bytes, and %d of a session, on a machine of %d, want halves", l.MemoryServer, l.MemorySession, machineMemory())
	}
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("the collector's limit is %d although GOMEMLIMIT is set", got)
	}

	t.Setenv("GOMEMLIMIT", "")
	o.limits.MemoryServer, o.limits.MemorySession = 1000, 300
	o.limitMemory()
	if l := o.limits; l.MemoryServer != 1000 || l.MemorySession != 300 {
		t.Errorf("limits of %d and %d bytes, want those of the flags, 1000 and 300", l.MemoryServer, l.MemorySession)
	}
	if got := debug.SetMemoryLimit(-1); got != 1800 {
		t.Errorf("the collector's limit is %d, want 1800", got)
	}
}
