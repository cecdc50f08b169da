//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/kubernasium/kubernasium/kwok/bsp"
)

// ErrNoStress is wrapped by the error of [Open] if stress-ng is missing.
var ErrNoStress = errors.New("local: stress-ng is not installed: apt-get install stress-ng (Debian, Ubuntu)")

// Executor runs jobs as processes of this machine. It implements [bsp.Executor].
type Executor struct {
	path, version string // path of stress-ng
	limits        Limits
	temp          string // folder for files of the work
}

var _ bsp.Executor = (*Executor)(nil)

// Open returns an executor with the given limits, or with those of [OpenLimits] if they are nil. The executor
// closes the limits when it is closed.
func Open(ctx context.Context, limits Limits) (*Executor, error) {
	path, err := exec.LookPath("stress-ng")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoStress, err)
	}
	version, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", path, err)
	}
	if limits == nil {
		if limits, err = OpenLimits(); err != nil {
			return nil, err
		}
	}
	temp, err := os.MkdirTemp("", "kubernasium-work")
	if err != nil {
		return nil, errors.Join(err, limits.Close())
	}
	text, _, _ := strings.Cut(strings.TrimSpace(string(version)), " (")
	return &Executor{path: path, version: text, limits: limits, temp: temp}, nil
}

// Setting implements [bsp.Executor].
func (e *Executor) Setting() string {
	return fmt.Sprintf("local, %s, %s, %d cores", e.version, e.limits, runtime.NumCPU())
}

// MaxMilliCPU implements [bsp.Executor].
func (e *Executor) MaxMilliCPU() int64 { return 1000 * int64(runtime.NumCPU()) }

// Close implements [bsp.Executor].
func (e *Executor) Close() error { return errors.Join(e.limits.Close(), os.RemoveAll(e.temp)) }

// Start implements [bsp.Executor].
func (e *Executor) Start(ctx context.Context, j bsp.Job) (_ bsp.Crew, err error) {
	if err := j.Check(e.MaxMilliCPU()); err != nil {
		return nil, err
	}
	c := &crew{of: e, job: j, shares: append([]int64(nil), j.MilliCPU...), groups: make([]Group, len(j.Works)), members: make([]*member, len(j.Works))}
	for k := range j.Works {
		if err := c.create(k); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, ctx.Err()
}

// crew holds the processes of a job.
type crew struct {
	of      *Executor
	job     bsp.Job
	shares  []int64
	groups  []Group
	members []*member // each waits for its release; nil: not started
	step    int
}

// create creates the group of a task and starts its process in it.
func (c *crew) create(k int) (err error) {
	if c.groups[k] == nil {
		if c.groups[k], err = c.of.limits.Group(c.job.Works[k].Task, c.shares[k]); err != nil {
			return err
		}
	}
	c.members[k], err = startMember(c.of.path, c.job.Works[k], c.of.temp, c.groups[k])
	return err
}

// ready starts the processes that are missing.
func (c *crew) ready() error {
	for k, m := range c.members {
		if m == nil {
			if err := c.create(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// destroy ends the process of a task and removes its group.
func (c *crew) destroy(k int) error {
	if m := c.members[k]; m != nil {
		m.kill()
	}
	g := c.groups[k]
	c.members[k], c.groups[k] = nil, nil
	if g != nil {
		return g.Close()
	}
	return nil
}

// Replan implements [bsp.Crew].
func (c *crew) Replan(ctx context.Context, milliCPU []int64) error {
	if err := bsp.CheckShares(milliCPU, c.of.MaxMilliCPU()); err != nil {
		return err
	}
	if err := c.ready(); err != nil {
		return err
	}
	for k, s := range milliCPU {
		changed := s != c.shares[k]
		c.shares[k] = s
		switch {
		case c.job.Method == bsp.RecreateAll, c.job.Method == bsp.RecreateChanged && changed:
			if err := c.destroy(k); err != nil {
				return err
			}
		case changed:
			if err := c.groups[k].Set(s); err != nil {
				return err
			}
		}
	}
	if err := c.ready(); err != nil {
		return err
	}
	return ctx.Err()
}

// Superstep implements [bsp.Crew].
func (c *crew) Superstep(ctx context.Context, sizes []float64) ([]time.Duration, error) {
	if len(sizes) != len(c.members) {
		return nil, fmt.Errorf("local: %d sizes for %d tasks", len(sizes), len(c.members))
	}
	ops := make([]int64, len(sizes))
	for k, size := range sizes {
		var err error
		if ops[k], err = c.job.Works[k].Count(size); err != nil {
			return nil, err
		}
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	begins := make([]time.Time, len(sizes))
	for k, m := range c.members {
		begins[k] = time.Now()
		if err := m.work(ops[k]); err != nil {
			return nil, fmt.Errorf("superstep %d: %w: %s: release: %w", c.step, bsp.ErrDead, c.job.Works[k].Task, err)
		}
	}
	if err := c.barrier(ctx); err != nil {
		return nil, fmt.Errorf("superstep %d: %w", c.step, err)
	}
	durations := make([]time.Duration, len(sizes))
	for k, m := range c.members {
		durations[k] = m.end.Sub(begins[k])
		c.members[k] = nil
	}
	c.step++
	return durations, nil
}

// barrier waits until all processes have ended, one has failed, or the time limit has passed.
func (c *crew) barrier(ctx context.Context) error {
	timer := time.NewTimer(c.job.Limit)
	defer timer.Stop()
	ended := make(chan *member, len(c.members))
	for _, m := range c.members {
		go func() { // the process will end: Close kills it at the latest
			<-m.ended
			ended <- m
		}()
	}
	for range c.members {
		select {
		case m := <-ended:
			if m.err != nil {
				return m.err
			}
		case <-timer.C:
			return fmt.Errorf("%w: %v after their release these have not ended: %s; give them more time or more CPU",
				bsp.ErrLate, c.job.Limit, strings.Join(c.late(), ", "))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// late returns the tasks whose process has not ended.
func (c *crew) late() (tasks []string) {
	for k, m := range c.members {
		select {
		case <-m.ended:
		default:
			tasks = append(tasks, c.job.Works[k].Task)
		}
	}
	return tasks
}

// Close implements [bsp.Crew]: it ends all processes.
func (c *crew) Close() error {
	var errs []error
	for k := range c.members {
		errs = append(errs, c.destroy(k))
	}
	return errors.Join(errs...)
}
