package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// ErrInterrupted is wrapped by the error of a command that a signal ended. The error's text says what was saved
// and how to resume.
var ErrInterrupted = errors.New("interrupted")

// StatusInterrupted is the exit status of a command that a signal ended, as in shells after SIGINT.
const StatusInterrupted = 130

// Main runs the command line of this process until it ends or SIGINT or SIGTERM interrupts it, and returns the
// exit status. A second signal ends the process at once.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	err := Execute(ctx, root)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "trainer:", err)
	if errors.Is(err, ErrInterrupted) {
		return StatusInterrupted
	}
	return 1
}

// Execute runs the command that root's arguments name. If ctx ended it, the error wraps
// ErrInterrupted.
func Execute(ctx context.Context, root *cobra.Command) error {
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil, ctx.Err() == nil, errors.Is(err, ErrInterrupted):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: nothing is saved, and the same command starts over", ErrInterrupted)
	}
	return fmt.Errorf("%w: nothing is saved, and the same command starts over (%w)", ErrInterrupted, err)
}

// Computed returns the result of f, or the error of ctx as soon as ctx ends. In the latter case f runs on until
// the process ends, so it must write no file. Computed is for computations that do not watch ctx.
func Computed[T any](ctx context.Context, f func() (T, error)) (T, error) {
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
