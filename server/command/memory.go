package command

import (
	"cmp"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// limitMemory derives the limits that flags do not set from the memory of the machine, or of its cgroup if that is
// less. Unless GOMEMLIMIT is set, it also sets Go's memory limit, to 1.8 times the estimated bytes, since estimates
// exclude garbage and the caches of baselines.
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

// machineMemory returns the memory of the machine or of its cgroup in bytes, whichever is less; 0 if unknown.
func machineMemory() int64 {
	var least int64
	for _, from := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := from(); err == nil && (least == 0 || int64(n) < least) {
			least = int64(n)
		}
	}
	return least
}
