package command

import (
	"cmp"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// limitMemory sets the limits that the flags leave open by the memory of the machine, or of the cgroup if that has
// less. It also sets the limit at which Go's collector works harder, unless the variable GOMEMLIMIT does: estimates
// leave out garbage and what baselines keep, for which it allows four fifths more.
func (o *options) limitMemory() {
	l := &o.limits
	if l.MemoryServer == 0 {
		l.MemoryServer = machineMemory() / 2
	}
	l.MemorySession = cmp.Or(l.MemorySession, l.MemoryServer/2)
	if os.Getenv("GOMEMLIMIT") == "" && l.MemoryServer > 0 {
		debug.SetMemoryLimit(l.MemoryServer / 5 * 9)
	}
}

// machineMemory returns the bytes of the machine or of its cgroup, 0 if unknown.
func machineMemory() int64 {
	var least int64
	for _, from := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := from(); err == nil && (least == 0 || int64(n) < least) {
			least = int64(n)
		}
	}
	return least
}
