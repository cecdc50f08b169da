package cputime

import (
	"syscall"
	"time"
)

// Used returns the CPU time of this process on all cores.
func Used() time.Duration {
	self, err := syscall.GetCurrentProcess()
	var created, ended, kernel, user syscall.Filetime
	if err == nil {
		err = syscall.GetProcessTimes(self, &created, &ended, &kernel, &user)
	}
	if err != nil {
		panic("cputime: " + err.Error()) // it fails only for wrong arguments
	}
	ticks := func(t syscall.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) }
	return time.Duration(100 * (ticks(kernel) + ticks(user)))
}
