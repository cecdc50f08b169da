package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// errInterrupted is wrapped by the error of a command that a signal ended. The error says what was
// saved and how to resume.
var errInterrupted = errors.New("interrupted")

// statusInterrupted is the exit status of a command that a signal ended: that of shells for SIGINT.
const statusInterrupted = 130

// runProcess runs the command line of this process, until SIGINT or SIGTERM interrupts it, and
// returns the exit status. A second signal ends the process at once.
func runProcess(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	err := executeRoot(ctx, root)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "trainer:", err)
	if errors.Is(err, errInterrupted) {
		return statusInterrupted
	}
	return 1
}

// executeRoot runs the command that root's arguments name. If ctx ended it, the error wraps
// errInterrupted.
func executeRoot(ctx context.Context, root *cobra.Command) error {
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil, ctx.Err() == nil, errors.Is(err, errInterrupted):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: nothing is saved, and the same command starts over", errInterrupted)
	}
	return fmt.Errorf("%w: nothing is saved, and the same command starts over (%w)", errInterrupted, err)
}

// computed returns what f does, or the error of ctx as soon as that ends: f then goes on until the
// process ends, and so must write no file. It is for computations that do not attend to ctx.
func computed[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
