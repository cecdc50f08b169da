package clitest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kubernasium/kubernasium/trainer/cli"
)

// countdown is a context that ends after its Err was called a number of times. It interrupts commands that
// check for each piece of work, however fast they are.
type countdown struct {
	context.Context
	left atomic.Int64
}

// EndsAfter returns a context that ends after the given number of calls of Err.
func EndsAfter(t *testing.T, asked int64) context.Context {
	t.Helper()
	c := &countdown{Context: t.Context()}
	c.left.Store(asked)
	return c
}

// Err implements [context.Context].
func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// Interrupted runs the command line until ctx ends it. The error must be an interrupt and match the pattern.
// Interrupted returns the pattern's groups and the standard output.
func (r Root) Interrupted(t *testing.T, ctx context.Context, pattern string, args ...string) (groups []string, stdout string) {
	t.Helper()
	stdout, _, err := r.Execute(t, ctx, args...)
	if !errors.Is(err, cli.ErrInterrupted) {
		t.Fatalf("trainer %s: %v, want an interrupt", strings.Join(args, " "), err)
	}
	groups = regexp.MustCompile(pattern).FindStringSubmatch(err.Error())
	if groups == nil || strings.Contains(err.Error(), "context canceled") {
		t.Fatalf("trainer %s: %q, want %s and nothing of a context", strings.Join(args, " "), err, pattern)
	}
	return groups, stdout
}

// WithEpisodes returns the number of trainings in the folder that have finished an episode.
func WithEpisodes(folder string) (trainings int) {
	one, _ := filepath.Glob(filepath.Join(folder, "*", "*", "monitor.csv")) // the pattern is valid
	many, _ := filepath.Glob(filepath.Join(folder, "*", "*", "seed_*", "monitor.csv"))
	for _, path := range append(one, many...) {
		if text, err := os.ReadFile(path); err == nil && strings.Count(string(text), "\n") > 2 {
			trainings++
		}
	}
	return trainings
}
