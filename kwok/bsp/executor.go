package bsp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrDead is wrapped by the error of a superstep in which a task ended without completing its work.
var ErrDead = errors.New("bsp: a task is dead")

// ErrLate is wrapped by the error of a gang start or a superstep that exceeds its limit.
var ErrLate = errors.New("bsp: a task is late")

// An Executor starts jobs whose supersteps take real time.
type Executor interface {
	// Setting describes machine and method. Durations of different settings do not mix.
	Setting() string
	// MostMilliCPU returns the greatest share of a task, and of all tasks of a job together.
	MostMilliCPU() int64
	// Start starts all tasks of a job, or none: they are ready for a superstep when it returns.
	Start(ctx context.Context, j Job) (Crew, error)
	Close() error
}

// A Crew is the running tasks of a job. One goroutine at a time may use it.
type Crew interface {
	// Replan changes the shares of tasks by the job's method, and returns when all are ready with them.
	Replan(ctx context.Context, milliCPU []int64) error
	// Superstep releases all tasks together and waits at the barrier for all. It returns the duration of
	// each. The error for a task that is dead wraps ErrDead; that for one that is not at the barrier
	// within the job's limit ErrLate. After an error the crew can only be closed.
	Superstep(ctx context.Context, sizes []float64) ([]time.Duration, error)
	Close() error
}

// Job describes a job to an [Executor].
type Job struct {
	Works    []Work
	MilliCPU []int64 // share of each task
	Method   Method
	Limit    time.Duration // of a gang start, and of a superstep
}

// MinMilliCPU is the least share of a task: the kernel's least quota is 1 ms in 100 ms.
const MinMilliCPU = 10

// Check reports what is wrong with a job, for an executor that can give most millicores.
func (j *Job) Check(most int64) error {
	if len(j.Works) == 0 || len(j.Works) > maxTasks || len(j.MilliCPU) != len(j.Works) {
		return fmt.Errorf("bsp: %d shares for %d tasks, want one for each of 1 to %d", len(j.MilliCPU), len(j.Works), maxTasks)
	}
	if !slices.Contains([]Method{Resize, RecreateAll, RecreateChanged}, j.Method) {
		return fmt.Errorf("bsp: method %q, want %s, %s or %s", j.Method, Resize, RecreateAll, RecreateChanged)
	}
	if j.Limit <= 0 {
		return fmt.Errorf("bsp: a limit of %v for a superstep, want more than 0", j.Limit)
	}
	return CheckShares(j.MilliCPU, most)
}

// CheckShares reports shares that cannot be given, each or together.
func CheckShares(milliCPU []int64, most int64) error {
	total := int64(0)
	for _, s := range milliCPU {
		if s < MinMilliCPU || s > most {
			return fmt.Errorf("bsp: a share of %d millicores, want %d to %d", s, MinMilliCPU, most)
		}
		total += s
	}
	if total > most {
		return fmt.Errorf("bsp: shares of %d millicores together, want at most the %d that there are", total, most)
	}
	return nil
}
