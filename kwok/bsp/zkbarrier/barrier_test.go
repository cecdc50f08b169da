package zkbarrier

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubernasium/kubernasium/kwok/bsp"
	"github.com/kubernasium/kubernasium/kwok/bsp/zkbarrier/zktest"
)

// TestBarrier runs everything on one server, each at a path of its own.
func TestBarrier(t *testing.T) {
	servers := []string{zktest.Start(t)}
	for name, test := range map[string]func(*testing.T, []string){
		"supersteps": testSupersteps, "failure": testFailure, "crash": testCrash, "late": testLate, "created again": testAgain,
	} {
		t.Run(name, func(t *testing.T) { test(t, servers) })
	}
}

const limit = 30 * time.Second

// workers joins tasks; the function returned waits for their end.
func workers(t *testing.T, ctx context.Context, servers []string, base string, do func(ctx context.Context, task string, ops int64) error, tasks ...string) func() []error {
	t.Helper()
	errs := make([]error, len(tasks))
	var wait sync.WaitGroup
	for k, task := range tasks {
		wait.Go(func() {
			errs[k] = Work(ctx, servers, base, task, func(ctx context.Context, ops int64) error { return do(ctx, task, ops) })
		})
	}
	return func() []error { wait.Wait(); return errs }
}

func open(t *testing.T, servers []string, base string, tasks ...string) *Barrier {
	t.Helper()
	b, err := Open(servers, base, tasks)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// testSupersteps: three workers work at the same time, each its operations; none begins a superstep before all have ended
// the one before.
func testSupersteps(t *testing.T, servers []string) {
	b := open(t, servers, "/gang/steps", "a", "b", "c")
	var mu sync.Mutex
	var begun, ended, overlap int
	got := map[string][]int64{}
	end := workers(t, t.Context(), servers, "/gang/steps", func(_ context.Context, task string, ops int64) error {
		mu.Lock()
		begun++
		step := len(got[task])
		got[task] = append(got[task], ops)
		if ended < 3*step {
			overlap++
		}
		mu.Unlock()
		time.Sleep(time.Duration(ops) * time.Millisecond)
		mu.Lock()
		ended++
		mu.Unlock()
		return nil
	}, "a", "b", "c")
	if err := b.Join(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	for step, ops := range [][]int64{{100, 1, 200}, {1, 100, 1}} {
		d, err := b.Superstep(t.Context(), ops, limit)
		if err != nil {
			t.Fatal(err)
		}
		for k, n := range ops {
			if least := time.Duration(n) * time.Millisecond; d[k] < least || d[k] > least+limit {
				t.Errorf("superstep %d: task %d took %v, want %v", step, k, d[k], least)
			}
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for _, err := range end() {
		if err != nil {
			t.Errorf("a worker: %v", err)
		}
	}
	if overlap != 0 || begun != 6 || got["a"][0] != 100 || got["a"][1] != 1 || got["c"][0] != 200 {
		t.Errorf("%d began before the barrier, work %v", overlap, got)
	}
}

// testFailure: an error of a worker ends the superstep at once.
func testFailure(t *testing.T, servers []string) {
	b := open(t, servers, "/gang/failure", "a", "b")
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	end := workers(t, ctx, servers, "/gang/failure", func(ctx context.Context, task string, _ int64) error {
		if task == "b" {
			return errors.New("no memory")
		}
		<-ctx.Done()
		return ctx.Err()
	}, "a", "b")
	defer end()
	defer cancel()
	if err := b.Join(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Superstep(t.Context(), []int64{1, 1}, limit); !errors.Is(err, bsp.ErrDead) || !strings.Contains(err.Error(), "superstep 0: ") || !strings.Contains(err.Error(), "b: no memory") {
		t.Errorf("a failure: %v, want %v of b", err, bsp.ErrDead)
	}
}

// testCrash: a member that is gone without a result is dead, and has not left the barrier.
func testCrash(t *testing.T, servers []string) {
	b := open(t, servers, "/gang/crash", "a", "b")
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	end := workers(t, ctx, servers, "/gang/crash", func(ctx context.Context, _ string, _ int64) error {
		<-ctx.Done()
		return ctx.Err()
	}, "a")
	defer end()
	defer cancel()
	conn, err := connect(servers)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{conn, "/gang/crash", "b"}
	if err := w.join(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Join(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	go func() { // it enters, and its session ends while it works
		next, err := w.next(ctx, -1)
		if err == nil {
			_ = w.superstep(ctx, next, func(context.Context, int64) error { conn.Close(); return nil })
		}
	}()
	begin := time.Now()
	if _, err := b.Superstep(t.Context(), []int64{1, 1}, 5*time.Minute); !errors.Is(err, bsp.ErrDead) || !strings.Contains(err.Error(), "b has left without a result") {
		t.Errorf("a crash: %v, want %v of b", err, bsp.ErrDead)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it was noticed after %v, want some seconds", took)
	}
}

// testLate: a task that does not come, and one that does not end.
func testLate(t *testing.T, servers []string) {
	b := open(t, servers, "/gang/late", "a", "b")
	defer b.Close()
	ctx, cancel := context.WithCancel(t.Context())
	end := workers(t, ctx, servers, "/gang/late", func(ctx context.Context, _ string, ops int64) error {
		if ops > 1 {
			<-ctx.Done()
		}
		return ctx.Err()
	}, "a")
	defer end()
	defer cancel()
	if err := b.Join(t.Context(), time.Second); !errors.Is(err, bsp.ErrLate) || !strings.Contains(err.Error(), "members: b") && !strings.Contains(err.Error(), "members: a, b") {
		t.Errorf("b does not join: %v, want %v", err, bsp.ErrLate)
	}
	second := workers(t, ctx, servers, "/gang/late", func(context.Context, string, int64) error { return nil }, "b")
	defer second()
	defer cancel()
	if err := b.Join(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Superstep(t.Context(), []int64{2, 1}, 10*time.Second); !errors.Is(err, bsp.ErrLate) || !strings.Contains(err.Error(), ": a; give them") {
		t.Errorf("a does not end: %v, want %v", err, bsp.ErrLate)
	}
}

// testAgain: a worker in place of another waits for the next superstep, and does not repeat the last.
func testAgain(t *testing.T, servers []string) {
	b := open(t, servers, "/gang/again", "a")
	did := make(chan int64, 10)
	note := func(_ context.Context, _ string, ops int64) error { did <- ops; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	end := workers(t, ctx, servers, "/gang/again", note, "a")
	if err := b.Join(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Superstep(t.Context(), []int64{1}, limit); err != nil {
		t.Fatal(err)
	}
	cancel()
	end()
	if err := b.Expel([]int{0}); err != nil {
		t.Fatal(err)
	}
	end = workers(t, t.Context(), servers, "/gang/again", note, "a")
	if err := b.Join(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Superstep(t.Context(), []int64{2}, limit); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := end()[0]; err != nil {
		t.Error(err)
	}
	if len(did) != 2 || <-did != 1 || <-did != 2 {
		t.Error("the workers did other work than that of the two supersteps")
	}
}

// TestNoServer: without a server, and when it goes, there is an error after a while and no wait without end.
func TestNoServer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the time-out of connections; run it without -short")
	}
	if err := Work(t.Context(), []string{"127.0.0.1:1"}, "/gang/none", "a", nil); err == nil || !strings.Contains(err.Error(), "no ZooKeeper server answers at [127.0.0.1:1]") {
		t.Errorf("no server: %v", err)
	}
}
