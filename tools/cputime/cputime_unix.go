//go:build unix

// Package cputime returns the processor time of this process, for tests and measurements: other programs change it
// less than the time on the wall.
package cputime

import (
	"syscall"
	"time"
)

// Used returns the time that this process has used of all cores.
func Used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("cputime: " + err.Error()) // it fails for wrong arguments alone
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
