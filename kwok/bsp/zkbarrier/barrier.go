// Package zkbarrier synchronizes the tasks of a bulk-synchronous job by a double barrier of ZooKeeper. Workers
// that run for many supersteps join it; a driver gives them their work, releases them together and waits for all.
//
// The path of the job contains these nodes:
//
//	members/TASK      ephemeral, one for each worker
//	work              the number of the current superstep, and the operations of each task
//	enter/STEP/TASK   ephemeral, one for each worker that is ready
//	enter/STEP/ready  releases the workers
//	leave/STEP/TASK   the result of each worker
//
// In the double barrier of ZooKeeper's recipes, a worker that crashes looks as if it had left. Here only a result
// counts: a member that disappears without a result is dead.
package zkbarrier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/kubernasium/kubernasium/kwok/bsp"
)

// sessionTimeout is the time after which ZooKeeper considers a silent worker dead. Its servers accept 2 to 20
// ticks, which are 2 s by default.
const sessionTimeout = 6 * time.Second

const ready = "ready"

// work is the content of the node of the same name.
type work struct {
	Step int              `json:"step"`
	Ops  map[string]int64 `json:"ops,omitempty"` // by task; empty ends the workers
}

// result is the content of a task's node below leave.
type result struct {
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// connectTimeout limits how long a server may take to answer, at first and after a lost connection.
const connectTimeout = 30 * time.Second

// connect opens a session. Requests wait while no server answers; after connectTimeout the session closes.
func connect(servers []string) (*zk.Conn, error) {
	conn, events, err := zk.Connect(servers, sessionTimeout, zk.WithLogger(quiet{}))
	if err != nil {
		return nil, fmt.Errorf("zkbarrier: %v: %w", servers, err)
	}
	up := make(chan bool)
	go guard(conn, events, up)
	if !<-up {
		return nil, fmt.Errorf("zkbarrier: no ZooKeeper server answers at %v within %v", servers, connectTimeout)
	}
	return conn, nil
}

// guard follows the events of a session until it closes, and reports its start or its failure to up.
func guard(conn *zk.Conn, events <-chan zk.Event, up chan<- bool) {
	timer := time.NewTimer(connectTimeout)
	defer timer.Stop()
	told := false
	tell := func(x bool) {
		if !told {
			told = true
			up <- x
		}
	}
	for {
		select {
		case e, ok := <-events:
			switch {
			case !ok:
				tell(false)
				return
			case e.State == zk.StateHasSession:
				timer.Stop()
				tell(true)
			case e.State == zk.StateDisconnected && told:
				timer.Reset(connectTimeout)
			}
		case <-timer.C:
			tell(false)
			conn.Close()
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// ensure creates a node and its parents.
func ensure(conn *zk.Conn, node string) error {
	at := ""
	for _, part := range strings.Split(strings.Trim(node, "/"), "/") {
		at += "/" + part
		if _, err := conn.Create(at, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("zkbarrier: create %s: %w", at, err)
		}
	}
	return nil
}

var _ bsp.Barrier = (*Barrier)(nil)

// Barrier is the driver's side. Only one goroutine at a time may use it.
type Barrier struct {
	conn  *zk.Conn
	base  string
	tasks []string
	step  int
}

// Open creates the barrier of a job at a path that nothing else uses.
func Open(servers []string, base string, tasks []string) (*Barrier, error) {
	conn, err := connect(servers)
	if err != nil {
		return nil, err
	}
	b := &Barrier{conn: conn, base: base, tasks: tasks}
	for _, node := range []string{"members", "enter", "leave"} {
		if err := ensure(conn, path.Join(base, node)); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return b, nil
}

// Join waits until all tasks are members.
func (b *Barrier) Join(ctx context.Context, limit time.Duration) error {
	return b.await(ctx, limit, path.Join(b.base, "members"), false, nil)
}

// Superstep gives each task its number of operations, releases all when all are ready, and returns their
// durations when all have ended.
func (b *Barrier) Superstep(ctx context.Context, ops []int64, limit time.Duration) ([]time.Duration, error) {
	n := fmt.Sprint(b.step)
	enter, leave := path.Join(b.base, "enter", n), path.Join(b.base, "leave", n)
	w := work{b.step, map[string]int64{}}
	for k, task := range b.tasks {
		w.Ops[task] = ops[k]
	}
	for _, node := range []string{enter, leave} {
		if err := ensure(b.conn, node); err != nil {
			return nil, err
		}
	}
	if err := b.set(w); err != nil {
		return nil, err
	}
	if err := b.await(ctx, limit, enter, true, nil); err != nil {
		return nil, fmt.Errorf("superstep %d: enter: %w", b.step, err)
	}
	if _, err := b.conn.Create(path.Join(enter, ready), nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		return nil, fmt.Errorf("superstep %d: release: %w", b.step, err)
	}
	durations := make([]time.Duration, len(b.tasks))
	err := b.await(ctx, limit, leave, true, func(k int) error {
		text, _, err := b.conn.Get(path.Join(leave, b.tasks[k]))
		var r result
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err == nil && r.Error != "" {
			err = fmt.Errorf("%w: %s: %s", bsp.ErrDead, b.tasks[k], r.Error)
		}
		durations[k] = max(1, time.Duration(r.Seconds*float64(time.Second)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("superstep %d: %w", b.step, err)
	}
	b.step++
	// A worker that is restarted must not find an earlier superstep.
	return durations, errors.Join(remove(b.conn, enter), remove(b.conn, leave))
}

// Expel removes tasks, given by index, from the members. Their workers have died, and new ones will join.
func (b *Barrier) Expel(tasks []int) error {
	for _, k := range tasks {
		if err := remove(b.conn, path.Join(b.base, "members", b.tasks[k])); err != nil {
			return err
		}
	}
	return nil
}

// set writes the node work.
func (b *Barrier) set(w work) error {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	node := path.Join(b.base, "work")
	_, err = b.conn.Set(node, text, -1)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = b.conn.Create(node, text, 0, zk.WorldACL(zk.PermAll))
	}
	if err != nil {
		return fmt.Errorf("zkbarrier: write %s: %w", node, err)
	}
	return nil
}

// await waits until each task has its node below a folder, and calls done for each new node. If members is set,
// a task that has neither a node nor a membership is dead.
func (b *Barrier) await(ctx context.Context, limit time.Duration, folder string, members bool, done func(task int) error) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	there := make([]bool, len(b.tasks))
	for {
		// Read the members first: a worker that leaves its result and then exits has both.
		alive, _, gone, err := b.conn.ChildrenW(path.Join(b.base, "members"))
		if err != nil {
			return fmt.Errorf("zkbarrier: members: %w", err)
		}
		nodes, _, changed, err := b.conn.ChildrenW(folder)
		if err != nil {
			return fmt.Errorf("zkbarrier: %s: %w", folder, err)
		}
		var missing []string
		for k, task := range b.tasks {
			switch {
			case there[k]:
			case slices.Contains(nodes, task):
				there[k] = true
				if done != nil {
					if err := done(k); err != nil {
						return err
					}
				}
			case members && !slices.Contains(alive, task):
				return fmt.Errorf("%w: %s has left without a result", bsp.ErrDead, task)
			default:
				missing = append(missing, task)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-gone:
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("%w: after %v these have no node below %s: %s; give them more time or more CPU", bsp.ErrLate, limit, folder, strings.Join(missing, ", "))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close ends the workers and removes all nodes below the path.
func (b *Barrier) Close() error {
	defer b.conn.Close()
	if err := b.set(work{Step: b.step}); err != nil {
		return err
	}
	for _, node := range []string{"enter", "leave"} {
		if err := remove(b.conn, path.Join(b.base, node)); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a node and its children.
func remove(conn *zk.Conn, node string) error {
	children, _, err := conn.Children(node)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("zkbarrier: %s: %w", node, err)
	}
	for _, c := range children {
		if err := remove(conn, path.Join(node, c)); err != nil {
			return err
		}
	}
	if err := conn.Delete(node, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("zkbarrier: delete %s: %w", node, err)
	}
	return nil
}
