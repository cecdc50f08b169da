//go:build linux

package local

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dutyPeriod is the period of the duty cycle, equal to the period of the kernel's quota.
const dutyPeriod = periodMicros * time.Microsecond

// duty limits process groups by CPU affinity and a duty cycle. Each group gets as many cores as its share
// needs, rounded up, and is stopped for the excess part of each period.
type duty struct {
	mu    sync.Mutex
	cores []int // that this process may use
	next  int   // first core of the next group
}

// NewDuty returns limits by affinity and duty cycle.
func NewDuty() (Limits, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("local: affinity: %w", err)
	}
	d := &duty{}
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			d.cores = append(d.cores, c)
		}
	}
	return d, nil
}

// String implements [Limits].
func (d *duty) String() string { return "affinity and duty cycle" }

// Close implements [Limits].
func (d *duty) Close() error { return nil }

// Group implements [Limits].
func (d *duty) Group(_ string, milliCPU int64) (Group, error) {
	g := &dutyGroup{of: d, milliCPU: milliCPU, cycles: map[int]chan struct{}{}}
	d.mu.Lock()
	defer d.mu.Unlock()
	g.first = d.next
	d.next += g.cores()
	return g, nil
}

type dutyGroup struct {
	of       *duty
	first    int // first core
	milliCPU int64

	mu     sync.Mutex
	cycles map[int]chan struct{} // by process group; closed to end the cycle
	wait   sync.WaitGroup
}

// cores returns the number of cores that the share needs.
func (g *dutyGroup) cores() int {
	return min(int((g.milliCPU+999)/1000), len(g.of.cores))
}

func (g *dutyGroup) Add(pid int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.begin(pid)
}

// begin pins a process that has no children yet, and starts its duty cycle.
func (g *dutyGroup) begin(pid int) error {
	var set unix.CPUSet
	n := g.cores()
	for i := range n {
		set.Set(g.of.cores[(g.first+i)%len(g.of.cores)])
	}
	if err := unix.SchedSetaffinity(pid, &set); err != nil {
		return fmt.Errorf("local: affinity of process %d: %w", pid, err)
	}
	end := make(chan struct{})
	g.cycles[pid] = end
	run := time.Duration(float64(dutyPeriod) * float64(g.milliCPU) / float64(1000*n))
	if run < dutyPeriod {
		g.wait.Go(func() { cycle(pid, run, end) })
	}
	return nil
}

// cycle resumes and stops a process group until end is closed or the group is gone.
func cycle(pid int, run time.Duration, end <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for on := true; ; on = !on {
		select {
		case <-timer.C:
		case <-end:
			_ = syscall.Kill(-pid, syscall.SIGCONT) // it may be gone
			return
		}
		what, pause := syscall.SIGCONT, run
		if !on {
			what, pause = syscall.SIGSTOP, dutyPeriod-run
		}
		if err := syscall.Kill(-pid, what); err != nil {
			return
		}
		timer.Reset(pause)
	}
}

// Set changes the share of processes that have no children yet.
func (g *dutyGroup) Set(milliCPU int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.milliCPU = milliCPU
	pids := g.stop()
	var errs []error
	for _, pid := range pids {
		if err := g.begin(pid); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// stop ends the cycles.
func (g *dutyGroup) stop() (pids []int) {
	for pid, end := range g.cycles {
		close(end)
		pids = append(pids, pid)
	}
	g.wait.Wait()
	clear(g.cycles)
	return pids
}

func (g *dutyGroup) Kill() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, pid := range g.stop() {
		if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close implements [Group].
func (g *dutyGroup) Close() error { return g.Kill() }
