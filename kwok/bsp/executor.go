package bsp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrDead is wrapped by the error of a superstep in which a task died before it completed its work.
var ErrDead = errors.New("bsp: a task is dead")

// ErrLate is wrapped by the error of a gang start or a superstep that exceeds its time limit.
var ErrLate = errors.New("bsp: a task is late")

// An Executor starts jobs whose supersteps take real time.
type Executor interface {
	// Setting describes the machine and the method. Durations measured with different settings are not mixed.
	Setting() string
	// MaxMilliCPU returns the executor's capacity in millicores, which limits each task and the sum over a
	// job.
	MaxMilliCPU() int64
	// Start starts all tasks of a job, or none. When it returns, they are ready for a superstep.
	Start(ctx context.Context, j Job) (Crew, error)
	Close() error
}

// A Crew holds the running tasks of a job. Only one goroutine at a time may use it.
type Crew interface {
	// Replan changes the tasks' shares by the job's method, and returns when all tasks are ready with their
	// new shares.
	Replan(ctx context.Context, milliCPU []int64) error
	// Superstep releases all tasks together, waits for all at the barrier, and returns their durations. The
	// error wraps ErrDead if a task died, and ErrLate if one missed the barrier within the job's limit. After
	// an error only Close may be called.
	Superstep(ctx context.Context, sizes []float64) ([]time.Duration, error)
	Close() error
}

// Job describes a job to an [Executor].
type Job struct {
	Works    []Work
	MilliCPU []int64 // share of each task
	Method   Method
	Limit    time.Duration // time limit of a gang start, and of a superstep
}

// MinMilliCPU is the smallest share of a task: the kernel's smallest quota is 1 ms in 100 ms.
const MinMilliCPU = 10

// Check returns an error for a job that an executor with a capacity of limit millicores cannot run.
func (j *Job) Check(limit int64) error {
	if len(j.Works) == 0 || len(j.Works) > maxTasks || len(j.MilliCPU) != len(j.Works) {
		return fmt.Errorf("bsp: %d shares for %d tasks, want one for each of 1 to %d", len(j.MilliCPU), len(j.Works), maxTasks)
	}
	if !slices.Contains([]Method{Resize, RecreateAll, RecreateChanged}, j.Method) {
		return fmt.Errorf("bsp: method %q, want %s, %s or %s", j.Method, Resize, RecreateAll, RecreateChanged)
	}
	if j.Limit <= 0 {
		return fmt.Errorf("bsp: a limit of %v for a superstep, want more than 0", j.Limit)
	}
	return CheckShares(j.MilliCPU, limit)
}

// CheckShares returns an error for shares that are too small or, alone or together, exceed limit.
func CheckShares(milliCPU []int64, limit int64) error {
	total := int64(0)
	for _, s := range milliCPU {
		if s < MinMilliCPU || s > limit {
			return fmt.Errorf("bsp: a share of %d millicores, want %d to %d", s, MinMilliCPU, limit)
		}
		total += s
	}
	if total > limit {
		return fmt.Errorf("bsp: shares of %d millicores together, want at most the %d that there are", total, limit)
	}
	return nil
}
