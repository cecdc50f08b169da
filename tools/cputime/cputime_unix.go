//go:build unix

// Package cputime returns the CPU time of this process for tests and measurements. Other programs affect it
// less than wall time.
package cputime

import (
	"syscall"
	"time"
)

// Used returns the CPU time of this process on all cores.
func Used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic("cputime: " + err.Error()) // it fails only for wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
