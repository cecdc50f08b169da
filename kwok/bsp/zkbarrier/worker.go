package zkbarrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/go-zookeeper/zk"
)

// Work joins the barrier of a job as a task, and does its work in each superstep until the driver ends the job.
// An error of do becomes the task's result, and ends Work.
func Work(ctx context.Context, servers []string, base, task string, do func(ctx context.Context, ops int64) error) error {
	conn, err := connect(servers)
	if err != nil {
		return err
	}
	defer conn.Close()
	w := &worker{conn, base, task}
	if err := w.join(ctx); err != nil {
		return err
	}
	for step := -1; ; {
		next, err := w.next(ctx, step)
		if err != nil || len(next.Ops) == 0 {
			return err
		}
		step = next.Step
		if err := w.superstep(ctx, next, do); err != nil {
			return fmt.Errorf("superstep %d: %w", step, err)
		}
	}
}

type worker struct {
	conn       *zk.Conn
	base, task string
}

// join makes the worker a member. It waits for the session of an earlier worker of the same task to end.
func (w *worker) join(ctx context.Context) error {
	if err := ensure(w.conn, path.Join(w.base, "members")); err != nil {
		return err
	}
	node := path.Join(w.base, "members", w.task)
	for {
		_, err := w.conn.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if err == nil {
			return nil
		}
		if !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("zkbarrier: create %s: %w", node, err)
		}
		there, _, gone, err := w.conn.ExistsW(node)
		if err != nil {
			return fmt.Errorf("zkbarrier: %s: %w", node, err)
		}
		if there {
			if err := wait(ctx, gone); err != nil {
				return err
			}
		}
	}
}

// next returns the work of the first superstep after the given one.
func (w *worker) next(ctx context.Context, step int) (work, error) {
	node := path.Join(w.base, "work")
	for {
		there, _, changed, err := w.conn.ExistsW(node)
		if err != nil {
			return work{}, fmt.Errorf("zkbarrier: %s: %w", node, err)
		}
		if there {
			var next work
			text, _, err := w.conn.Get(node)
			if err == nil {
				err = json.Unmarshal(text, &next)
			}
			if err != nil {
				return work{}, fmt.Errorf("zkbarrier: %s: %w", node, err)
			}
			if next.Step > step || len(next.Ops) == 0 {
				return next, nil
			}
		}
		if err := wait(ctx, changed); err != nil {
			return work{}, err
		}
	}
}

// superstep enters, works and leaves.
func (w *worker) superstep(ctx context.Context, next work, do func(ctx context.Context, ops int64) error) error {
	ops, ok := next.Ops[w.task]
	if !ok {
		return fmt.Errorf("zkbarrier: no work for task %s", w.task)
	}
	enter := path.Join(w.base, "enter", fmt.Sprint(next.Step))
	// A restarted worker may find a superstep that its task has already completed.
	if _, err := w.conn.Create(path.Join(enter, w.task), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return fmt.Errorf("zkbarrier: enter: %w", err)
	}
	for {
		there, _, changed, err := w.conn.ExistsW(path.Join(enter, ready))
		if err != nil {
			return fmt.Errorf("zkbarrier: release: %w", err)
		}
		if there {
			break
		}
		if err := wait(ctx, changed); err != nil {
			return err
		}
	}
	begin := time.Now()
	err := do(ctx, ops)
	r := result{Seconds: time.Since(begin).Seconds()}
	if err != nil {
		r.Error = err.Error()
	}
	text, encoding := json.Marshal(r)
	if encoding != nil {
		return encoding
	}
	_, leaving := w.conn.Create(path.Join(w.base, "leave", fmt.Sprint(next.Step), w.task), text, 0, zk.WorldACL(zk.PermAll))
	if errors.Is(leaving, zk.ErrNodeExists) {
		leaving = nil // the result of the worker before this one
	}
	return errors.Join(err, leaving)
}

// wait waits for a watch. A watch also ends with its session.
func wait(ctx context.Context, events <-chan zk.Event) error {
	select {
	case e := <-events:
		return e.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
